//! The informer of a kind: one, or one for each namespace, under one face.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use informer_cache::handler::EventHandler;
use informer_cache::metrics::InformerMetrics;
use informer_cache::{
    AddHandlerError, CacheSynced, Event, HandlerOptions, HandlerRegistration, HandlerState, InformerRun,
    InformerState, SharedInformer, SyncError, Undecodable, wait_for_cache_sync,
};
use informer_core::{LabelSelector, Object};
use informer_store::{AddIndexersError, IndexError, IndexFn, Indexers, IndexersClaim};
use parking_lot::Mutex;
use tokio::sync::Mutex as AsyncMutex;
use tokio_util::sync::CancellationToken;

use super::ReadError;
use super::own_writes::{OwnWrite, PendingWrites, Ticket};
use super::plan::{PartScope, Selects};
use crate::ScopedKind;

/// The informer of a kind in a cache: one [`SharedInformer`], or several where the cache holds only some namespaces.
///
/// It has the face of a `SharedInformer`: handlers are added to all of them and called one at a time, lists are merged, and
/// it is synced when all are. Nothing is promised about the order of events of two namespaces. A cheap handle.
pub struct CacheInformer<O: Object> {
    inner: Arc<Inner<O>>,
}

struct Inner<O: Object> {
    kind: ScopedKind,
    /// At least one.
    parts: Vec<InformerPart<O>>,
    closed: CancellationToken,
}

/// One informer of a [`CacheInformer`], and the objects that it holds.
#[non_exhaustive]
pub struct InformerPart<O: Object> {
    /// Which objects of the kind.
    pub scope: PartScope,
    /// The informer.
    pub informer: SharedInformer<O>,
    pub(crate) selects: Selects,
    /// The own writes that the informer does not show yet.
    pub(super) pending: Arc<Mutex<PendingWrites>>,
}

impl<O: Object> CacheInformer<O> {
    pub(super) fn new(kind: ScopedKind, parts: Vec<InformerPart<O>>) -> Self {
        Self { inner: Arc::new(Inner { kind, parts, closed: CancellationToken::new() }) }
    }

    /// The kind.
    pub fn kind(&self) -> &ScopedKind {
        &self.inner.kind
    }

    /// The kind, as errors, logs and sources name it.
    pub fn name(&self) -> String {
        self.inner.kind.to_string()
    }

    /// The informers behind this face.
    pub fn parts(&self) -> &[InformerPart<O>] {
        &self.inner.parts
    }

    fn informers(&self) -> impl Iterator<Item = &SharedInformer<O>> {
        self.inner.parts.iter().map(|part| &part.informer)
    }

    /// The informer that holds the objects of a namespace.
    ///
    /// # Errors
    ///
    /// When the cache does not have the namespace.
    pub fn part_of(&self, namespace: Option<&str>) -> Result<&SharedInformer<O>, ReadError> {
        let known = || self.parts().iter().map(|part| part.scope.to_string()).collect::<Vec<_>>().join(", ");
        self.part_in(namespace).map(|part| &part.informer).ok_or_else(|| ReadError::UnknownNamespace {
            kind: self.name(),
            namespace: namespace.unwrap_or_default().to_owned(),
            known: known(),
        })
    }

    /// The part that holds the objects of a namespace.
    pub(super) fn part_in(&self, namespace: Option<&str>) -> Option<&InformerPart<O>> {
        let parts = &self.inner.parts;
        let holds = |scope: &PartScope| match scope {
            PartScope::All => true,
            PartScope::Namespace(held) => Some(held.as_str()) == namespace,
            PartScope::OtherNamespaces => false,
        };
        let rest = || parts.iter().find(|part| part.scope == PartScope::OtherNamespaces);
        parts.iter().find(|part| holds(&part.scope)).or_else(rest)
    }

    /// True if the part holds the objects of the namespace.
    pub(super) fn holds_namespace(&self, part: &InformerPart<O>, namespace: Option<&str>) -> bool {
        self.part_in(namespace).is_some_and(|holder| std::ptr::eq(holder, part))
    }

    /// Adds a handler with the default options. See [`add_handler_with`](Self::add_handler_with).
    ///
    /// # Errors
    ///
    /// As [`SharedInformer::add_handler`].
    pub fn add_handler(
        &self,
        handler: impl EventHandler<O>,
    ) -> Result<CacheRegistration<O>, AddHandlerError> {
        self.add_handler_with(HandlerOptions::default(), handler)
    }

    /// Adds a handler to all informers of the kind; it is called for one event at a time. It stays until
    /// [`CacheRegistration::remove`].
    ///
    /// # Errors
    ///
    /// As [`SharedInformer::add_handler`]; then it is added to none.
    pub fn add_handler_with(
        &self,
        options: HandlerOptions,
        handler: impl EventHandler<O>,
    ) -> Result<CacheRegistration<O>, AddHandlerError> {
        let mut parts = Vec::with_capacity(self.inner.parts.len());
        let removed = Arc::new(AtomicBool::new(false));
        if let [only] = self.inner.parts.as_slice() {
            parts.push(only.informer.add_handler_with(options, handler)?);
            return Ok(CacheRegistration { parts, removed });
        }
        let handler = Arc::new(AsyncMutex::new(handler));
        for informer in self.informers() {
            let turn = InTurn { handler: Arc::clone(&handler), removed: Arc::clone(&removed) };
            match informer.add_handler_with(options.clone(), turn) {
                Ok(registration) => parts.push(registration),
                Err(error) => {
                    parts.iter().for_each(HandlerRegistration::remove);
                    return Err(error);
                }
            }
        }
        Ok(CacheRegistration { parts, removed })
    }

    /// Adds an index to all informers of the kind, before or while they run.
    ///
    /// # Errors
    ///
    /// When the name is taken, be it in one of them; then none has it.
    pub fn add_index(
        &self,
        name: impl Into<Arc<str>>,
        function: impl IndexFn<O>,
    ) -> Result<(), AddIndexersError> {
        let indexers = Indexers::new().index(name, function);
        let claims = self.informers().map(|informer| informer.indexer().claim_indexers(indexers.clone()));
        let claims: Vec<_> = claims.collect::<Result<_, _>>()?;
        claims.into_iter().for_each(IndexersClaim::install);
        Ok(())
    }

    /// The object of a key, `namespace/name` or `name`.
    ///
    /// # Errors
    ///
    /// When the cache does not have the namespace.
    pub fn get(&self, key: &(impl AsRef<str> + ?Sized)) -> Result<Option<Arc<O>>, ReadError> {
        let key = self.inner.kind.key(key.as_ref());
        let namespace = key.split_once('/').map(|(namespace, _)| namespace);
        Ok(self.part_of(namespace)?.indexer().get(key))
    }

    /// The objects of all namespaces that the selector chooses, in no particular order.
    pub fn list(&self, selector: &LabelSelector) -> Vec<Arc<O>> {
        self.informers().flat_map(|informer| informer.lister().list(selector)).collect()
    }

    /// The objects that have `value` in the index `name`.
    ///
    /// # Errors
    ///
    /// When there is no such index.
    pub fn by_index(&self, name: &str, value: &str) -> Result<Vec<Arc<O>>, IndexError> {
        let mut found = Vec::new();
        for informer in self.informers() {
            found.extend(informer.by_index(name, value)?);
        }
        Ok(found)
    }

    /// How many objects there are.
    pub fn len(&self) -> usize {
        self.informers().map(|informer| informer.indexer().len()).sum()
    }

    /// True where there is no object.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// True while all informers of the kind are synced.
    pub fn has_synced(&self) -> bool {
        self.informers().all(SharedInformer::has_synced)
    }

    /// Waits until all informers of the kind are synced, and for no others.
    ///
    /// # Errors
    ///
    /// After `timeout`: which is not, what it is doing, and its last error.
    pub async fn wait_for_sync(&self, timeout: Duration) -> Result<(), SyncError> {
        wait_for_cache_sync(self.as_caches(), timeout).await
    }

    /// True once an informer of the kind has stopped.
    pub fn is_stopped(&self) -> bool {
        self.informers().any(SharedInformer::is_stopped)
    }

    /// True once the informer was removed from its cache: who still holds it reads what it had then.
    pub fn is_removed(&self) -> bool {
        self.inner.closed.is_cancelled()
    }

    /// Resolves when the informer is removed from its cache.
    pub(super) async fn removed(&self) {
        self.inner.closed.cancelled().await;
    }

    /// Objects that could not be read.
    pub fn undecodable(&self) -> Vec<Undecodable> {
        self.informers().flat_map(SharedInformer::undecodable).collect()
    }
}

impl<O: Object> Clone for CacheInformer<O> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner) }
    }
}

impl<O: Object> Clone for InformerPart<O> {
    fn clone(&self) -> Self {
        Self {
            scope: self.scope.clone(),
            informer: self.informer.clone(),
            selects: self.selects.clone(),
            pending: Arc::clone(&self.pending),
        }
    }
}

impl<O: Object> fmt::Debug for InformerPart<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InformerPart").field("scope", &self.scope).field("informer", &self.informer).finish()
    }
}

impl<O: Object> fmt::Debug for CacheInformer<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CacheInformer")
            .field("kind", &self.inner.kind)
            .field("parts", &self.inner.parts)
            .finish_non_exhaustive()
    }
}

/// One handler shared by several informers. The listener of each informer waits for the lock of the handler with the event that it
/// has taken out of its buffer, and drops the event if the handler was removed meanwhile.
struct InTurn<H> {
    handler: Arc<AsyncMutex<H>>,
    removed: Arc<AtomicBool>,
}

impl<O: Object, H: EventHandler<O>> EventHandler<O> for InTurn<H> {
    fn handle(&mut self, event: Event<O>) -> impl Future<Output = ()> + Send {
        let (handler, removed) = (Arc::clone(&self.handler), Arc::clone(&self.removed));
        async move {
            let mut handler = handler.lock().await;
            if !removed.load(Ordering::Acquire) {
                handler.handle(event).await;
            }
        }
    }
}

/// A handler of a [`CacheInformer`]. Dropping it changes nothing; [`remove`](Self::remove) takes the handler away.
pub struct CacheRegistration<O: Object> {
    parts: Vec<HandlerRegistration<O>>,
    /// Read by listeners that wait for the handler.
    removed: Arc<AtomicBool>,
}

impl<O: Object> CacheRegistration<O> {
    /// True once the handler has handled every object of the first lists, or of what the cache held when it came.
    pub fn has_synced(&self) -> bool {
        self.parts.iter().all(HandlerRegistration::has_synced)
    }

    /// Waits until [`has_synced`](Self::has_synced).
    ///
    /// # Errors
    ///
    /// After `timeout`: how far the handler is, what the informer does, and its last error.
    pub async fn wait_for_sync(&self, timeout: Duration) -> Result<(), SyncError> {
        wait_for_cache_sync(self.parts.iter().map(|part| part as &dyn CacheSynced), timeout).await
    }

    /// Takes the handler away: no call begins after this returns, in any namespace. A second call does nothing.
    pub fn remove(&self) {
        self.removed.store(true, Ordering::Release);
        self.parts.iter().for_each(HandlerRegistration::remove);
    }

    /// As [`remove`](Self::remove), and waits until the calls in flight have returned. The handler must not await it.
    pub async fn remove_and_wait(&self) {
        self.removed.store(true, Ordering::Release);
        join_all(self.parts.iter().map(HandlerRegistration::remove_and_wait)).await;
    }

    /// Depth, calls and panics, for each informer of the kind.
    pub fn states(&self) -> Vec<HandlerState> {
        self.parts.iter().map(HandlerRegistration::state).collect()
    }
}

impl<O: Object> fmt::Debug for CacheRegistration<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CacheRegistration").field(&self.parts).finish()
    }
}

/// An informer of a cache without its type.
pub(super) trait ErasedInformer: Send + Sync {
    fn start(&self) -> Vec<InformerRun>;
    fn as_caches(&self) -> Vec<&dyn CacheSynced>;
    fn states(&self) -> Vec<InformerState>;
    fn show_in(&self, metrics: &dyn InformerMetrics);
    fn close(&self);
    /// How often the informers followed a server that went back to an older state.
    fn rewinds(&self) -> u64;
    /// Lets reads wait for a write that ended at `ended`.
    fn own_write(&self, write: &OwnWrite<'_>, ended: Ticket);
}

impl<O: Object> ErasedInformer for CacheInformer<O> {
    fn start(&self) -> Vec<InformerRun> {
        self.informers().map(SharedInformer::start).collect()
    }

    fn as_caches(&self) -> Vec<&dyn CacheSynced> {
        self.informers().map(|informer| informer as &dyn CacheSynced).collect()
    }

    fn states(&self) -> Vec<InformerState> {
        self.informers().map(SharedInformer::state).collect()
    }

    fn show_in(&self, metrics: &dyn InformerMetrics) {
        self.informers().for_each(|informer| metrics.observe(informer.probe()));
    }

    fn close(&self) {
        self.inner.closed.cancel();
    }

    fn rewinds(&self) -> u64 {
        self.informers().map(SharedInformer::rewinds).sum()
    }

    fn own_write(&self, write: &OwnWrite<'_>, ended: Ticket) {
        self.record_own_write(write, ended);
    }
}

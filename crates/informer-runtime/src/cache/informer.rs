//! [`CacheInformer`] is the informer of a kind in a cache. It consists of one `SharedInformer`, or of one for
//! each namespace of the cache, behind a common interface.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use informer_cache::handler::{EventHandler, on_event, on_event_async};
use informer_cache::metrics::InformerMetrics;
use informer_cache::{
    AddHandlerError, CacheSynced, Event, HandlerOptions, HandlerRegistration, HandlerState, InformerRun,
    InformerState, SharedInformer, SyncError, Undecodable, wait_for_cache_sync,
};
use informer_client::DiscoveredScope;
use informer_core::{LabelSelector, Object};
use informer_store::{AddIndexersError, IndexError, IndexFn, Indexers, IndexersClaim};
use parking_lot::Mutex;
use tokio::sync::{Mutex as AsyncMutex, watch};
use tokio_util::sync::CancellationToken;

use super::own_writes::{OwnWrite, PendingWrites, Ticket};
use super::plan::{InformerScope, InformerSelectors};
use crate::ReadError;
use crate::ResourceKind;
use crate::kind::scoped_key;

/// The informer of a kind in a cache: one [`SharedInformer`], or several if the cache is restricted to some
/// namespaces.
///
/// This type has the interface of a `SharedInformer`: a handler is added to all informers of the kind and
/// called for one event at a time, lists are merged, and the kind has synced when all of its informers have.
/// The order of events of different namespaces is unspecified. This type is a cheap handle.
pub struct CacheInformer<O: Object> {
    inner: Arc<InformerInner<O>>,
}

struct InformerInner<O: Object> {
    kind: ResourceKind,
    /// One `SharedInformer` for each scope of the kind: for all objects, or for each cached namespace. Never
    /// empty.
    scoped: Vec<ScopedInformer<O>>,
    closed: CancellationToken,
    /// False while the CRD of the kind is deleted, or while the server does not know a kind without a CRD.
    served: watch::Sender<bool>,
}

/// One of the `SharedInformer`s of a [`CacheInformer`], with its scope: all objects of the kind, or those of
/// certain namespaces.
#[non_exhaustive]
pub struct ScopedInformer<O: Object> {
    /// The part of the kind that `informer` caches: all objects, or those of certain namespaces.
    pub scope: InformerScope,
    /// The informer that caches the objects of `scope`.
    pub informer: SharedInformer<O>,
    pub(crate) selectors: InformerSelectors,
    pub(super) pending: Arc<Mutex<PendingWrites>>,
    pub(super) discovered_scope: DiscoveredScope,
}

impl<O: Object> CacheInformer<O> {
    pub(super) fn new(kind: ResourceKind, scoped: Vec<ScopedInformer<O>>) -> Self {
        Self {
            inner: Arc::new(InformerInner {
                kind,
                scoped,
                closed: CancellationToken::new(),
                served: watch::Sender::new(true),
            }),
        }
    }

    /// Returns the kind of the objects in this informer.
    pub fn kind(&self) -> &ResourceKind {
        &self.inner.kind
    }

    /// Returns the name of the kind, as it appears in errors, logs and the names of controller sources.
    pub fn name(&self) -> String {
        self.inner.kind.to_string()
    }

    /// Returns the `SharedInformer`s of the kind, each with its scope.
    pub fn scoped_informers(&self) -> &[ScopedInformer<O>] {
        &self.inner.scoped
    }

    fn informers(&self) -> impl Iterator<Item = &SharedInformer<O>> {
        self.inner.scoped.iter().map(|scoped| &scoped.informer)
    }

    /// Returns the informer that caches the objects of a namespace.
    ///
    /// # Errors
    ///
    /// Returns an error if the namespace is not cached.
    pub fn informer_for(&self, namespace: Option<&str>) -> Result<&SharedInformer<O>, ReadError> {
        let known = || {
            self.scoped_informers()
                .iter()
                .map(|scoped| scoped.scope.to_string())
                .collect::<Vec<_>>()
                .join(", ")
        };
        self.scoped_informer(namespace).map(|scoped| &scoped.informer).ok_or_else(|| {
            ReadError::UnknownNamespace {
                kind: self.name(),
                namespace: namespace.unwrap_or_default().to_owned(),
                known: known(),
            }
        })
    }

    pub(super) fn scoped_informer(&self, namespace: Option<&str>) -> Option<&ScopedInformer<O>> {
        let all = &self.inner.scoped;
        // The only informer of a kind that discovery has reported as cluster-scoped holds all objects.
        if let [only] = all.as_slice()
            && only.discovered_scope.is_cluster_scoped()
        {
            return Some(only);
        }
        let holds = |scope: &InformerScope| match scope {
            InformerScope::All => true,
            InformerScope::Namespace(held) => Some(held.as_str()) == namespace,
            InformerScope::OtherNamespaces => false,
        };
        let rest = || all.iter().find(|scoped| scoped.scope == InformerScope::OtherNamespaces);
        all.iter().find(|scoped| holds(&scoped.scope)).or_else(rest)
    }

    pub(super) fn holds_namespace(&self, scoped: &ScopedInformer<O>, namespace: Option<&str>) -> bool {
        self.scoped_informer(namespace).is_some_and(|holder| std::ptr::eq(holder, scoped))
    }

    /// Adds a handler with the default options. See [`add_handler_with`](Self::add_handler_with).
    ///
    /// # Errors
    ///
    /// The same errors as [`SharedInformer::add_handler`].
    pub fn add_handler(
        &self,
        handler: impl EventHandler<O>,
    ) -> Result<CacheRegistration<O>, AddHandlerError> {
        self.add_handler_with(HandlerOptions::default(), handler)
    }

    /// Adds a closure as a handler, as [`add_handler`](Self::add_handler) with
    /// [`on_event`](informer_cache::handler::on_event) does. The closure needs no type, because its argument is
    /// an event of this informer. It must not block.
    ///
    /// # Errors
    ///
    /// The same errors as [`SharedInformer::add_handler`].
    pub fn on_event(
        &self,
        callback: impl FnMut(Event<O>) + Send + 'static,
    ) -> Result<CacheRegistration<O>, AddHandlerError> {
        self.add_handler(on_event(callback))
    }

    /// Adds a closure that returns a future, as [`add_handler`](Self::add_handler) with
    /// [`on_event_async`](informer_cache::handler::on_event_async) does. The closure needs no type.
    ///
    /// # Errors
    ///
    /// The same errors as [`SharedInformer::add_handler`].
    pub fn on_event_async<F>(
        &self,
        callback: impl FnMut(Event<O>) -> F + Send + 'static,
    ) -> Result<CacheRegistration<O>, AddHandlerError>
    where
        F: Future<Output = ()> + Send,
    {
        self.add_handler(on_event_async(callback))
    }

    /// Adds a handler to all informers of the kind. The handler is called for one event at a time, until it
    /// is removed with [`CacheRegistration::remove`].
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`SharedInformer::add_handler`]. The handler is then added to no informer.
    pub fn add_handler_with(
        &self,
        options: HandlerOptions,
        handler: impl EventHandler<O>,
    ) -> Result<CacheRegistration<O>, AddHandlerError> {
        let mut registrations = Vec::with_capacity(self.inner.scoped.len());
        let removed = Arc::new(AtomicBool::new(false));
        if let [only] = self.inner.scoped.as_slice() {
            registrations.push(only.informer.add_handler_with(options, handler)?);
            return Ok(CacheRegistration { registrations, removed });
        }
        let handler = Arc::new(AsyncMutex::new(handler));
        for informer in self.informers() {
            let shared = SharedHandler { handler: Arc::clone(&handler), removed: Arc::clone(&removed) };
            match informer.add_handler_with(options.clone(), shared) {
                Ok(registration) => registrations.push(registration),
                Err(error) => {
                    registrations.iter().for_each(HandlerRegistration::remove);
                    return Err(error);
                }
            }
        }
        Ok(CacheRegistration { registrations, removed })
    }

    /// Adds an index to all informers of the kind, before or while they run.
    ///
    /// # Errors
    ///
    /// Returns an error if one of the informers has an index of that name. The index is then added to no
    /// informer.
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

    /// Adds an index by a closure, as [`add_index`](Self::add_index) does. The closure needs no type, because
    /// its argument is an object of this informer.
    ///
    /// # Errors
    ///
    /// Returns an error if one of the informers has an index of that name. The index is then added to no
    /// informer.
    pub fn add_index_fn<I>(
        &self,
        name: impl Into<Arc<str>>,
        function: impl Fn(&O) -> I + Send + Sync + 'static,
    ) -> Result<(), AddIndexersError>
    where
        I: IntoIterator<Item: AsRef<str>>,
    {
        self.add_index(name, function)
    }

    /// Returns the object with a key of the form `namespace/name` or `name`.
    ///
    /// # Errors
    ///
    /// Returns an error if the namespace is not cached.
    pub fn get(&self, key: &(impl AsRef<str> + ?Sized)) -> Result<Option<Arc<O>>, ReadError> {
        let key = scoped_key(&self.inner.kind, key.as_ref());
        let namespace = key.split_once('/').map(|(namespace, _)| namespace);
        Ok(self.informer_for(namespace)?.indexer().get(key))
    }

    /// Returns the objects of all cached namespaces that match the selector, unordered.
    pub fn list(&self, selector: &LabelSelector) -> Vec<Arc<O>> {
        self.informers().flat_map(|informer| informer.lister().list(selector)).collect()
    }

    /// Returns the objects with `value` in the index `name`.
    ///
    /// # Errors
    ///
    /// Returns an error if the informers have no index of this name.
    pub fn by_index(&self, name: &str, value: &str) -> Result<Vec<Arc<O>>, IndexError> {
        let mut objects = Vec::new();
        for informer in self.informers() {
            objects.extend(informer.by_index(name, value)?);
        }
        Ok(objects)
    }

    /// Returns the number of cached objects, in all cached namespaces.
    pub fn len(&self) -> usize {
        self.informers().map(|informer| informer.indexer().len()).sum()
    }

    /// Returns true if the cache contains no object of the kind.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns true if all informers of the kind have synced, which means that their stores contain the first
    /// list.
    pub fn has_synced(&self) -> bool {
        self.informers().all(SharedInformer::has_synced)
    }

    /// Waits until all informers of the kind have synced. Does not wait for other kinds.
    ///
    /// # Errors
    ///
    /// Returns an error after `timeout`. The error names the informer, its activity and its last error.
    pub async fn wait_for_sync(&self, timeout: Duration) -> Result<(), SyncError> {
        wait_for_cache_sync(self.as_caches(), timeout).await
    }

    /// Returns true once at least one informer of the kind has stopped.
    pub fn is_stopped(&self) -> bool {
        self.informers().any(SharedInformer::is_stopped)
    }

    /// Returns true once the informer was removed from its cache. Its store keeps the last state.
    pub fn is_removed(&self) -> bool {
        self.inner.closed.is_cancelled()
    }

    /// Returns false while the CustomResourceDefinition of the kind is deleted, if the cache [follows
    /// CRDs](super::CacheBuilder::follow_crds). The informer then does not run, and its store keeps the last
    /// state. Also returns false while the server responds with 404 and the kind has no CRD; the informer
    /// then continues to list with backoff.
    pub fn is_served(&self) -> bool {
        *self.inner.served.borrow()
    }

    /// Returns a channel with the value of [`is_served`](Self::is_served), to wait for changes.
    pub fn served(&self) -> watch::Receiver<bool> {
        self.inner.served.subscribe()
    }

    /// Waits until the kind is not served any more.
    pub(super) async fn unserved(&self) {
        let mut served = self.served();
        // The wait cannot fail: `self` owns the sender of this channel.
        let _ = served.wait_for(|served| !served).await;
    }

    pub(super) async fn removed(&self) {
        self.inner.closed.cancelled().await;
    }

    /// Returns the objects of the kind that the server has sent and that could not be decoded.
    pub fn undecodable(&self) -> Vec<Undecodable> {
        self.informers().flat_map(SharedInformer::undecodable).collect()
    }
}

impl<O: Object> Clone for CacheInformer<O> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner) }
    }
}

impl<O: Object> Clone for ScopedInformer<O> {
    fn clone(&self) -> Self {
        Self {
            scope: self.scope.clone(),
            informer: self.informer.clone(),
            selectors: self.selectors.clone(),
            pending: Arc::clone(&self.pending),
            discovered_scope: self.discovered_scope.clone(),
        }
    }
}

impl<O: Object> fmt::Debug for ScopedInformer<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScopedInformer")
            .field("scope", &self.scope)
            .field("informer", &self.informer)
            .finish()
    }
}

impl<O: Object> fmt::Debug for CacheInformer<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CacheInformer")
            .field("kind", &self.inner.kind)
            .field("informers", &self.inner.scoped)
            .finish_non_exhaustive()
    }
}

/// An event handler that the informers of several namespaces share. A lock ensures that the handler is called
/// for one event at a time. If the handler was removed while an informer's listener waited for the lock, the
/// listener drops its event.
struct SharedHandler<H> {
    handler: Arc<AsyncMutex<H>>,
    removed: Arc<AtomicBool>,
}

impl<O: Object, H: EventHandler<O>> EventHandler<O> for SharedHandler<H> {
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

/// The registration of a handler with a [`CacheInformer`]. Dropping the registration has no effect;
/// [`remove`](Self::remove) removes the handler.
pub struct CacheRegistration<O: Object> {
    registrations: Vec<HandlerRegistration<O>>,
    /// Set to true when the handler is removed. A listener that was waiting for the lock of the handler then
    /// drops its event instead of calling the handler.
    removed: Arc<AtomicBool>,
}

impl<O: Object> CacheRegistration<O> {
    /// Returns true once the handler has handled its initial objects: those of the informers' first lists, or
    /// those in the stores when the handler was added.
    pub fn has_synced(&self) -> bool {
        self.registrations.iter().all(HandlerRegistration::has_synced)
    }

    /// Waits until the handler has handled its initial objects, which means that
    /// [`has_synced`](Self::has_synced) returns true.
    ///
    /// # Errors
    ///
    /// Returns an error after `timeout`. The error contains the progress of the handler, the activity of the
    /// informer, and the last error of the informer.
    pub async fn wait_for_sync(&self, timeout: Duration) -> Result<(), SyncError> {
        wait_for_cache_sync(self.registrations.iter().map(|scoped| scoped as &dyn CacheSynced), timeout).await
    }

    /// Removes the handler. After this method has returned, no call of the handler begins in any namespace. A
    /// second call has no effect.
    pub fn remove(&self) {
        self.removed.store(true, Ordering::Release);
        self.registrations.iter().for_each(HandlerRegistration::remove);
    }

    /// Removes the handler as [`remove`](Self::remove) does, and waits for running calls of the handler. The
    /// handler itself must not await this method, because it would wait for itself.
    pub async fn remove_and_wait(&self) {
        self.removed.store(true, Ordering::Release);
        join_all(self.registrations.iter().map(HandlerRegistration::remove_and_wait)).await;
    }

    /// Returns the number of pending events, calls and panics of the handler for each informer of the kind.
    pub fn states(&self) -> Vec<HandlerState> {
        self.registrations.iter().map(HandlerRegistration::state).collect()
    }
}

impl<O: Object> fmt::Debug for CacheRegistration<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CacheRegistration").field(&self.registrations).finish()
    }
}

pub(super) trait ErasedInformer: Send + Sync {
    fn start(&self) -> Vec<InformerRun>;
    fn as_caches(&self) -> Vec<&dyn CacheSynced>;
    fn states(&self) -> Vec<InformerState>;
    fn show_in(&self, metrics: &dyn InformerMetrics);
    fn close(&self);
    fn kind_name(&self) -> String;
    /// Returns the name of the CRD that the kind has if it is a custom resource.
    fn crd_name(&self) -> String;
    fn is_served(&self) -> bool;
    fn set_served(&self, served: bool);
    /// Returns the number of consecutive requests that failed because the server does not know the kind.
    fn not_found(&self) -> u64;
    /// Returns whether the last request of the informer failed.
    fn is_failing(&self) -> bool;
    /// Returns whether the informer has handlers or more than `owned` handles.
    fn is_held(&self, owned: usize) -> bool;
    /// Returns the total number of rewinds of the informers of this kind. In a rewind an informer replaces
    /// its objects by an older state, because the server was restored from a backup.
    fn rewinds(&self) -> u64;
    /// Makes later reads of this kind wait until the informers contain the completed write. `ended` is the
    /// ticket of its end, a number that orders it among the other writes of the program.
    fn own_write(&self, write: &OwnWrite<'_>, ended: Ticket);
    /// Returns a reference to a cached object.
    #[cfg(feature = "console")]
    fn subject(&self, key: &str) -> Option<crate::EventSubject>;
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

    fn kind_name(&self) -> String {
        self.name()
    }

    fn crd_name(&self) -> String {
        super::crds::crd_name(&self.inner.kind)
    }

    fn is_served(&self) -> bool {
        Self::is_served(self)
    }

    fn set_served(&self, served: bool) {
        self.inner.served.send_if_modified(|held| std::mem::replace(held, served) != served);
    }

    fn not_found(&self) -> u64 {
        self.informers().map(|informer| informer.reflector_status().not_found).max().unwrap_or_default()
    }

    fn is_failing(&self) -> bool {
        self.informers().any(|informer| informer.reflector_status().is_failing())
    }

    fn is_held(&self, owned: usize) -> bool {
        Arc::strong_count(&self.inner) > owned
            || self.informers().any(|informer| !informer.state().handlers.is_empty())
    }

    fn rewinds(&self) -> u64 {
        self.informers().map(SharedInformer::rewinds).sum()
    }

    fn own_write(&self, write: &OwnWrite<'_>, ended: Ticket) {
        self.record_own_write(write, ended);
    }

    #[cfg(feature = "console")]
    fn subject(&self, key: &str) -> Option<crate::EventSubject> {
        let object = self.get(key).ok()??;
        Some(crate::EventSubject::of_kind(self.inner.kind.gvk(), &*object))
    }
}

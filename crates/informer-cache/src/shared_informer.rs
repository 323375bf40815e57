//! One cache, many handlers.
//!
//! # Tasks
//!
//! A run is one task that reflects (the [`Reflector`]), one that pumps (queue to store to listeners), and one for each
//! handler. They talk through the in-order queue and the listeners' buffers, nothing else.
//!
//! # Invariants
//!
//! 1. Only the pump's task writes the store, and only it adds listeners to the processor: a handler that joins sees one
//!    snapshot, then every later change.
//! 2. At most one run has the core (pump and processor): it is behind an asynchronous lock that a run holds from
//!    its beginning to its end.
//! 3. Life cycle: `Idle → Running → Stopping → Stopped → Running → …`; only `start` and the end of a run change it.
//!
//! # Lock order
//!
//! `lifecycle`, then `attached`, then `joining`. Handlers, transforms, index functions and hooks run under none of them.
//!
//! # Shutdown
//!
//! 1. The last [`InformerRun`] is dropped, or [`InformerRun::stop`] called: the run's token is cancelled.
//! 2. The reflector drops its request; the pump finishes its batch; each listener finishes its call.
//! 3. The tasks end, and with them the run. The store keeps what it held and can still be read.

mod builder;
mod core;
mod registration;
mod run;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use informer_core::Object;
use informer_store::{AddIndexersError, IndexError, IndexFn, Indexer, Indexers, Lister, Snapshot};
use tokio::sync::watch;

use self::core::Shared;
pub use builder::SharedInformerBuilder;
pub use registration::{AddHandlerError, EventStream, HandlerRegistration, MAX_HANDLERS};
pub use run::InformerRun;

use crate::handler::EventHandler;
use crate::metrics::InformerProbe;
use crate::source::ListWatch;
use crate::sync::{CacheSynced, SyncError};
use crate::{HandlerOptions, InformerState, Undecodable};

/// One cache of one kind of objects, fed by one list and watch, with any number of handlers.
///
/// # Contract
///
/// - *Staleness*: the cache follows the source with a delay; nothing is promised about two informers.
/// - *Order*: per object, handlers see a legal history (see [`Event`](crate::Event)); different handlers wait only for
///   themselves. When a handler runs, the cache shows that state or a later one.
/// - *Late handlers* are told of what is in the cache first, as initial adds, then of every later change.
/// - *Resync* tells a handler of every object again, from the cache; it never asks the source.
/// - *Synced*: [`has_synced`](Self::has_synced) of the informer means that its first list is in the cache; of a
///   [`HandlerRegistration`], that the handler has handled it.
/// - *Reads* through [`lister`](Self::lister), [`by_index`](Self::by_index) and [`snapshot`](Self::snapshot) never wait
///   for the source or for a handler.
///
/// # Life cycle
///
/// Handles are cheap clones. [`start`](Self::start) returns a counted [`InformerRun`]; the informer runs until the last of
/// them is dropped. It can be started again: the cache is kept, the new run's first list is compared with it, and
/// handlers are told of the difference.
///
/// Upstream: [`SharedIndexInformer`](https://pkg.go.dev/k8s.io/client-go/tools/cache#SharedIndexInformer).
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// use std::time::Duration;
/// use informer_cache::handler::on_event;
/// use informer_cache::testing::{StaticSource, object};
/// use informer_cache::SharedInformer;
///
/// let informer = SharedInformer::new(StaticSource::new([object("default/web", "1")], "1"));
/// informer.add_handler(on_event(|event| println!("{event}")))?;
/// let run = informer.start();
/// informer.wait_for_sync(Duration::from_secs(5)).await?;
/// assert!(informer.lister().get("default/web").is_ok());
/// run.stop().await;
/// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct SharedInformer<O: Object> {
    shared: Arc<Shared<O>>,
}

/// The same type under client-go's other name: every informer has indexes here.
pub type SharedIndexInformer<O> = SharedInformer<O>;

impl<O: Object> SharedInformer<O> {
    /// An informer over a source, with the defaults.
    pub fn new(source: impl ListWatch<O>) -> Self {
        Self::builder(source).build()
    }

    /// An informer to be configured.
    pub fn builder(source: impl ListWatch<O>) -> SharedInformerBuilder<O> {
        SharedInformerBuilder::new(crate::source::DynListWatch::new(source))
    }

    /// The name in logs, states and metrics.
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// Runs the informer, or joins the run that is going on.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime with time enabled.
    #[track_caller]
    pub fn start(&self) -> InformerRun {
        run::start(&self.shared)
    }

    /// Adds a handler with the default options. See [`add_handler_with`](Self::add_handler_with).
    ///
    /// # Errors
    ///
    /// As [`add_handler_with`](Self::add_handler_with).
    pub fn add_handler(
        &self,
        handler: impl EventHandler<O>,
    ) -> Result<HandlerRegistration<O>, AddHandlerError> {
        self.add_handler_with(HandlerOptions::default(), handler)
    }

    /// Adds a handler, before or while the informer runs. It stays until [`HandlerRegistration::remove`]; dropping the
    /// registration does not remove it.
    ///
    /// # Errors
    ///
    /// When the informer has [`MAX_HANDLERS`](crate::MAX_HANDLERS) handlers and streams.
    pub fn add_handler_with(
        &self,
        options: HandlerOptions,
        handler: impl EventHandler<O>,
    ) -> Result<HandlerRegistration<O>, AddHandlerError> {
        registration::add(&self.shared, options, handler)
    }

    /// The events as a stream, as a handler with the default options would see them. Dropping the stream removes it.
    ///
    /// # Cancel safety
    ///
    /// A dropped `next` loses no event.
    ///
    /// # Panics
    ///
    /// When the informer has [`MAX_HANDLERS`](crate::MAX_HANDLERS) handlers and streams. Where their number is not the program's own
    /// to choose, one stream for each of its users, say, use [`events_with`](Self::events_with).
    #[track_caller]
    pub fn events(&self) -> EventStream<O> {
        match self.events_with(HandlerOptions::default()) {
            Ok(events) => events,
            Err(error) => panic!("{error}"),
        }
    }

    /// As [`events`](Self::events), with options, and with an error in place of the panic.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// use informer_cache::testing::{StaticSource, object};
    /// use informer_cache::{HandlerOptions, SharedInformer};
    ///
    /// let informer = SharedInformer::new(StaticSource::new([object("default/web", "1")], "1"));
    /// let mut events = informer.events_with(HandlerOptions::new().name("one of many"))?;
    /// let run = informer.start();
    /// assert!(events.next().await.is_some_and(|event| event.key() == "default/web"));
    /// run.stop().await;
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`add_handler_with`](Self::add_handler_with).
    pub fn events_with(&self, options: HandlerOptions) -> Result<EventStream<O>, AddHandlerError> {
        registration::stream(&self.shared, options)
    }

    /// Adds an index, before or while the informer runs, and returns the informer, so that calls chain.
    ///
    /// # Panics
    ///
    /// When the informer has an index of this name: two parts of a program would read each other's values. Where that
    /// may happen, use [`add_indexers`](Self::add_indexers).
    #[track_caller]
    #[must_use = "the informer is returned so that calls chain; `add_indexers` is for effect alone"]
    pub fn index(self, name: impl Into<Arc<str>>, function: impl IndexFn<O>) -> Self {
        if let Err(error) = self.add_indexers(Indexers::new().index(name, function)) {
            panic!("informer {}: {error}", self.name());
        }
        self
    }

    /// Adds indexes, all or none, before or while the informer runs; what is in the cache is indexed at once.
    ///
    /// # Errors
    ///
    /// When a name is taken.
    pub fn add_indexers(&self, indexers: Indexers<O>) -> Result<(), AddIndexersError> {
        self.shared.indexer.add_indexers(indexers)
    }

    /// The cache.
    pub fn indexer(&self) -> &Indexer<O> {
        &self.shared.indexer
    }

    /// A view of the cache by namespace and selector.
    pub fn lister(&self) -> Lister<O> {
        self.shared.indexer.lister()
    }

    /// The objects that have `value` in the index `name`.
    ///
    /// # Errors
    ///
    /// When there is no such index.
    pub fn by_index(&self, name: &str, value: &str) -> Result<Vec<Arc<O>>, IndexError> {
        self.shared.indexer.by_index(name, value)
    }

    /// One version of the whole cache; it may be held for as long as one likes.
    pub fn snapshot(&self) -> Snapshot<O> {
        self.shared.indexer.snapshot()
    }

    /// True while the first list of the present run is in the cache.
    pub fn has_synced(&self) -> bool {
        *self.shared.synced.borrow()
    }

    /// Waits until the informer is synced.
    ///
    /// # Errors
    ///
    /// After `timeout`: what the informer is doing instead, and its last error.
    pub async fn wait_for_sync(&self, timeout: Duration) -> Result<(), SyncError> {
        crate::sync::wait_for_cache_sync([self as &dyn CacheSynced], timeout).await
    }

    /// Waits until `condition` holds for the cache, looking again after each change.
    ///
    /// # Errors
    ///
    /// After `timeout`: what the informer is doing, and its last error.
    pub async fn wait_until_for(
        &self,
        timeout: Duration,
        condition: impl Fn(&Indexer<O>) -> bool,
    ) -> Result<(), SyncError> {
        let mut applied = self.shared.applied.subscribe();
        let holds = async {
            while !condition(&self.shared.indexer) {
                // The sender is in `shared`, which this call holds.
                let _ = applied.changed().await;
            }
        };
        tokio::time::timeout(timeout, holds)
            .await
            .map_err(|_| SyncError::of([self as &dyn CacheSynced], timeout))
    }

    /// As [`wait_until_for`](Self::wait_until_for) with a timeout of ten seconds, which suits tests.
    ///
    /// # Errors
    ///
    /// As [`wait_until_for`](Self::wait_until_for).
    pub async fn wait_until(&self, condition: impl Fn(&Indexer<O>) -> bool) -> Result<(), SyncError> {
        self.wait_until_for(Duration::from_secs(10), condition).await
    }

    /// True after a run has ended, until the next one starts.
    pub fn is_stopped(&self) -> bool {
        self.shared.lifecycle.lock().is_stopped()
    }

    /// Objects of the present content that could not be read.
    pub fn undecodable(&self) -> Vec<Undecodable> {
        self.shared.undecodable.entries()
    }

    /// Everything that there is to know about the informer at this moment. Costs a few locks, no request.
    pub fn state(&self) -> InformerState {
        self.shared.state()
    }

    /// Asks for the [`state`](Self::state) later, without keeping the informer alive: for who shows informers that others have made.
    pub fn probe(&self) -> InformerProbe {
        InformerProbe::new(&self.shared, |shared| shared.state())
    }

    /// How often the cache followed a server that went back to an older state, as after a restore from a backup. The cache shows
    /// that state before the count changes.
    pub fn rewinds(&self) -> u64 {
        self.shared.counters.lock().rewound
    }

    /// The version of the last list, event or bookmark that is in the cache. Unset while there is none that a watch could
    /// go on from: after a list without a version, the objects that follow have each their own, in no order.
    pub fn last_sync_resource_version(&self) -> informer_core::ResourceVersion {
        match self.shared.reflector.has_version() {
            true => self.shared.indexer.resource_version(),
            false => informer_core::ResourceVersion::unset(),
        }
    }
}

impl<O: Object> CacheSynced for SharedInformer<O> {
    fn synced(&self) -> watch::Receiver<bool> {
        self.shared.synced.subscribe()
    }

    fn describe(&self) -> crate::sync::Unsynced {
        self.shared.unsynced()
    }
}

impl<O: Object> Clone for SharedInformer<O> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<O: Object> fmt::Debug for SharedInformer<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedInformer").field("name", &self.shared.name).finish_non_exhaustive()
    }
}

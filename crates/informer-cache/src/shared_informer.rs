//! The shared informer: one cache with many handlers.
//!
//! # Tasks
//!
//! A run has one task for the [`Reflector`], one for the pump (queue to store to listeners), and one for each
//! handler. They communicate only through the in-order queue and the buffers of the listeners.
//!
//! # Invariants
//!
//! 1. Only the pump's task writes the store and adds listeners to the processor. A new handler therefore sees
//!    one snapshot, then every later change.
//! 2. At most one run owns the core (pump and processor). The core is behind an asynchronous lock that a run
//!    holds from start to end.
//! 3. The lifecycle of an informer is `Idle → Running → Stopping → Stopped → Running → …`. Only `start` and
//!    the end of a run change it.
//!
//! # Lock order
//!
//! Locks are taken in the order `lifecycle`, `attached`, `joining`. Handlers, transforms, index functions and
//! hooks run without any of them.
//!
//! # Shutdown
//!
//! 1. The last [`InformerRun`] is dropped, or [`InformerRun::stop`] is called: the run's token is cancelled.
//! 2. The reflector drops its request, the pump finishes its batch, and each listener finishes its call.
//! 3. The tasks end, and the run ends with them. The store keeps its content and can still be read.

mod builder;
mod core;
mod registration;
mod run;
#[cfg(test)]
mod tests;

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use informer_core::Object;
use informer_store::{AddIndexersError, IndexError, IndexFn, Indexer, Indexers, Lister, Snapshot};
use tokio::sync::watch;

use self::core::InformerCore;
pub use builder::SharedInformerBuilder;
pub use registration::{AddHandlerError, EventStream, HandlerRegistration, MAX_HANDLERS};
pub use run::InformerRun;

use crate::handler::{EventHandler, on_event, on_event_async};
use crate::metrics::InformerProbe;
use crate::reflector::ReflectorStatus;
use crate::source::ListWatch;
use crate::sync::{CacheSynced, SyncError};
use crate::{Event, HandlerOptions, InformerState, Undecodable};

/// A cache of objects of one kind that is filled by one list and watch and notifies any number of handlers.
///
/// # Contract
///
/// - *Staleness*: the cache follows the source with a delay. There is no consistency guarantee across
///   informers.
/// - *Order*: per object, handlers see a legal history (see [`Event`](crate::Event)). Handlers do not wait
///   for each other. When a handler runs, the cache shows the state of the event or a later one.
/// - *Late handlers* first receive the content of the cache as initial adds, then every later change.
/// - *Resync* replays every object from the cache to a handler. It never sends a request to the source.
/// - *Synced*: [`has_synced`](Self::has_synced) of the informer means that the cache contains its first list.
///   For a [`HandlerRegistration`] it means that the handler has handled that list.
/// - *Reads* through [`lister`](Self::lister), [`by_index`](Self::by_index) and [`snapshot`](Self::snapshot)
///   never wait for the source or for a handler.
///
/// # Lifecycle
///
/// Handles are cheap clones. [`start`](Self::start) returns a reference-counted [`InformerRun`]; the informer
/// runs until the last clone of that value is dropped. A stopped informer can be started again: the cache is
/// kept, the first list of the new run is compared with it, and handlers receive the differences.
///
/// Upstream: [`SharedIndexInformer`](https://pkg.go.dev/k8s.io/client-go/tools/cache#SharedIndexInformer).
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// use std::time::Duration;
/// use informer_cache::testing::{StaticSource, object};
/// use informer_cache::SharedInformer;
///
/// let informer = SharedInformer::new(StaticSource::new([object("default/web", "1")], "1"));
/// informer.on_event(|event| println!("{event}"))?;
/// let run = informer.start();
/// informer.wait_for_sync(Duration::from_secs(5)).await?;
/// assert!(informer.lister().get("default/web").is_ok());
/// run.stop().await;
/// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct SharedInformer<O: Object> {
    shared: Arc<InformerCore<O>>,
}

/// The name of [`SharedInformer`] in client-go, where only `SharedIndexInformer` has indexes. Here every
/// informer has indexes.
pub type SharedIndexInformer<O> = SharedInformer<O>;

impl<O: Object> SharedInformer<O> {
    /// Returns an informer over a source, with the default configuration.
    pub fn new(source: impl ListWatch<O>) -> Self {
        Self::builder(source).build()
    }

    /// Returns a builder for an informer over a source.
    pub fn builder(source: impl ListWatch<O>) -> SharedInformerBuilder<O> {
        SharedInformerBuilder::new(crate::source::DynListWatch::new(source))
    }

    /// Returns the name of the informer in logs, states and metrics.
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// Starts the informer, or joins the current run.
    ///
    /// # Panics
    ///
    /// Panics if called outside of a tokio runtime with time enabled.
    #[track_caller]
    pub fn start(&self) -> InformerRun {
        run::start(&self.shared)
    }

    /// Adds a handler with the default options. See [`add_handler_with`](Self::add_handler_with).
    ///
    /// # Errors
    ///
    /// The same errors as [`add_handler_with`](Self::add_handler_with).
    pub fn add_handler(
        &self,
        handler: impl EventHandler<O>,
    ) -> Result<HandlerRegistration<O>, AddHandlerError> {
        self.add_handler_with(HandlerOptions::default(), handler)
    }

    /// Adds a closure as a handler with the default options, as [`add_handler`](Self::add_handler) with
    /// [`on_event`](crate::handler::on_event) does. The closure needs no type, because its argument is an event
    /// of this informer. It must not block.
    ///
    /// # Errors
    ///
    /// The same errors as [`add_handler_with`](Self::add_handler_with).
    pub fn on_event(
        &self,
        callback: impl FnMut(Event<O>) + Send + 'static,
    ) -> Result<HandlerRegistration<O>, AddHandlerError> {
        self.add_handler(on_event(callback))
    }

    /// Adds a closure that returns a future, as [`add_handler`](Self::add_handler) with
    /// [`on_event_async`](crate::handler::on_event_async) does. The closure needs no type.
    ///
    /// # Errors
    ///
    /// The same errors as [`add_handler_with`](Self::add_handler_with).
    pub fn on_event_async<R>(
        &self,
        callback: impl FnMut(Event<O>) -> R + Send + 'static,
    ) -> Result<HandlerRegistration<O>, AddHandlerError>
    where
        R: Future<Output = ()> + Send,
    {
        self.add_handler(on_event_async(callback))
    }

    /// Adds a handler, before or while the informer runs. The handler stays registered until
    /// [`HandlerRegistration::remove`]; dropping the registration does not remove it.
    ///
    /// # Errors
    ///
    /// Returns an error if the informer already has [`MAX_HANDLERS`](crate::MAX_HANDLERS) handlers and
    /// streams.
    pub fn add_handler_with(
        &self,
        options: HandlerOptions,
        handler: impl EventHandler<O>,
    ) -> Result<HandlerRegistration<O>, AddHandlerError> {
        registration::add(&self.shared, options, handler)
    }

    /// Returns the events of the informer as a stream, with the default handler options. Dropping the stream
    /// removes its registration.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future of the stream's `next` loses no event.
    ///
    /// # Panics
    ///
    /// Panics if the informer already has [`MAX_HANDLERS`](crate::MAX_HANDLERS) handlers and streams. Use
    /// [`events_with`](Self::events_with) if the program does not control their number, for example with one
    /// stream per user.
    #[track_caller]
    pub fn events(&self) -> EventStream<O> {
        match self.events_with(HandlerOptions::default()) {
            Ok(events) => events,
            Err(error) => panic!("{error}"),
        }
    }

    /// Returns the events as a stream like [`events`](Self::events), but with the given handler options, and
    /// with an error instead of a panic.
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
    /// The same errors as [`add_handler_with`](Self::add_handler_with).
    pub fn events_with(&self, options: HandlerOptions) -> Result<EventStream<O>, AddHandlerError> {
        registration::stream(&self.shared, options)
    }

    /// Adds an index, before or while the informer runs, and returns the informer for chaining.
    ///
    /// # Panics
    ///
    /// Panics if the informer already has an index with this name: two parts of a program would read each
    /// other's values. Use [`add_indexers`](Self::add_indexers) if that can happen.
    #[track_caller]
    #[must_use = "the informer is returned for chaining; use `add_indexers` if you do not chain"]
    pub fn index(self, name: impl Into<Arc<str>>, function: impl IndexFn<O>) -> Self {
        if let Err(error) = self.add_indexers(Indexers::new().index(name, function)) {
            panic!("informer {}: {error}", self.name());
        }
        self
    }

    /// Adds an index by a closure, as [`index`](Self::index) does. The closure needs no type, because its
    /// argument is an object of this informer.
    ///
    /// # Panics
    ///
    /// Panics if the informer already has an index with this name.
    #[track_caller]
    #[must_use = "the informer is returned for chaining; use `add_indexers` if you do not chain"]
    pub fn index_fn<I>(
        self,
        name: impl Into<Arc<str>>,
        function: impl Fn(&O) -> I + Send + Sync + 'static,
    ) -> Self
    where
        I: IntoIterator<Item: AsRef<str>>,
    {
        self.index(name, function)
    }

    /// Adds all given indexes or none, before or while the informer runs. Objects in the cache are indexed
    /// immediately.
    ///
    /// # Errors
    ///
    /// Returns an error if an index already has one of the names.
    pub fn add_indexers(&self, indexers: Indexers<O>) -> Result<(), AddIndexersError> {
        self.shared.indexer.add_indexers(indexers)
    }

    /// Returns a read handle of the informer's cache.
    pub fn indexer(&self) -> &Indexer<O> {
        &self.shared.indexer
    }

    /// Returns a read view of the cache, for lookups by namespace, name and label selector.
    pub fn lister(&self) -> Lister<O> {
        self.shared.indexer.lister()
    }

    /// Returns the objects that have `value` in the index `name`.
    ///
    /// # Errors
    ///
    /// Returns an error if the informer has no index with this name.
    pub fn by_index(&self, name: &str, value: &str) -> Result<Vec<Arc<O>>, IndexError> {
        self.shared.indexer.by_index(name, value)
    }

    /// Returns an immutable snapshot of the whole cache. The caller may keep it for any time.
    pub fn snapshot(&self) -> Snapshot<O> {
        self.shared.indexer.snapshot()
    }

    /// Returns true if the cache contains the first list of the current run of the informer.
    pub fn has_synced(&self) -> bool {
        *self.shared.synced.borrow()
    }

    /// Waits until the cache contains the first list of the current run of the informer.
    ///
    /// # Errors
    ///
    /// Returns an error after `timeout`. The error contains the current activity of the informer and its last
    /// error.
    pub async fn wait_for_sync(&self, timeout: Duration) -> Result<(), SyncError> {
        crate::sync::wait_for_cache_sync([self as &dyn CacheSynced], timeout).await
    }

    /// Waits until `condition` holds for the cache. The condition is evaluated after each batch of changes.
    ///
    /// # Errors
    ///
    /// Returns an error after `timeout`. The error contains the current activity of the informer and its last
    /// error.
    pub async fn wait_until_for(
        &self,
        timeout: Duration,
        condition: impl Fn(&Indexer<O>) -> bool,
    ) -> Result<(), SyncError> {
        let mut applied = self.shared.applied.subscribe();
        let holds = async {
            while !condition(&self.shared.indexer) {
                // The wait cannot fail: `shared` owns the sender of this channel, and this call keeps
                // `shared` alive.
                let _ = applied.changed().await;
            }
        };
        tokio::time::timeout(timeout, holds)
            .await
            .map_err(|_| SyncError::of([self as &dyn CacheSynced], timeout))
    }

    /// Waits for a condition like [`wait_until_for`](Self::wait_until_for), with a timeout of ten seconds.
    /// For tests.
    ///
    /// # Errors
    ///
    /// The same errors as [`wait_until_for`](Self::wait_until_for).
    pub async fn wait_until(&self, condition: impl Fn(&Indexer<O>) -> bool) -> Result<(), SyncError> {
        self.wait_until_for(Duration::from_secs(10), condition).await
    }

    /// Returns true between the end of a run of the informer and the start of the next run.
    pub fn is_stopped(&self) -> bool {
        self.shared.lifecycle.lock().is_stopped()
    }

    /// Returns the objects whose current state could not be decoded.
    pub fn undecodable(&self) -> Vec<Undecodable> {
        self.shared.undecodable.entries()
    }

    /// Returns the complete current state of the informer. The call takes a few locks and sends no request.
    pub fn state(&self) -> InformerState {
        self.shared.state()
    }

    /// Returns the status of the reflector. It is part of the [`state`](Self::state), and cheaper to read.
    pub fn reflector_status(&self) -> ReflectorStatus {
        self.shared.reflector.handle().status()
    }

    /// Returns a probe that reads the [`state`](Self::state) and the objects later without keeping the
    /// informer alive, for example for a metrics endpoint.
    pub fn probe(&self) -> InformerProbe {
        InformerProbe::new(&self.shared)
    }

    /// Returns how often the cache followed a server that went back to an older state, for example after a
    /// restore from a backup. The cache shows the older state before the count changes.
    pub fn rewinds(&self) -> u64 {
        self.shared.counters.lock().rewound
    }

    /// Returns the resourceVersion of the last list, event or bookmark in the cache. The version is unset
    /// while no watch could continue from it. This is the case after a list without a version: the versions
    /// of the objects that follow have no order.
    pub fn last_sync_resource_version(&self) -> informer_core::ResourceVersion {
        if self.shared.reflector.has_version() {
            self.shared.indexer.resource_version()
        } else {
            informer_core::ResourceVersion::unset()
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

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use informer_core::{Object, ResourceVersion};
use informer_store::{Indexer, Indexers, StoreBuilder};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{ControllerConfig, ControllerCounts, InformerController, Process, ProcessError};
use crate::handler::EventHandler;
use crate::listener::{EventBatch, ProcessorListener};
use crate::pump::{Applied, Pump};
use crate::queue::{Batch, InOrderQueue, Transform};
use crate::reflector::{ReflectorConfig, ReflectorHandle};
use crate::source::{KnownObjects, ListWatch, SourceContext};
use crate::sync::{CacheSynced, SyncError, Unsynced};
use crate::{Event, HandlerOptions, HandlerState, UndecodableLog};

/// The options of an informer that [`new_informer_with`] returns.
#[must_use = "options do nothing by themselves"]
pub struct SimpleInformerOptions<O: Object> {
    reflector: ReflectorConfig,
    indexers: Indexers<O>,
    transform: Option<Transform<O>>,
}

impl<O: Object> SimpleInformerOptions<O> {
    /// Returns the default options: no resync, only the namespace index, no transform.
    pub fn new() -> Self {
        Self { reflector: ReflectorConfig::default(), indexers: Indexers::new(), transform: None }
    }

    /// Sets the configuration of the reflector, which lists and watches.
    pub fn reflector(mut self, config: ReflectorConfig) -> Self {
        self.reflector = config;
        self
    }

    /// Sets the resync period of the handler. By default there is no resync.
    pub fn resync(mut self, period: Duration) -> Self {
        self.reflector.resync_period = Some(period);
        self
    }

    /// Sets the indexes of the informer's store.
    pub fn indexers(mut self, indexers: Indexers<O>) -> Self {
        self.indexers = indexers;
        self
    }

    /// Sets a function that changes each object before it is stored and announced; see [`Transform`].
    pub fn transform(mut self, transform: Transform<O>) -> Self {
        self.transform = Some(transform);
        self
    }
}

/// An informer that has one store and one handler. The task that writes the store also calls the handler.
///
/// Unlike with a [`SharedInformer`](crate::SharedInformer), [`has_synced`](Self::has_synced) implies that the
/// handler has handled the first list. The cache waits for the handler, so a slow handler delays the cache.
///
/// Upstream: [`NewInformer`](https://pkg.go.dev/k8s.io/client-go/tools/cache#NewInformer).
pub struct SimpleInformer<O: Object, H> {
    indexer: Indexer<O>,
    undecodable: UndecodableLog,
    listener: Arc<ProcessorListener<O>>,
    controller: InformerController<O, InOrderQueue<O>, Announce<O, H>>,
}

/// Returns an informer with one store and one handler.
///
/// ```
/// use std::time::Duration;
/// use informer_cache::controller::new_informer;
/// use informer_cache::handler::on_event;
/// use informer_cache::testing::{StaticSource, object};
/// use tokio_util::sync::CancellationToken;
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// let source = StaticSource::new([object("default/web", "1")], "1");
/// let informer = new_informer(source, on_event(|event| println!("{event}")));
/// let stop = CancellationToken::new();
/// tokio::join!(informer.run(stop.clone()), async {
///     informer.wait_for_sync(Duration::from_secs(5)).await.expect("the informer syncs");
///     assert!(informer.indexer().contains("default/web"));
///     stop.cancel();
/// });
/// # });
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn new_informer<O: Object, H: EventHandler<O>>(
    source: impl ListWatch<O>,
    handler: H,
) -> SimpleInformer<O, H> {
    new_informer_with(source, SimpleInformerOptions::new(), handler)
}

/// Returns an informer like [`new_informer`], whose store has the given indexes.
pub fn new_indexer_informer<O: Object, H: EventHandler<O>>(
    source: impl ListWatch<O>,
    indexers: Indexers<O>,
    handler: H,
) -> SimpleInformer<O, H> {
    new_informer_with(source, SimpleInformerOptions::new().indexers(indexers), handler)
}

/// Returns an informer like [`new_informer`], with the given options.
pub fn new_informer_with<O: Object, H: EventHandler<O>>(
    source: impl ListWatch<O>,
    options: SimpleInformerOptions<O>,
    handler: H,
) -> SimpleInformer<O, H> {
    let what = source.describe();
    let indexers = options.indexers.index("namespace", informer_store::namespace());
    let writer = StoreBuilder::new().resource(what.clone()).indexers(indexers).writer();
    let (indexer, undecodable) = (writer.indexer().clone(), UndecodableLog::default());
    let queue = match options.transform {
        Some(transform) => InOrderQueue::with_transform(what, transform),
        None => InOrderQueue::new(),
    };
    let known: Arc<dyn KnownObjects<O>> = Arc::new(indexer.clone());
    let informer = &*options.reflector.name;
    let listener = ProcessorListener::new("handler".to_owned(), &HandlerOptions::default());
    let listener = Arc::new(listener.of_informer(informer));
    let pump = Pump::new(writer, undecodable.clone()).named(informer);
    let config = ControllerConfig::new(source, queue)
        .reflector(options.reflector)
        .context(SourceContext::new(Some(known), undecodable.clone()));
    let announcing = Arc::clone(&listener);
    let controller = InformerController::with(config, |reflector| Announce {
        pump,
        handler,
        listener: announcing,
        reflector,
    });
    SimpleInformer { indexer, undecodable, listener, controller }
}

/// The process function of the informer: it applies each batch of changes from the queue to the store, and
/// passes the resulting events to the handler.
struct Announce<O: Object, H> {
    pump: Pump<O>,
    handler: H,
    listener: Arc<ProcessorListener<O>>,
    reflector: ReflectorHandle,
}

impl<O: Object, H: EventHandler<O>> Process<Batch<O>> for Announce<O, H> {
    /// Applies a batch of changes and calls the handler. Processing never returns an error: a panic of the
    /// handler is contained, and the next event follows.
    async fn process(&mut self, batch: &Batch<O>) -> Result<(), ProcessError> {
        let applied = self.pump.apply(batch.iter().cloned());
        let Applied { events, first_list, suspect, unordered, resync } = applied;
        if unordered {
            self.reflector.versions_are_unordered();
        }
        if suspect {
            self.reflector.request_consistent_relist();
        }
        self.listener.add(&Arc::new(EventBatch::new(events)));
        if first_list {
            self.listener.initial_complete();
        }
        if resync {
            let again =
                |object: Arc<O>| Event::Updated { old: Arc::clone(&object), new: object, resync: true };
            let events: Vec<_> = self.pump.indexer().list().into_iter().map(again).collect();
            self.listener.add(&Arc::new(EventBatch::new(events)));
        }
        self.listener.drain(&mut self.handler).await;
        Ok(())
    }
}

impl<O: Object, H: EventHandler<O>> SimpleInformer<O, H> {
    /// Runs the informer until `cancel` is cancelled; see [`InformerController::run`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future ends the run and cancels the current call of the handler. A later run delivers the
    /// pending events.
    pub async fn run(&self, cancel: CancellationToken) {
        self.controller.run(cancel).await;
    }

    /// Returns true once the first list is in the store and the handler has handled it.
    pub fn has_synced(&self) -> bool {
        self.listener.has_synced()
    }

    /// Waits until [`has_synced`](Self::has_synced) is true.
    ///
    /// # Errors
    ///
    /// Returns an error after `timeout`. The error contains the current activity of the informer and its last
    /// error.
    pub async fn wait_for_sync(&self, timeout: Duration) -> Result<(), SyncError> {
        crate::sync::wait_for_cache_sync([self as &dyn CacheSynced], timeout).await
    }

    /// Returns a read handle of the informer's store.
    pub fn indexer(&self) -> &Indexer<O> {
        &self.indexer
    }

    /// Returns the log of the objects that could not be decoded.
    pub fn undecodable(&self) -> &UndecodableLog {
        &self.undecodable
    }

    /// Returns the version of the last list, event or bookmark that the informer received.
    pub fn last_sync_resource_version(&self) -> ResourceVersion {
        self.controller.last_sync_resource_version()
    }

    /// Returns the counters of the informer's handler.
    pub fn handler(&self) -> HandlerState {
        self.listener.state()
    }

    /// Returns how many batches of changes were processed, by result.
    pub fn counts(&self) -> ControllerCounts {
        self.controller.counts()
    }

    /// Returns a handle of the informer's reflector.
    pub fn reflector(&self) -> ReflectorHandle {
        self.controller.reflector()
    }
}

impl<O: Object, H: Send> CacheSynced for SimpleInformer<O, H> {
    fn synced(&self) -> watch::Receiver<bool> {
        self.listener.subscribe_synced()
    }

    fn describe(&self) -> Unsynced {
        let status = self.controller.reflector().status();
        let doing = if status.synced {
            format!("behind by {} events of its handler", self.listener.state().depth)
        } else {
            crate::sync::doing(status.phase).to_owned()
        };
        let error = status.last_error.map(|error| error.to_string());
        Unsynced::new(format!("informer {}", self.indexer.resource()), doing, error)
    }
}

impl<O: Object> Default for SimpleInformerOptions<O> {
    fn default() -> Self {
        Self::new()
    }
}

impl<O: Object> fmt::Debug for SimpleInformerOptions<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimpleInformerOptions")
            .field("reflector", &self.reflector)
            .field("transform", &self.transform.is_some())
            .finish_non_exhaustive()
    }
}

impl<O: Object, H> fmt::Debug for SimpleInformer<O, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimpleInformer")
            .field("controller", &self.controller)
            .field("handler", &self.listener.state())
            .finish_non_exhaustive()
    }
}

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use informer_core::Object;
use informer_store::{IndexFn, Indexers, StoreBuilder};
use parking_lot::Mutex;
use tokio::sync::{Mutex as AsyncMutex, Notify, watch};

use super::SharedInformer;
use super::core::{Core, InformerCore};
use super::run::Lifecycle;
use crate::UndecodableLog;
use crate::metrics::InformerMetrics;
use crate::processor::SharedProcessor;
use crate::pump::{Pump, PumpCounters};
use crate::queue::{InOrderQueue, Transform};
use crate::reflector::{Reflector, ReflectorConfig};
use crate::source::{DynListWatch, FilteredSource, ObjectFilter, SourceContext, SourceError};

/// Builds a [`SharedInformer`] with non-default options.
#[must_use = "a builder does nothing until `build` is called"]
pub struct SharedInformerBuilder<O: Object> {
    source: DynListWatch<O>,
    name: Option<String>,
    resync: Option<Duration>,
    filter: Option<ObjectFilter<O>>,
    transform: Option<Transform<O>>,
    indexers: Indexers<O>,
    reflector: ReflectorConfig,
    metrics: Option<Arc<dyn InformerMetrics>>,
}

impl<O: Object> SharedInformerBuilder<O> {
    pub(super) fn new(source: DynListWatch<O>) -> Self {
        Self {
            source,
            name: None,
            resync: None,
            filter: None,
            transform: None,
            indexers: Indexers::new(),
            reflector: ReflectorConfig::default(),
            metrics: None,
        }
    }

    /// Sets the name of the informer in logs, states and metrics. The default is the description of the
    /// source.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Sets the resync period for handlers that do not set their own. By default there is no resync.
    pub fn resync(mut self, period: Duration) -> Self {
        self.resync = Some(period);
        self
    }

    /// Sets a predicate: objects for which it returns false are neither cached nor announced. It is called
    /// once per decoded state, before the [transform](Self::transform).
    ///
    /// If a change makes a cached object fail the predicate, the object is removed from the cache, and
    /// handlers get [`Event::Deleted`](crate::Event::Deleted) with the state that failed. If a later change
    /// makes it pass, they get [`Event::Added`](crate::Event::Added). See [`FilteredSource`] for the
    /// requirements on the predicate, and for its cost.
    pub fn filter(mut self, predicate: impl Fn(&O) -> bool + Send + Sync + 'static) -> Self {
        self.filter = Some(Arc::new(predicate));
        self
    }

    /// Sets a function that changes each object before it is stored and announced. The function is called
    /// once per decoded state, including the final state in an observed deletion. If the function fails, the
    /// object is quarantined as undecodable. If it fails for a deletion, handlers receive the last cached
    /// state of the object.
    pub fn transform(
        mut self,
        transform: impl Fn(Arc<O>) -> Result<Arc<O>, Box<dyn Error + Send + Sync>> + Send + Sync + 'static,
    ) -> Self {
        self.transform = Some(Arc::new(transform));
        self
    }

    /// Adds an index to the cache of the informer.
    pub fn index(mut self, name: impl Into<Arc<str>>, function: impl IndexFn<O>) -> Self {
        self.indexers = self.indexers.index(name, function);
        self
    }

    /// Adds an index by a closure, which needs no type, as [`index`](Self::index) does.
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

    /// Configures how the source is listed and watched: page size, timeouts, backoff, streaming lists. The
    /// resync period in `config` applies if [`resync`](Self::resync) is not set.
    pub fn reflector(mut self, config: ReflectorConfig) -> Self {
        self.reflector = config;
        self
    }

    /// Sets a hook that is called for each failed list and watch. The failures are logged in any case.
    pub fn watch_error_handler(mut self, handler: impl Fn(&SourceError) + Send + Sync + 'static) -> Self {
        self.reflector.on_error = Some(Arc::new(handler));
        self
    }

    /// Sets the receiver of the informer's state and latencies, such as a metrics exporter.
    pub fn metrics(mut self, metrics: Arc<dyn InformerMetrics>) -> Self {
        self.metrics = Some(metrics);
        self
    }

    /// Builds the informer. The informer sends no request before [`SharedInformer::start`].
    pub fn build(self) -> SharedInformer<O> {
        let source = match self.filter {
            Some(predicate) => DynListWatch::new(FilteredSource::of(self.source, predicate)),
            None => self.source,
        };
        let what = source.describe();
        let name = self.name.unwrap_or_else(|| what.clone());
        let writer = StoreBuilder::new()
            .resource(what.clone())
            .indexers(self.indexers.index("namespace", informer_store::namespace()))
            .writer();
        let (indexer, undecodable) = (writer.indexer().clone(), UndecodableLog::default());
        let queue = Arc::new(match self.transform {
            Some(transform) => InOrderQueue::with_transform(what.clone(), transform),
            None => InOrderQueue::new(),
        });
        let known = Arc::new(indexer.clone());
        let context = SourceContext::new(Some(known), undecodable.clone());
        // Each handler of a shared informer has its own resync timer, so the resync of the reflector is
        // disabled.
        let resync = self.resync.or(self.reflector.resync_period);
        let config = ReflectorConfig { name: name.as_str().into(), resync_period: None, ..self.reflector };
        let reflector = Reflector::new(source, Arc::clone(&queue) as _, config).with_context(context);
        let pump = Pump::new(writer, undecodable.clone()).named(&*name);
        let core = Core { pump, processor: SharedProcessor::new() };
        let shared = Arc::new(InformerCore {
            name,
            what,
            indexer,
            undecodable,
            reflector,
            queue,
            core: Arc::new(AsyncMutex::new(core)),
            lifecycle: Mutex::new(Lifecycle::Idle),
            attached: Mutex::default(),
            joining: Mutex::default(),
            handlers_changed: Notify::new(),
            synced: watch::Sender::new(false),
            applied: watch::Sender::new(0),
            counters: Mutex::new(PumpCounters::default()),
            resync,
            next_handler: AtomicU64::new(1),
            panics: AtomicU64::new(0),
            crashes: Mutex::default(),
            metrics: self.metrics,
        });
        let informer = SharedInformer { shared };
        if let Some(metrics) = &informer.shared.metrics {
            metrics.observe(informer.probe());
        }
        informer
    }
}

impl<O: Object> fmt::Debug for SharedInformerBuilder<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedInformerBuilder")
            .field("source", &self.source)
            .field("name", &self.name)
            .field("resync", &self.resync)
            .finish_non_exhaustive()
    }
}

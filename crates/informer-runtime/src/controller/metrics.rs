//! What a controller tells about itself.

#[cfg(feature = "prometheus")]
mod prometheus;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use informer_workqueue::QueueMetrics;

use crate::observed::Observed;
use crate::shard::ShardMetrics;

/// How a reconcile ended, as the label `result` of upstream has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum ReconcileResult {
    /// Done.
    Success,
    /// An error, a panic or a timeout; a terminal error, too.
    Error,
    /// Again, by the rate limiter.
    Requeue,
    /// Again, after a time.
    RequeueAfter,
}

#[cfg(any(test, feature = "prometheus"))]
impl ReconcileResult {
    /// All of them.
    #[cfg(feature = "prometheus")]
    pub(crate) const ALL: [Self; 4] = [Self::Success, Self::Error, Self::Requeue, Self::RequeueAfter];

    /// The word for it in metrics.
    #[cfg(any(feature = "prometheus", test))]
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Error => "error",
            Self::Requeue => "requeue",
            Self::RequeueAfter => "requeue_after",
        }
    }
}

/// Receives what happens in a controller. Calls come from its workers and should be short.
pub(crate) trait ControllerMetrics: Send + Sync + 'static {
    /// So many workers are there from now on.
    fn workers_came(&self, workers: usize);

    /// So many workers are there no more.
    fn workers_went(&self, workers: usize);

    /// A reconcile began.
    fn began(&self);

    /// A reconcile ended, however it did; also where it was dropped.
    fn ended(&self);

    /// What a reconcile came to, and how long it took.
    fn reconciled(&self, result: ReconcileResult, took: Duration);

    /// An error was terminal.
    fn terminal_error(&self);

    /// A reconcile panicked.
    fn panicked(&self);

    /// A reconcile exceeded its timeout.
    fn timed_out(&self);
}

/// Where the controllers of a manager report to.
pub(crate) trait ControllerMetricsProvider: Send + Sync + 'static {
    /// For a controller of this name.
    fn controller(&self, name: &str) -> Option<Arc<dyn ControllerMetrics>>;

    /// For a controller of this name that shares its keys.
    fn shards(&self, _name: &str) -> Option<Arc<dyn ShardMetrics>> {
        None
    }

    /// For the queue of a controller of this name.
    fn queue(&self, name: &str) -> Arc<dyn QueueMetrics>;
}

/// The metrics of a manager: controllers in its registry, where it has one, queues also on its debug pages.
struct ManagerMetrics {
    observed: Arc<Observed>,
    #[cfg(feature = "prometheus")]
    controllers: prometheus::PrometheusControllers,
    #[cfg(feature = "prometheus")]
    shards: crate::shard::PrometheusShards,
}

/// Where the controllers of a manager report to.
pub(crate) fn metrics_of(observed: &Arc<Observed>) -> Arc<dyn ControllerMetricsProvider> {
    #[cfg(feature = "prometheus")]
    let (controllers, shards) = {
        let mut registry = observed.prometheus.registry.write();
        let controllers = prometheus::PrometheusControllers::register(&mut registry);
        (controllers, crate::shard::PrometheusShards::register(&mut registry))
    };
    Arc::new(ManagerMetrics {
        observed: Arc::clone(observed),
        #[cfg(feature = "prometheus")]
        controllers,
        #[cfg(feature = "prometheus")]
        shards,
    })
}

impl ControllerMetricsProvider for ManagerMetrics {
    #[cfg(feature = "prometheus")]
    fn controller(&self, name: &str) -> Option<Arc<dyn ControllerMetrics>> {
        Some(self.controllers.controller(name))
    }

    #[cfg(not(feature = "prometheus"))]
    fn controller(&self, _: &str) -> Option<Arc<dyn ControllerMetrics>> {
        None
    }

    #[cfg(feature = "prometheus")]
    fn shards(&self, name: &str) -> Option<Arc<dyn ShardMetrics>> {
        Some(self.shards.controller(name))
    }

    fn queue(&self, name: &str) -> Arc<dyn QueueMetrics> {
        self.observed.queue(name)
    }
}

/// Numbers that a controller keeps of itself, whether anybody asks or not.
#[derive(Debug, Default)]
pub(super) struct Counters {
    results: [AtomicU64; 4],
    active: AtomicUsize,
    terminal_errors: AtomicU64,
    panics: AtomicU64,
    timeouts: AtomicU64,
}

/// How often what happened in a controller.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReconcileCounts {
    /// Reconciles that are done.
    pub success: u64,
    /// Errors, panics and timeouts among them.
    pub error: u64,
    /// Reconciles that are to be tried again by the rate limiter.
    pub requeue: u64,
    /// Reconciles that are to be done again after a time.
    pub requeue_after: u64,
    /// Errors that were terminal.
    pub terminal_errors: u64,
    /// Panics.
    pub panics: u64,
    /// Timeouts.
    pub timeouts: u64,
    /// Reconciles that are going on.
    pub active: usize,
}

impl Counters {
    pub(super) fn counts(&self) -> ReconcileCounts {
        let result = |result: ReconcileResult| self.results[result as usize].load(Ordering::Relaxed);
        ReconcileCounts {
            success: result(ReconcileResult::Success),
            error: result(ReconcileResult::Error),
            requeue: result(ReconcileResult::Requeue),
            requeue_after: result(ReconcileResult::RequeueAfter),
            terminal_errors: self.terminal_errors.load(Ordering::Relaxed),
            panics: self.panics.load(Ordering::Relaxed),
            timeouts: self.timeouts.load(Ordering::Relaxed),
            active: self.active.load(Ordering::Relaxed),
        }
    }
}

/// The numbers of a controller, and whoever wants to hear of them.
pub(super) struct Instruments {
    pub(super) counters: Counters,
    pub(super) metrics: Option<Arc<dyn ControllerMetrics>>,
}

impl Instruments {
    pub(super) fn new(metrics: Option<Arc<dyn ControllerMetrics>>) -> Self {
        Self { counters: Counters::default(), metrics }
    }

    fn tell(&self, what: impl FnOnce(&dyn ControllerMetrics)) {
        if let Some(metrics) = &self.metrics {
            what(&**metrics);
        }
    }

    /// Counts workers as there until the result is dropped: those of a controller that runs, and of no other.
    pub(super) fn employ(&self, workers: usize) -> Employed<'_> {
        self.tell(|metrics| metrics.workers_came(workers));
        Employed { instruments: self, workers }
    }

    /// Counts a reconcile as going on until the result is dropped.
    pub(super) fn begin(&self) -> Active<'_> {
        self.counters.active.fetch_add(1, Ordering::Relaxed);
        self.tell(|metrics| metrics.began());
        Active(self)
    }

    pub(super) fn reconciled(&self, result: ReconcileResult, took: Duration) {
        self.counters.results[result as usize].fetch_add(1, Ordering::Relaxed);
        self.tell(|metrics| metrics.reconciled(result, took));
    }

    pub(super) fn terminal_error(&self) {
        self.counters.terminal_errors.fetch_add(1, Ordering::Relaxed);
        self.tell(|metrics| metrics.terminal_error());
    }

    pub(super) fn panicked(&self) {
        self.counters.panics.fetch_add(1, Ordering::Relaxed);
        self.tell(|metrics| metrics.panicked());
    }

    pub(super) fn timed_out(&self) {
        self.counters.timeouts.fetch_add(1, Ordering::Relaxed);
        self.tell(|metrics| metrics.timed_out());
    }
}

impl fmt::Debug for Instruments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Instruments").field(&self.counters).finish()
    }
}

/// A reconcile that is going on.
pub(super) struct Active<'a>(&'a Instruments);

impl Drop for Active<'_> {
    fn drop(&mut self) {
        self.0.counters.active.fetch_sub(1, Ordering::Relaxed);
        self.0.tell(|metrics| metrics.ended());
    }
}

/// Workers that are there.
pub(super) struct Employed<'a> {
    instruments: &'a Instruments,
    workers: usize,
}

impl Drop for Employed<'_> {
    fn drop(&mut self) {
        self.instruments.tell(|metrics| metrics.workers_went(self.workers));
    }
}

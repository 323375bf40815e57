#[cfg(feature = "prometheus")]
mod prometheus;

use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use informer_workqueue::QueueMetrics;

use crate::causes::{CauseSwitch, ControllerPage};
use crate::instrumentation::Instrumentation;
use crate::shard::ShardMetrics;

/// The result of a reconcile. Its names are the values of the label `result` in the metrics of
/// controller-runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum ReconcileResult {
    Success,
    /// The reconcile failed with an error (terminal or not), a panic or a timeout.
    Error,
    /// The reconcile succeeded and asked for a requeue without a delay of its own, so the rate limiter sets
    /// the delay.
    Requeue,
    RequeueAfter,
}

impl ReconcileResult {
    #[cfg(feature = "prometheus")]
    pub(crate) const ALL: [Self; 4] = [Self::Success, Self::Error, Self::Requeue, Self::RequeueAfter];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Error => "error",
            Self::Requeue => "requeue",
            Self::RequeueAfter => "requeue_after",
        }
    }
}

/// Receives the metrics of a controller. The workers of the controller call it, so it must be fast.
pub(crate) trait ControllerMetrics: Send + Sync + 'static {
    fn workers_started(&self, workers: usize);

    fn workers_stopped(&self, workers: usize);

    fn began(&self);

    /// Called when a reconcile has ended, or when its future was dropped.
    fn ended(&self);

    fn reconciled(&self, result: ReconcileResult, took: Duration);

    fn terminal_error(&self);

    fn panicked(&self);

    fn timed_out(&self);
}

pub(crate) trait ControllerMetricsProvider: Send + Sync + 'static {
    fn controller(&self, name: &str) -> Option<Arc<dyn ControllerMetrics>>;

    fn shards(&self, _name: &str) -> Option<Arc<dyn ShardMetrics>> {
        None
    }

    fn queue(&self, name: &str) -> Arc<dyn QueueMetrics>;

    /// Shows a controller on the debug pages.
    fn show_controller(&self, _controller: Weak<dyn ControllerPage>) {}

    /// Returns when a controller that does not record causes itself must record them; `None` if never.
    fn cause_switch(&self) -> Option<CauseSwitch> {
        None
    }
}

/// The metrics of a manager. Its controllers report to its metrics registry, if it has one. Their queues are
/// also shown on its debug pages.
struct ManagerMetrics {
    instrumentation: Arc<Instrumentation>,
    #[cfg(feature = "prometheus")]
    controllers: prometheus::PrometheusControllers,
    #[cfg(feature = "prometheus")]
    shards: crate::shard::PrometheusShards,
}

pub(crate) fn metrics_of(instrumentation: &Arc<Instrumentation>) -> Arc<dyn ControllerMetricsProvider> {
    #[cfg(feature = "prometheus")]
    let (controllers, shards) = {
        let mut registry = instrumentation.prometheus.registry.write();
        let controllers = prometheus::PrometheusControllers::register(&mut registry);
        (controllers, crate::shard::PrometheusShards::register(&mut registry))
    };
    Arc::new(ManagerMetrics {
        instrumentation: Arc::clone(instrumentation),
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
        self.instrumentation.queue(name)
    }

    fn show_controller(&self, controller: Weak<dyn ControllerPage>) {
        self.instrumentation.show_controller(controller);
    }

    #[cfg(feature = "console")]
    fn cause_switch(&self) -> Option<CauseSwitch> {
        Some(self.instrumentation.cause_switch())
    }
}

/// Counts the results of a controller's reconciles, even if the manager has no metrics registry.
#[derive(Debug, Default)]
pub(super) struct Counters {
    results: [AtomicU64; 4],
    active: AtomicUsize,
    terminal_errors: AtomicU64,
    panics: AtomicU64,
    timeouts: AtomicU64,
}

/// The numbers of a controller's reconciles so far, by their result.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReconcileCounts {
    /// Number of reconciles that succeeded and were not requeued.
    pub success: u64,
    /// Number of reconciles that failed, including panics and timeouts.
    pub error: u64,
    /// Number of reconciles that succeeded and whose request the rate limiter requeued.
    pub requeue: u64,
    /// Number of reconciles whose request is requeued after a delay that the reconciler has set.
    pub requeue_after: u64,
    /// Number of reconciles that failed with a terminal error, after which the request is not retried.
    pub terminal_errors: u64,
    /// Number of reconciles that panicked.
    pub panics: u64,
    /// Number of reconciles that exceeded the reconcile timeout.
    pub timeouts: u64,
    /// Number of reconciles that are running now.
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

pub(super) struct Instruments {
    pub(super) counters: Counters,
    pub(super) metrics: Option<Arc<dyn ControllerMetrics>>,
}

impl Instruments {
    pub(super) fn new(metrics: Option<Arc<dyn ControllerMetrics>>) -> Self {
        Self { counters: Counters::default(), metrics }
    }

    fn report(&self, call: impl FnOnce(&dyn ControllerMetrics)) {
        if let Some(metrics) = &self.metrics {
            call(&**metrics);
        }
    }

    /// Reports the number of a controller's workers in its metrics, until the returned guard is dropped.
    pub(super) fn start_workers(&self, workers: usize) -> WorkersGuard<'_> {
        self.report(|metrics| metrics.workers_started(workers));
        WorkersGuard { instruments: self, workers }
    }

    pub(super) fn begin(&self) -> ActiveGuard<'_> {
        self.counters.active.fetch_add(1, Ordering::Relaxed);
        self.report(|metrics| metrics.began());
        ActiveGuard(self)
    }

    pub(super) fn reconciled(&self, result: ReconcileResult, took: Duration) {
        self.counters.results[result as usize].fetch_add(1, Ordering::Relaxed);
        self.report(|metrics| metrics.reconciled(result, took));
    }

    pub(super) fn terminal_error(&self) {
        self.counters.terminal_errors.fetch_add(1, Ordering::Relaxed);
        self.report(|metrics| metrics.terminal_error());
    }

    pub(super) fn panicked(&self) {
        self.counters.panics.fetch_add(1, Ordering::Relaxed);
        self.report(|metrics| metrics.panicked());
    }

    pub(super) fn timed_out(&self) {
        self.counters.timeouts.fetch_add(1, Ordering::Relaxed);
        self.report(|metrics| metrics.timed_out());
    }
}

impl fmt::Debug for Instruments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Instruments").field(&self.counters).finish()
    }
}

pub(super) struct ActiveGuard<'a>(&'a Instruments);

impl Drop for ActiveGuard<'_> {
    fn drop(&mut self) {
        self.0.counters.active.fetch_sub(1, Ordering::Relaxed);
        self.0.report(|metrics| metrics.ended());
    }
}

pub(super) struct WorkersGuard<'a> {
    instruments: &'a Instruments,
    workers: usize,
}

impl Drop for WorkersGuard<'_> {
    fn drop(&mut self) {
        self.instruments.report(|metrics| metrics.workers_stopped(self.workers));
    }
}

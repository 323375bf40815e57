//! Exports the metrics of controllers to a `prometheus_client` registry, under their names in
//! controller-runtime.

use std::sync::Arc;
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::{ControllerMetrics, ReconcileResult};

type Labels = Vec<(&'static str, String)>;

/// The upper bounds of the buckets of `controller_runtime_reconcile_time_seconds`: forty values from 5 ms to
/// a minute, as in controller-runtime, whose dashboards expect them.
const BUCKETS: [f64; 40] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.25,
    1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 15.0, 20.0, 25.0, 30.0, 40.0,
    50.0, 60.0,
];

#[derive(Clone)]
struct NewHistogram;

impl MetricConstructor<Histogram> for NewHistogram {
    fn new_metric(&self) -> Histogram {
        Histogram::new(BUCKETS)
    }
}

/// The metrics of all controllers of a registry:
///
/// | name | type | meaning |
/// |---|---|---|
/// | `controller_runtime_reconcile_total` | counter | reconciles, by `result` |
/// | `controller_runtime_reconcile_errors_total` | counter | failed reconciles |
/// | `controller_runtime_terminal_reconcile_errors_total` | counter | reconciles with a terminal error |
/// | `controller_runtime_reconcile_panics_total` | counter | reconciles that panicked |
/// | `controller_runtime_reconcile_timeouts_total` | counter | reconciles that timed out |
/// | `controller_runtime_reconcile_time_seconds` | histogram | duration of reconciles |
/// | `controller_runtime_max_concurrent_reconciles` | gauge | workers of the running controller |
/// | `controller_runtime_active_workers` | gauge | workers that reconcile |
///
/// Every series has the label `controller`. All series of a controller exist, with value zero, as soon as the
/// controller is added to a manager.
#[derive(Debug, Clone)]
pub(super) struct PrometheusControllers {
    families: Families,
}

#[derive(Debug, Clone)]
struct Families {
    reconciles: Family<Labels, Counter>,
    errors: Family<Labels, Counter>,
    terminal_errors: Family<Labels, Counter>,
    panics: Family<Labels, Counter>,
    timeouts: Family<Labels, Counter>,
    times: Family<Labels, Histogram, NewHistogram>,
    workers: Family<Labels, Gauge>,
    active: Family<Labels, Gauge>,
}

impl std::fmt::Debug for NewHistogram {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("NewHistogram")
    }
}

impl PrometheusControllers {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let families = Families {
            reconciles: Family::default(),
            errors: Family::default(),
            terminal_errors: Family::default(),
            panics: Family::default(),
            timeouts: Family::default(),
            times: Family::new_with_constructor(NewHistogram),
            workers: Family::default(),
            active: Family::default(),
        };
        let counters = [
            ("reconcile", "Reconciles by controller and result", &families.reconciles),
            ("reconcile_errors", "Reconciles that failed", &families.errors),
            (
                "terminal_reconcile_errors",
                "Reconciles that failed with a terminal error",
                &families.terminal_errors,
            ),
            ("reconcile_panics", "Reconciles that panicked", &families.panics),
            ("reconcile_timeouts", "Reconciles that exceeded their timeout", &families.timeouts),
        ];
        for (name, help, family) in counters {
            registry.register(format!("controller_runtime_{name}"), help, family.clone());
        }
        let gauges = [
            ("max_concurrent_reconciles", "Workers of a controller", &families.workers),
            ("active_workers", "Workers that are reconciling", &families.active),
        ];
        for (name, help, family) in gauges {
            registry.register(format!("controller_runtime_{name}"), help, family.clone());
        }
        let name = "controller_runtime_reconcile_time_seconds";
        registry.register(name, "Duration of reconciles", families.times.clone());
        Self { families }
    }

    pub(super) fn controller(&self, name: &str) -> Arc<dyn ControllerMetrics> {
        let labels = vec![("controller", name.to_owned())];
        let result = |result: ReconcileResult| {
            let labels = vec![("controller", name.to_owned()), ("result", result.as_str().to_owned())];
            self.families.reconciles.get_or_create_owned(&labels)
        };
        let families = &self.families;
        Arc::new(ControllerSeries {
            results: ReconcileResult::ALL.map(result),
            errors: families.errors.get_or_create_owned(&labels),
            terminal_errors: families.terminal_errors.get_or_create_owned(&labels),
            panics: families.panics.get_or_create_owned(&labels),
            timeouts: families.timeouts.get_or_create_owned(&labels),
            times: families.times.get_or_create_owned(&labels),
            workers: families.workers.get_or_create_owned(&labels),
            active: families.active.get_or_create_owned(&labels),
        })
    }
}

struct ControllerSeries {
    results: [Counter; 4],
    errors: Counter,
    terminal_errors: Counter,
    panics: Counter,
    timeouts: Counter,
    times: Histogram,
    workers: Gauge,
    active: Gauge,
}

impl ControllerMetrics for ControllerSeries {
    fn workers_started(&self, workers: usize) {
        self.workers.inc_by(i64::try_from(workers).unwrap_or(i64::MAX));
    }

    fn workers_stopped(&self, workers: usize) {
        self.workers.dec_by(i64::try_from(workers).unwrap_or(i64::MAX));
    }

    fn began(&self) {
        self.active.inc();
    }

    fn ended(&self) {
        self.active.dec();
    }

    fn reconciled(&self, result: ReconcileResult, took: Duration) {
        self.results[result as usize].inc();
        if result == ReconcileResult::Error {
            self.errors.inc();
        }
        self.times.observe(took.as_secs_f64());
    }

    fn terminal_error(&self) {
        self.terminal_errors.inc();
    }

    fn panicked(&self) {
        self.panics.inc();
    }

    fn timed_out(&self) {
        self.timeouts.inc();
    }
}

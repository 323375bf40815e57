//! Metrics of queues in a `prometheus_client` registry, with client-go's names.
//!
//! # Invariants
//! `queues` holds a probe of each live queue. It holds at most as many probes of dropped queues as of live
//! ones, plus a constant.
//!
//! # Lock order
//! `queues` is the only lock. No queue is read while it is held, because that calls user-defined orders.
//!
//! # Shutdown
//! There is nothing to stop. A dropped queue disappears from the gauges at the next scrape; its counters
//! remain.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use super::{QueueMetrics, QueueProbe, QueueStats};

type Labels = Vec<(&'static str, String)>;

/// The ten buckets of the duration histograms, from 10 ns to 10 s, which client-go's dashboards expect.
const BUCKETS: (f64, f64, u16) = (10e-9, 10.0, 10);

/// The value of the labels `priority` and `group` in the row that sums up the keys beyond the row limit, as
/// in controller-runtime.
const OTHERS: &str = "exceeded_cardinality_limit";

/// The metrics of all queues of a registry:
///
/// | name | kind | meaning |
/// |---|---|---|
/// | `workqueue_depth` | gauge | ready keys; with labels `priority` and `group` if the queue has them |
/// | `workqueue_adds_total` | counter | keys that became ready |
/// | `workqueue_retries_total` | counter | adds with a delay or through the rate limiter |
/// | `workqueue_queue_duration_seconds` | histogram | time between ready and handed out |
/// | `workqueue_work_duration_seconds` | histogram | time in process |
/// | `workqueue_unfinished_work_seconds` | gauge | sum of the times that the current keys have been in process |
/// | `workqueue_longest_running_processor_seconds` | gauge | the longest of these times |
///
/// Every row has the label `name`. Queues of the same name are summed. Gauges are read from the queue at
/// scrape time.
///
/// ```
/// use informer_workqueue::{PrometheusMetrics, WorkQueue};
/// use prometheus_client::registry::Registry;
///
/// let mut registry = Registry::default();
/// let metrics = PrometheusMetrics::register(&mut registry);
/// let queue = WorkQueue::builder().metrics(metrics.queue("pods")).build();
/// queue.add("default/web-0");
///
/// let mut text = String::new();
/// prometheus_client::encoding::text::encode(&mut text, &registry)?;
/// assert!(text.contains(r#"workqueue_depth{name="pods"} 1"#));
/// # Ok::<(), std::fmt::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct PrometheusMetrics {
    adds: Family<Labels, Counter>,
    retries: Family<Labels, Counter>,
    queued: Family<Labels, Histogram, fn() -> Histogram>,
    worked: Family<Labels, Histogram, fn() -> Histogram>,
    queues: Queues,
}

impl PrometheusMetrics {
    /// Registers the metrics. Call this once per registry.
    #[must_use]
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            adds: Family::default(),
            retries: Family::default(),
            queued: Family::new_with_constructor(durations),
            worked: Family::new_with_constructor(durations),
            queues: Queues::default(),
        };
        registry.register("workqueue_adds", "Keys that became ready", metrics.adds.clone());
        registry.register("workqueue_retries", "Adds with a delay or a rate limit", metrics.retries.clone());
        registry.register(
            "workqueue_queue_duration_seconds",
            "Time that a key was ready before a worker received it",
            metrics.queued.clone(),
        );
        registry.register(
            "workqueue_work_duration_seconds",
            "Processing time of a key",
            metrics.worked.clone(),
        );
        registry.register_collector(Box::new(metrics.queues.clone()));
        metrics
    }

    /// Returns the metrics for a queue of this name; pass them to
    /// [`metrics`](crate::WorkQueueBuilder::metrics).
    #[must_use]
    pub fn queue(&self, name: &str) -> Arc<dyn QueueMetrics> {
        let labels = vec![("name", name.to_owned())];
        Arc::new(OneQueue {
            adds: self.adds.get_or_create_owned(&labels),
            retries: self.retries.get_or_create_owned(&labels),
            queued: self.queued.get_or_create_owned(&labels),
            worked: self.worked.get_or_create_owned(&labels),
            name: name.into(),
            queues: self.queues.clone(),
        })
    }
}

fn durations() -> Histogram {
    let (start, factor, length) = BUCKETS;
    Histogram::new(exponential_buckets(start, factor, length))
}

struct OneQueue {
    adds: Counter,
    retries: Counter,
    queued: Histogram,
    worked: Histogram,
    name: Arc<str>,
    queues: Queues,
}

impl QueueMetrics for OneQueue {
    fn added(&self, keys: usize) {
        self.adds.inc_by(keys as u64);
    }

    fn retried(&self) {
        self.retries.inc();
    }

    fn queued_for(&self, time: Duration) {
        self.queued.observe(time.as_secs_f64());
    }

    fn worked_for(&self, time: Duration) {
        self.worked.observe(time.as_secs_f64());
    }

    fn attach(&self, probe: QueueProbe) {
        self.queues.probes.lock().add((Arc::clone(&self.name), probe));
    }
}

/// A probe of a queue with the value of the queue's `name` label.
type Named = (Arc<str>, QueueProbe);

/// While `queues` holds fewer probes than this, probes of dropped queues are not removed.
const MIN_PROBES: usize = 64;

#[derive(Debug)]
struct Probes {
    list: Vec<Named>,
    /// Number of probes in `queues` at which the probes of dropped queues are removed. A scrape removes them
    /// too, but a process may never be scraped.
    look_at: usize,
}

impl Default for Probes {
    fn default() -> Self {
        Self { list: Vec::new(), look_at: MIN_PROBES }
    }
}

impl Probes {
    fn add(&mut self, named: Named) {
        if self.list.len() >= self.look_at {
            self.forget_gone();
            self.look_at = MIN_PROBES.max(self.list.len() * 2);
        }
        self.list.push(named);
    }

    fn forget_gone(&mut self) {
        self.list.retain(|(_, probe)| probe.is_alive());
    }
}

/// The collector that reads the gauges from all queues at scrape time.
#[derive(Clone, Debug, Default)]
struct Queues {
    probes: Arc<Mutex<Probes>>,
}

impl Queues {
    fn stats(&self) -> Vec<(Arc<str>, QueueStats)> {
        let queues = {
            let mut probes = self.probes.lock();
            probes.forget_gone();
            probes.list.clone()
        };
        queues.into_iter().filter_map(|(name, probe)| Some((name, probe.stats()?))).collect()
    }
}

impl Collector for Queues {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let stats = self.stats();
        let mut rows: [BTreeMap<Labels, f64>; 3] = Default::default();
        for (name, stats) in &stats {
            let name = vec![("name", name.to_string())];
            depths(&name, stats, &mut rows[0]);
            *rows[1].entry(name.clone()).or_default() += stats.unfinished.as_secs_f64();
            let longest = rows[2].entry(name).or_default();
            *longest = longest.max(stats.longest.as_secs_f64());
        }
        let names = [
            ("workqueue_depth", "Keys that are ready."),
            (
                "workqueue_unfinished_work_seconds",
                "Sum of the processing times so far of all keys in process.",
            ),
            (
                "workqueue_longest_running_processor_seconds",
                "Longest processing time so far of a key in process.",
            ),
        ];
        for ((name, help), rows) in names.into_iter().zip(rows) {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for (labels, value) in rows {
                ConstGauge::new(value).encode(family.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}

/// Adds the number of ready keys of one queue, by priority and group, to `rows`. An empty queue gets one row,
/// so that its time series continues.
fn depths(name: &Labels, stats: &QueueStats, rows: &mut BTreeMap<Labels, f64>) {
    let mut add = |priority: Option<String>, group: Option<String>, len: usize| {
        let mut labels = name.clone();
        labels.extend(priority.map(|priority| ("priority", priority)));
        labels.extend(group.map(|group| ("group", group)));
        *rows.entry(labels).or_default() += to_f64(len);
    };
    if stats.depths.is_empty() {
        add(None, None, 0);
    }
    for depth in &stats.depths {
        add(depth.priority.map(|p| p.to_string()), depth.group.as_ref().map(ToString::to_string), depth.len);
    }
    if stats.others > 0 {
        let first = stats.depths.first();
        let others = |there: bool| there.then(|| OTHERS.to_owned());
        add(
            others(first.is_some_and(|depth| depth.priority.is_some())),
            others(first.is_some_and(|depth| depth.group.is_some())),
            stats.others,
        );
    }
}

/// Converts the number of keys of a queue to `f64`. The conversion is lossless, since a queue holds fewer
/// than 2^32 keys.
fn to_f64(len: usize) -> f64 {
    f64::from(u32::try_from(len).unwrap_or(u32::MAX))
}

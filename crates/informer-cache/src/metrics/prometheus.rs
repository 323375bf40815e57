//! Metrics of informers in a prometheus-client registry (feature `prometheus`).
//!
//! # Lock order
//!
//! At most one of the locks `probes` and `latencies` is held at a time. The state of an informer is read
//! without holding `probes`.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::{InformerMetrics, InformerProbe};
use crate::reflector::{EventCounts, ReflectorPhase, RelistReason};
use crate::{HandlerState, InformerState};

type Labels = Vec<(&'static str, String)>;

/// Upper bounds of the latency buckets in seconds, from 1 ms to 10 s, as in client-go.
const LATENCY_BUCKETS: [f64; 9] = [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0];

/// The smallest number of probes above which a collector looks for the probes of dropped informers, to remove
/// them. Fewer probes need too little memory to make a search worthwhile.
const MIN_PROBES: usize = 64;

/// Resource versions are exported modulo this number, as in client-go, because a float represents larger
/// integers inexactly.
const VERSION_MODULUS: u64 = 1_000_000_000_000_000;

/// Exports the metrics of informers to Prometheus. The value is a cheap handle; clones share the state.
///
/// The states of informers are read when the registry is encoded. Between scrapes an informer updates only
/// one histogram, once per batch. The label `name` is the informer's name, and the label `handler` the
/// handler's. If two informers have the same name, the second is exported as `name#2`, but their latencies
/// share one series. Object names are never labels. Dropped informers are not exported.
///
/// The metric names are those of client-go for `informer_queued_items`, `informer_processing_latency_seconds`
/// and `informer_store_resource_version`; client-go has no equivalent of the other metrics.
///
/// ```
/// use std::sync::Arc;
/// use informer_cache::SharedInformer;
/// use informer_cache::metrics::prometheus::PrometheusInformers;
/// use informer_cache::testing::{StaticSource, object};
/// use prometheus_client::registry::Registry;
///
/// let mut registry = Registry::default();
/// let metrics = PrometheusInformers::register(&mut registry);
/// let source = StaticSource::new([object("default/web", "1")], "1");
/// let things = SharedInformer::builder(source).name("things").metrics(Arc::new(metrics)).build();
///
/// let mut text = String::new();
/// prometheus_client::encoding::text::encode(&mut text, &registry)?;
/// assert!(text.contains("informer_objects{name=\"things\"} 0"));
/// # drop(things);
/// # Ok::<(), std::fmt::Error>(())
/// ```
#[derive(Clone)]
pub struct PrometheusInformers {
    probes: Arc<Mutex<Probes>>,
    latencies: Arc<Mutex<HashMap<String, Histogram>>>,
}

struct Probes {
    list: Vec<InformerProbe>,
    /// The number of probes above which the probes of dropped informers are removed when a probe is added; at
    /// least twice the number that the last removal left. This limits the memory if the registry is never
    /// scraped.
    look_at: usize,
}

impl PrometheusInformers {
    /// Returns a collector that has no informers yet. Pass it to [`Registry::register_collector`], or use
    /// [`register`](Self::register).
    pub fn new() -> Self {
        let probes = Probes { list: Vec::new(), look_at: MIN_PROBES };
        Self { probes: Arc::new(Mutex::new(probes)), latencies: Arc::default() }
    }

    /// Creates a collector, registers it in `registry`, and returns it.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::new();
        registry.register_collector(Box::new(metrics.clone()));
        metrics
    }

    /// Returns the states of the informers that still exist. Informers with the same name get unique names.
    fn states(&self) -> Vec<InformerState> {
        let probes = {
            let mut probes = self.probes.lock();
            probes.list.retain(InformerProbe::is_alive);
            probes.list.clone()
        };
        let mut states: Vec<InformerState> = probes.iter().filter_map(InformerProbe::state).collect();
        self.forget_latencies(&states);
        distinguish(&mut states, |state| &mut state.name);
        states.iter_mut().for_each(|state| distinguish(&mut state.handlers, |handler| &mut handler.name));
        states
    }

    fn forget_latencies(&self, living: &[InformerState]) {
        let names: HashSet<&str> = living.iter().map(|state| state.name.as_str()).collect();
        self.latencies.lock().retain(|name, _| names.contains(name.as_str()));
    }
}

/// Makes the names in `named` unique. Two series with the same labels would make the whole metrics page
/// invalid.
fn distinguish<T>(named: &mut [T], name: fn(&mut T) -> &mut String) {
    let mut seen: HashMap<String, u32> = HashMap::new();
    for each in named {
        let name = name(each);
        let count = seen.entry(name.clone()).or_default();
        *count += 1;
        if *count > 1 {
            *name = format!("{name}#{count}");
        }
    }
}

impl InformerMetrics for PrometheusInformers {
    fn observe(&self, probe: InformerProbe) {
        let mut probes = self.probes.lock();
        probes.list.push(probe);
        if probes.list.len() <= probes.look_at {
            return;
        }
        probes.list.retain(InformerProbe::is_alive);
        probes.look_at = MIN_PROBES.max(probes.list.len() * 2);
        let living = probes.list.clone();
        drop(probes);
        self.forget_latencies(&living.iter().filter_map(InformerProbe::state).collect::<Vec<_>>());
    }

    fn processed(&self, informer: &str, _: usize, took: Duration) {
        let mut latencies = self.latencies.lock();
        let histogram = match latencies.get(informer) {
            Some(histogram) => histogram,
            None => latencies.entry(informer.to_owned()).or_insert_with(|| Histogram::new(LATENCY_BUCKETS)),
        };
        histogram.observe(took.as_secs_f64());
    }
}

impl Collector for PrometheusInformers {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let (states, now) = (self.states(), tokio::time::Instant::now().into_std());
        let mut page = Page { encoder, states: &states };
        page.cache(now)?;
        page.pump()?;
        page.reflector()?;
        page.watches()?;
        page.handlers()?;
        let latency = "Time that a batch of changes took from the queue to the listeners' buffers.";
        let name = "informer_processing_latency_seconds";
        let mut family = page.encoder.encode_descriptor(name, latency, None, MetricType::Histogram)?;
        let latencies: BTreeMap<String, Histogram> =
            self.latencies.lock().iter().map(|(name, histogram)| (name.clone(), histogram.clone())).collect();
        for (name, histogram) in latencies {
            histogram.encode(family.encode_family(&[("name", name)])?)?;
        }
        Ok(())
    }
}

struct Page<'e, 's> {
    encoder: DescriptorEncoder<'e>,
    states: &'s [InformerState],
}

impl Page<'_, '_> {
    fn cache(&mut self, now: Instant) -> fmt::Result {
        self.gauge("informer_objects", "Objects in the cache.", |state| state.objects as f64)?;
        let help = "Bytes of the objects in the cache.";
        self.gauge("informer_object_bytes", help, |state| state.counters.bytes as f64)?;
        let help = "The last 15 digits of the version of the cache; 0 if it is not a number.";
        self.gauge("informer_store_resource_version", help, |state| {
            (state.version.as_u64().unwrap_or_default() % VERSION_MODULUS) as f64
        })?;
        let help = "Seconds since the source last sent a version.";
        self.gauges("informer_version_age_seconds", help, |state| {
            state.version_age(now).map(|age| (Vec::new(), age.as_secs_f64())).into_iter().collect()
        })?;
        let help = "Objects that cannot be decoded now.";
        self.gauge("informer_undecodable_objects", help, |state| state.undecodable as f64)?;
        let help = "Index functions that failed for some object.";
        self.gauge("informer_index_failures", help, |state| state.index_failures as f64)?;
        self.gauge("informer_running", "1 while the informer runs.", |state| f64::from(state.running))?;
        let help = "1 once the first list of the run is in the cache.";
        self.gauge("informer_synced", help, |state| f64::from(state.synced))?;
        let help = "The phase of the reflector: 1 for the current phase.";
        self.gauges("informer_state", help, |state| {
            let one = |(phase, word): &(ReflectorPhase, &str)| {
                let present = f64::from(state.reflector.phase == *phase);
                (vec![("state", (*word).to_owned())], present)
            };
            PHASES.iter().map(one).collect()
        })
    }

    fn pump(&mut self) -> fmt::Result {
        let help = "Changes that wait between the reflector and the cache.";
        self.gauge("informer_queued_items", help, |state| state.queue_depth as f64)?;
        let help = "Changes taken from the queue.";
        self.counter("informer_changes", help, |state| state.counters.changes)?;
        let help = "Events and objects older than the cached state, which were not applied.";
        self.counter("informer_stale_changes", help, |state| state.counters.stale)?;
        let help = "Events and objects that were already cached.";
        self.counter("informer_unchanged", help, |state| state.counters.unchanged)?;
        let help = "Lists older than the cached state, which were not applied.";
        self.counter("informer_stale_lists", help, |state| {
            state.counters.stale_lists + state.reflector.stale_lists
        })?;
        let help = "Consistent lists that moved the cache back to an older state.";
        self.counter("informer_rewound", help, |state| state.counters.rewound)?;
        let help = "Objects that could not be decoded since the start.";
        self.counter("informer_undecodable", help, |state| state.undecodable_total)?;
        let help = "Caught panics of the source, of a hook or of the metrics.";
        self.counter("informer_panics", help, |state| state.panics)?;
        let help = "Panics of the informer's own tasks; each is followed by a restart.";
        self.counter("informer_crashes", help, |state| state.crashes)?;
        let help = "1 from a panic of the informer's own tasks until its next first list is in the cache.";
        self.gauge("informer_crashed", help, |state| f64::from(state.crash.is_some()))
    }

    fn reflector(&mut self) -> fmt::Result {
        let help = "Lists started, by reason.";
        self.counters("informer_relists", help, |state| {
            let one =
                |(reason, count): (RelistReason, u64)| (vec![("reason", reason.as_str().to_owned())], count);
            state.reflector.relists.iter().map(one).collect()
        })?;
        let help = "List requests sent: one for each page.";
        self.counter("informer_list_requests", help, |state| state.reflector.list_requests)?;
        let help = "Failures of the source since the last success.";
        self.gauge("informer_consecutive_failures", help, |state| state.reflector.failures as f64)
    }

    fn watches(&mut self) -> fmt::Result {
        let help = "Watches that were accepted.";
        self.counter("informer_watches", help, |state| state.reflector.watches_opened)?;
        let help = "Watches that were closed within a second.";
        self.counter("informer_short_watches", help, |state| state.reflector.short_watches)?;
        let help = "Watches that were silent past their timeout and closed.";
        self.counter("informer_silent_watches", help, |state| state.reflector.silent_watches)?;
        let help = "Streaming lists that were replaced by an ordinary list.";
        self.counter("informer_streaming_fallbacks", help, |state| state.reflector.streaming_fallbacks)?;
        self.counters("informer_watch_events", "Watch events received, by type.", |state| {
            by_type(&state.reflector.events)
                .map(|(word, count)| (vec![("type", word.to_owned())], count))
                .into()
        })
    }

    fn handlers(&mut self) -> fmt::Result {
        let help = "Pending events of a handler.";
        self.handler_gauge("informer_handler_depth", help, |handler| handler.depth as f64)?;
        let help = "The largest number of pending events of a handler so far.";
        self.handler_gauge("informer_handler_depth_max", help, |handler| handler.max_depth as f64)?;
        let help = "1 once the handler has handled the first list.";
        self.handler_gauge("informer_handler_synced", help, |handler| f64::from(handler.synced))?;
        let help = "Calls of a handler that returned.";
        self.handler_counter("informer_handler_calls", help, |handler| handler.calls)?;
        let help = "Calls of a handler that panicked.";
        self.handler_counter("informer_handler_panics", help, |handler| handler.panics)?;
        let help = "Calls of a handler that blocked a thread of the runtime for too long.";
        self.handler_counter("informer_handler_blocked", help, |handler| handler.blocked)
    }

    fn gauge(&mut self, name: &str, help: &str, figure: impl Fn(&InformerState) -> f64) -> fmt::Result {
        self.gauges(name, help, |state| vec![(Vec::new(), figure(state))])
    }

    fn counter(&mut self, name: &str, help: &str, figure: impl Fn(&InformerState) -> u64) -> fmt::Result {
        self.counters(name, help, |state| vec![(Vec::new(), figure(state))])
    }

    fn handler_gauge(&mut self, name: &str, help: &str, figure: fn(&HandlerState) -> f64) -> fmt::Result {
        self.gauges(name, help, |state| {
            state.handlers.iter().map(|handler| (of_handler(handler), figure(handler))).collect()
        })
    }

    fn handler_counter(&mut self, name: &str, help: &str, figure: fn(&HandlerState) -> u64) -> fmt::Result {
        self.counters(name, help, |state| {
            state.handlers.iter().map(|handler| (of_handler(handler), figure(handler))).collect()
        })
    }

    /// Encodes one family of gauges. For each informer, the function `read` returns values together with
    /// their labels; the label `name` is added here.
    fn gauges(
        &mut self,
        name: &str,
        help: &str,
        figures: impl Fn(&InformerState) -> Vec<(Labels, f64)>,
    ) -> fmt::Result {
        let mut family = self.encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for state in self.states {
            for (labels, figure) in figures(state) {
                ConstGauge::new(figure).encode(family.encode_family(&named(state, labels))?)?;
            }
        }
        Ok(())
    }

    fn counters(
        &mut self,
        name: &str,
        help: &str,
        figures: impl Fn(&InformerState) -> Vec<(Labels, u64)>,
    ) -> fmt::Result {
        let mut family = self.encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for state in self.states {
            for (labels, figure) in figures(state) {
                ConstCounter::new(figure).encode(family.encode_family(&named(state, labels))?)?;
            }
        }
        Ok(())
    }
}

fn named(state: &InformerState, others: Labels) -> Labels {
    std::iter::once(("name", state.name.clone())).chain(others).collect()
}

fn of_handler(handler: &HandlerState) -> Labels {
    vec![("handler", handler.name.clone())]
}

const PHASES: [(ReflectorPhase, &str); 8] = [
    (ReflectorPhase::Created, "created"),
    (ReflectorPhase::Listing, "listing"),
    (ReflectorPhase::StreamingList, "streaming_list"),
    (ReflectorPhase::Checking, "checking"),
    (ReflectorPhase::OpeningWatch, "opening_watch"),
    (ReflectorPhase::Watching, "watching"),
    (ReflectorPhase::BackingOff, "backing_off"),
    (ReflectorPhase::Stopped, "stopped"),
];

fn by_type(counts: &EventCounts) -> [(&'static str, u64); 8] {
    [
        ("added", counts.added),
        ("modified", counts.modified),
        ("deleted", counts.deleted),
        ("rejected", counts.rejected),
        ("bookmark", counts.bookmarks),
        ("error", counts.errors),
        ("undecodable", counts.undecodable),
        ("unknown", counts.unknown),
    ]
}

impl Default for PrometheusInformers {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for PrometheusInformers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PrometheusInformers")
            .field("informers", &self.probes.lock().list.len())
            .finish_non_exhaustive()
    }
}

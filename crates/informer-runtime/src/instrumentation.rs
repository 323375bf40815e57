//! The metrics and debug pages of a manager.
//!
//! # Lock order
//!
//! A probe is a handle that reads the state of one informer or queue. Each list of probes has a lock. The
//! list is copied under the lock, and the informers and queues are read without it. The metrics registry is
//! locked for reading while it is encoded, so a collector that registered a metric would deadlock.

#[cfg(feature = "console")]
pub(crate) mod console;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use informer_cache::metrics::{InformerMetrics, InformerProbe};
use informer_cache::reflector::{ReflectorStatus, RelistCounts};
use informer_cache::source::SourceErrorKind;
use informer_cache::{HandlerState, InformerState};
use informer_client::{MemoryBudget, MemoryState};
use informer_workqueue::{QueueMetrics, QueueProbe, QueueStats};
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::CachedClient;
use crate::causes::ControllerPage;
use crate::leader::health::LeaseHealth;

#[cfg(feature = "prometheus")]
use {
    crate::client::metrics::prometheus::PrometheusClient, crate::http_server::CertificateMetrics,
    crate::leader::health::LeaseFailureMetrics, informer_cache::metrics::prometheus::PrometheusInformers,
    informer_workqueue::PrometheusMetrics, parking_lot::RwLock, prometheus_client::registry::Registry,
};

/// The maximum number of informers, and of queues, on the debug pages. Informers and queues that were dropped
/// are not counted. If there are more, the oldest ones are removed when the list next reaches a power of two.
const MAX_PROBES: usize = 10_000;

const MAX_LEASES: usize = 1_000;

#[derive(Default)]
pub(crate) struct Instrumentation {
    informers: Mutex<Probes<InformerProbe>>,
    queues: Mutex<Probes<NamedQueue>>,
    leases: Mutex<Vec<Arc<LeaseHealth>>>,
    controllers: Mutex<Vec<Weak<dyn ControllerPage>>>,
    /// The memory budgets of the caches that have one.
    budgets: Mutex<Vec<MemoryBudget>>,
    /// The state that only the console shows.
    #[cfg(feature = "console")]
    pub(crate) console: console::ConsoleCounters,
    #[cfg(feature = "prometheus")]
    pub(crate) prometheus: Prometheus,
}

/// The metrics registry of a manager, and handles of the metrics that every manager registers in it.
#[cfg(feature = "prometheus")]
pub(crate) struct Prometheus {
    pub(crate) registry: RwLock<Registry>,
    informers: PrometheusInformers,
    queues: PrometheusMetrics,
    pub(crate) certificates: CertificateMetrics,
    pub(crate) leases: LeaseFailureMetrics,
    #[cfg(feature = "webhook")]
    pub(crate) webhooks: crate::webhook::WebhookMetrics,
}

#[cfg(feature = "prometheus")]
impl Default for Prometheus {
    fn default() -> Self {
        let mut registry = Registry::default();
        let informers = PrometheusInformers::register(&mut registry);
        let queues = PrometheusMetrics::register(&mut registry);
        let certificates = CertificateMetrics::register(&mut registry);
        let leases = LeaseFailureMetrics::register(&mut registry);
        #[cfg(feature = "webhook")]
        let webhooks = crate::webhook::WebhookMetrics::register(&mut registry);
        Self {
            registry: RwLock::new(registry),
            informers,
            queues,
            certificates,
            leases,
            #[cfg(feature = "webhook")]
            webhooks,
        }
    }
}

#[derive(Debug, thiserror::Error)]
#[error("informers restart after a panic of their own tasks: {0}")]
pub(crate) struct CrashedInformers(String);

impl Instrumentation {
    /// Adds the requests of a client, and the informers of its cache, to the manager's metrics and debug
    /// pages.
    pub(crate) fn show(self: &Arc<Self>, client: &CachedClient) {
        let informers: Arc<dyn InformerMetrics> = Arc::clone(self) as _;
        client.cache().show_in(&informers);
        #[cfg(feature = "console")]
        self.console.add_cache(client.cache());
        if let Some(budget) = client.cache().memory_budget() {
            let mut budgets = self.budgets.lock();
            if budgets.len() < MAX_PROBES {
                budgets.push(budget.clone());
            }
        }
        #[cfg(feature = "prometheus")]
        let prometheus = {
            let host = host(client.api().address());
            PrometheusClient::register(&mut self.prometheus.registry.write(), host)
        };
        #[cfg(feature = "console")]
        client.show_in(Arc::new(console::CountedClient {
            counts: Arc::clone(&self.console.requests),
            #[cfg(feature = "prometheus")]
            prometheus,
        }));
        #[cfg(all(feature = "prometheus", not(feature = "console")))]
        client.show_in(Arc::new(prometheus));
    }

    pub(crate) fn queue(self: &Arc<Self>, name: &str) -> Arc<dyn QueueMetrics> {
        Arc::new(InstrumentedQueue {
            name: name.to_owned(),
            instrumentation: Arc::clone(self),
            #[cfg(feature = "console")]
            counters: Arc::default(),
            #[cfg(feature = "prometheus")]
            inner: self.prometheus.queues.queue(name),
        })
    }

    #[cfg(feature = "prometheus")]
    pub(crate) fn metrics(&self) -> Result<String, std::fmt::Error> {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.prometheus.registry.read())?;
        Ok(text)
    }

    pub(crate) fn informers_page(&self, now: Instant) -> Value {
        let mut page = json!({"informers": self.informers(MAX_PROBES, now).0});
        let budgets = self.budgets.lock().clone();
        if !budgets.is_empty() {
            page["memory"] = budgets.iter().map(|budget| memory(&budget.state())).collect();
        }
        page
    }

    /// Returns the states of the first `max` informers as JSON, and the number of the others.
    pub(crate) fn informers(&self, max: usize, now: Instant) -> (Vec<Value>, usize) {
        first(
            &all(&self.informers),
            max,
            |probe| Some(informer(&probe.state()?, now)),
            InformerProbe::is_alive,
        )
    }

    /// Returns the probes of all informers of this name. Those of typed and of dynamic objects of a kind have
    /// the same name.
    #[cfg(feature = "console")]
    pub(crate) fn informers_named(&self, name: &str) -> Vec<InformerProbe> {
        let mut named = all(&self.informers);
        named.retain(|probe| probe.state().is_some_and(|state| state.name == name));
        named
    }

    /// Adds an election or a member of a shard group to the page `/debug/leases`, which shows at most
    /// [`MAX_LEASES`] of them.
    pub(crate) fn show_lease(&self, lease: Arc<LeaseHealth>) {
        let mut leases = self.leases.lock();
        if leases.len() < MAX_LEASES {
            leases.push(lease);
        }
    }

    pub(crate) fn leases_page(&self, now: Instant) -> Value {
        json!({"leases": self.leases(MAX_LEASES, now).0})
    }

    /// Returns the first `max` elections and members of shard groups as JSON, and the number of the others.
    pub(crate) fn leases(&self, max: usize, now: Instant) -> (Vec<Value>, usize) {
        first(&self.leases.lock().clone(), max, |lease| Some(lease.page(now)), |_| true)
    }

    /// Returns a reference to the Lease of the manager's leader election.
    #[cfg(feature = "console")]
    pub(crate) fn election_lease(&self) -> Option<crate::EventSubject> {
        self.leases.lock().iter().find_map(|lease| lease.election_lease())
    }

    /// Adds a controller to the debug pages.
    pub(crate) fn show_controller(&self, controller: Weak<dyn ControllerPage>) {
        let mut all = self.controllers.lock();
        all.retain(|controller| controller.strong_count() > 0);
        if all.len() < MAX_PROBES {
            all.push(controller);
        }
    }

    pub(crate) fn controllers(&self) -> Vec<Arc<dyn ControllerPage>> {
        let all = self.controllers.lock().clone();
        all.iter().filter_map(Weak::upgrade).collect()
    }

    pub(crate) fn reconciles_page(&self) -> Value {
        let controllers = self.controllers();
        let shown = controllers.iter().filter_map(|controller| {
            let mut page = controller.causes()?;
            page["name"] = json!(controller.name());
            Some(page)
        });
        json!({"controllers": shown.collect::<Vec<_>>()})
    }

    /// Returns an error if an informer is restarting after a panic of its own tasks. Meanwhile its cache does
    /// not follow the server, so the program is not ready.
    pub(crate) fn check_informers(&self) -> Result<(), CrashedInformers> {
        let states = all(&self.informers).into_iter().filter_map(|probe| probe.state());
        let text = |state: InformerState| Some(format!("{}: {}", state.name, state.crash?.panic));
        let crashed: Vec<String> = states.filter(|state| state.running).filter_map(text).collect();
        if crashed.is_empty() { Ok(()) } else { Err(CrashedInformers(crashed.join("; "))) }
    }

    pub(crate) fn queues_page(&self) -> Value {
        json!({"queues": self.queues(MAX_PROBES).0})
    }

    /// Returns the states of the first `max` queues as JSON, and the number of the others.
    pub(crate) fn queues(&self, max: usize) -> (Vec<Value>, usize) {
        let page = |queue: &NamedQueue| Some(queue.page(&queue.probe.stats()?));
        first(&all(&self.queues), max, page, |queue| queue.probe.is_alive())
    }
}

/// Returns the host and port of a server URL, because client-go uses them as the label of requests in
/// metrics. If the string is not a URL, returns it unchanged.
#[cfg(any(feature = "console", feature = "prometheus"))]
pub(crate) fn host(address: &str) -> String {
    let Ok(uri) = address.parse::<http::Uri>() else { return address.to_owned() };
    match (uri.host(), uri.port_u16()) {
        (Some(host), Some(port)) => format!("{host}:{port}"),
        (Some(host), None) => host.to_owned(),
        (None, _) => address.to_owned(),
    }
}

fn memory(state: &MemoryState) -> Value {
    let sources = state.sources.iter().map(|source| {
        json!({
            "source": source.source,
            "objects": source.objects,
            "bytes": source.used,
            "compressed": source.is_compressed,
        })
    });
    json!({"limit": state.limit, "bytes": state.used, "sources": sources.collect::<Vec<_>>()})
}

fn informer(state: &InformerState, now: Instant) -> Value {
    let reflector = &state.reflector;
    json!({
        "name": state.name,
        "what": state.what,
        "running": state.running,
        "synced": state.synced,
        "phase": format!("{:?}", reflector.phase),
        "version": state.version.to_string(),
        "versionAgeSeconds": state.version_age(now).map(|age| age.as_secs_f64()),
        "lastError": reflector.last_error.as_ref().map(ToString::to_string),
        "failures": reflector.failures,
        "notServed": is_not_served(reflector),
        "nextAttemptSeconds": reflector.next_attempt_at.map(|at| at.saturating_duration_since(now).as_secs_f64()),
        "lists": reflector.list_requests,
        "relists": relists(&reflector.relists),
        "events": reflector.events.total(),
        "watches": reflector.watches_opened,
        "resyncs": reflector.resyncs,
        "staleLists": reflector.stale_lists,
        "rewound": reflector.rewound,
        "objects": state.objects,
        "bytes": state.counters.bytes,
        "changes": state.counters.changes,
        "queued": state.queue_depth,
        "undecodable": state.undecodable,
        "undecodableTotal": state.undecodable_total,
        "indexFailures": state.index_failures,
        "panics": state.panics,
        "crash": state.crash.as_ref().map(|crash| &crash.panic),
        "crashes": state.crashes,
        "handlers": state.handlers.iter().map(handler).collect::<Vec<_>>(),
    })
}

/// Returns true if the last request failed because the server does not serve the kind: its CRD is missing,
/// or does not serve this version.
fn is_not_served(reflector: &ReflectorStatus) -> bool {
    let last = reflector.last_error.as_ref().filter(|_| reflector.failures > 0);
    last.is_some_and(|error| error.kind() == SourceErrorKind::NotFound)
}

/// Returns the numbers of lists by reason, without zeros.
fn relists(counts: &RelistCounts) -> Value {
    let counted = counts.iter().filter(|(_, count)| *count > 0);
    counted.map(|(reason, count)| (reason.as_str().to_owned(), json!(count))).collect()
}

fn handler(state: &HandlerState) -> Value {
    let bucket = |(bound, calls): (Option<Duration>, u64)| json!({"upToSeconds": bound.map(|bound| bound.as_secs_f64()), "calls": calls});
    json!({
        "name": state.name,
        "synced": state.synced,
        "depth": state.depth,
        "depthMax": state.max_depth,
        "calls": state.calls,
        "panics": state.panics,
        "blocked": state.blocked,
        "secondsTotal": state.latency.total().as_secs_f64(),
        "latency": state.latency.buckets().map(bucket).collect::<Vec<_>>(),
    })
}

/// A queue on the debug pages.
#[derive(Clone)]
struct NamedQueue {
    name: String,
    probe: QueueProbe,
    #[cfg(feature = "console")]
    counters: Arc<console::QueueCounters>,
}

impl NamedQueue {
    fn page(&self, stats: &QueueStats) -> Value {
        #[cfg_attr(not(feature = "console"), expect(unused_mut, reason = "the console adds counters"))]
        let mut page = queue(&self.name, stats);
        #[cfg(feature = "console")]
        self.counters.add_to(&mut page);
        page
    }
}

fn queue(name: &str, stats: &QueueStats) -> Value {
    let depth = |depth: &informer_workqueue::QueueDepth| json!({"priority": depth.priority, "group": depth.group.as_deref(), "ready": depth.len});
    json!({
        "name": name,
        "ready": stats.ready,
        "waiting": stats.waiting,
        "processing": stats.processing,
        "unfinishedSeconds": stats.unfinished.as_secs_f64(),
        "longestSeconds": stats.longest.as_secs_f64(),
        "oldestSeconds": stats.oldest.as_secs_f64(),
        "depths": stats.depths.iter().map(depth).collect::<Vec<_>>(),
        "otherDepths": stats.others,
        "orderFailed": stats.order_failed,
    })
}

/// A list of probes in insertion order. A probe is a handle that reads the state of one informer or queue,
/// for debug pages.
struct Probes<T> {
    next: u64,
    all: BTreeMap<u64, T>,
}

impl<T> Default for Probes<T> {
    fn default() -> Self {
        Self { next: 0, all: BTreeMap::new() }
    }
}

/// Adds a probe, which reads the state of one informer or queue, to a list. If the list then has a power of
/// two of elements, the probes of dropped informers or queues are removed, and then the oldest ones beyond
/// [`MAX_PROBES`]. This keeps the average cost of an insertion constant.
fn add_probe<T: Clone>(probes: &Mutex<Probes<T>>, probe: T, is_alive: impl Fn(&T) -> bool) {
    let snapshot = {
        let mut probes = probes.lock();
        let id = probes.next;
        probes.next += 1;
        probes.all.insert(id, probe);
        probes.all.len().is_power_of_two().then(|| probes.all.clone())
    };
    // The list of probes is copied, and `is_alive` is called without its lock, because `is_alive` may take
    // the lock of an informer or queue.
    let Some(all) = snapshot else { return };
    let dropped: Vec<u64> = all.iter().filter(|(_, probe)| !is_alive(probe)).map(|(id, _)| *id).collect();
    let mut probes = probes.lock();
    for id in dropped {
        probes.all.remove(&id);
    }
    while probes.all.len() > MAX_PROBES {
        probes.all.pop_first();
    }
}

fn all<T: Clone>(probes: &Mutex<Probes<T>>) -> Vec<T> {
    probes.lock().all.values().cloned().collect()
}

/// Renders the first `max` elements that exist, and counts the others without reading their state.
fn first<T>(
    all: &[T],
    max: usize,
    render: impl Fn(&T) -> Option<Value>,
    is_alive: impl Fn(&T) -> bool,
) -> (Vec<Value>, usize) {
    let mut rest = all.iter();
    let shown = rest.by_ref().filter_map(render).take(max).collect();
    (shown, rest.filter(|one| is_alive(one)).count())
}

impl InformerMetrics for Instrumentation {
    fn observe(&self, probe: InformerProbe) {
        #[cfg(feature = "prometheus")]
        self.prometheus.informers.observe(probe.clone());
        add_probe(&self.informers, probe, InformerProbe::is_alive);
    }

    fn processed(&self, informer: &str, changes: usize, took: Duration) {
        #[cfg(feature = "prometheus")]
        self.prometheus.informers.processed(informer, changes, took);
        #[cfg(not(feature = "prometheus"))]
        let _ = (informer, changes, took);
    }
}

/// Receives the metrics of one queue. Forwards them to the manager's registry, and adds the queue to the
/// debug pages.
struct InstrumentedQueue {
    name: String,
    instrumentation: Arc<Instrumentation>,
    #[cfg(feature = "console")]
    counters: Arc<console::QueueCounters>,
    #[cfg(feature = "prometheus")]
    inner: Arc<dyn QueueMetrics>,
}

#[cfg_attr(
    not(any(feature = "console", feature = "prometheus")),
    expect(unused_variables, reason = "only the probe is kept")
)]
impl QueueMetrics for InstrumentedQueue {
    fn added(&self, keys: usize) {
        #[cfg(feature = "console")]
        self.counters.added(keys);
        #[cfg(feature = "prometheus")]
        self.inner.added(keys);
    }

    fn retried(&self) {
        #[cfg(feature = "console")]
        self.counters.retried();
        #[cfg(feature = "prometheus")]
        self.inner.retried();
    }

    fn queued_for(&self, time: Duration) {
        #[cfg(feature = "console")]
        self.counters.queued_for(time);
        #[cfg(feature = "prometheus")]
        self.inner.queued_for(time);
    }

    fn worked_for(&self, time: Duration) {
        #[cfg(feature = "console")]
        self.counters.worked_for(time);
        #[cfg(feature = "prometheus")]
        self.inner.worked_for(time);
    }

    fn attach(&self, probe: QueueProbe) {
        #[cfg(feature = "prometheus")]
        self.inner.attach(probe.clone());
        let queue = NamedQueue {
            name: self.name.clone(),
            probe,
            #[cfg(feature = "console")]
            counters: Arc::clone(&self.counters),
        };
        add_probe(&self.instrumentation.queues, queue, |queue| queue.probe.is_alive());
    }
}

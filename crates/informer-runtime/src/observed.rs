//! What a manager shows of its parts: metrics, and debug pages.
//!
//! # Lock order
//!
//! The lists of probes are copied from; no informer and no queue is asked under a lock. The registry is locked for reading while it is
//! encoded: a collector must not register anything.

mod observers;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use informer_cache::metrics::{InformerMetrics, InformerProbe};
use informer_cache::{HandlerState, InformerState};
use informer_workqueue::{QueueMetrics, QueueProbe, QueueStats};
use parking_lot::Mutex;
use serde_json::{Value, json};

pub(crate) use observers::Observers;

use crate::CachedClient;
use crate::leader::health::LeaseHealth;

#[cfg(feature = "prometheus")]
use {
    crate::client::metrics::prometheus::PrometheusClient, crate::http_server::CertificateReads,
    crate::leader::health::LeaseFailureMetrics, informer_cache::metrics::prometheus::PrometheusInformers,
    informer_workqueue::PrometheusMetrics, parking_lot::RwLock, prometheus_client::registry::Registry,
};

/// Informers and queues that are asked for a page. They go with their probes; where more come, the oldest are shown no more.
const PROBES_MAX: usize = 10_000;

/// Elections and shard memberships that are shown.
const LEASES_MAX: usize = 1_000;

/// The informers and queues of a manager, its elections and shard memberships, and its metrics.
#[derive(Default)]
pub(crate) struct Observed {
    informers: Mutex<Probes<InformerProbe>>,
    queues: Mutex<Probes<(String, QueueProbe)>>,
    leases: Mutex<Vec<Arc<LeaseHealth>>>,
    #[cfg(feature = "prometheus")]
    pub(crate) prometheus: Prometheus,
}

/// The registry of a manager, and what is registered from the beginning.
#[cfg(feature = "prometheus")]
pub(crate) struct Prometheus {
    pub(crate) registry: RwLock<Registry>,
    informers: PrometheusInformers,
    queues: PrometheusMetrics,
    pub(crate) certificates: CertificateReads,
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
        let certificates = CertificateReads::register(&mut registry);
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

/// Informers that restart after a panic of their own tasks, with the messages of the panics.
#[derive(Debug, thiserror::Error)]
#[error("informers restart after a panic of their own tasks: {0}")]
pub(crate) struct CrashedInformers(String);

impl Observed {
    /// Shows a client, and the informers of its cache.
    pub(crate) fn show(self: &Arc<Self>, client: &CachedClient) {
        let informers: Arc<dyn InformerMetrics> = Arc::clone(self) as _;
        client.cache().show_in(&informers);
        #[cfg(feature = "prometheus")]
        {
            let host = host(client.api().address());
            let metrics = PrometheusClient::register(&mut self.prometheus.registry.write(), host);
            client.show_in(Arc::new(metrics));
        }
    }

    /// The metrics of a queue of this name.
    pub(crate) fn queue(self: &Arc<Self>, name: &str) -> Arc<dyn QueueMetrics> {
        Arc::new(ObservedQueue {
            name: name.to_owned(),
            observed: Arc::clone(self),
            #[cfg(feature = "prometheus")]
            inner: self.prometheus.queues.queue(name),
        })
    }

    /// All metrics, as text.
    #[cfg(feature = "prometheus")]
    pub(crate) fn metrics(&self) -> Result<String, std::fmt::Error> {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.prometheus.registry.read())?;
        Ok(text)
    }

    /// Every informer, as JSON: what it does, its figures and its last error.
    pub(crate) fn informers_page(&self, now: Instant) -> Value {
        let probes = all(&self.informers);
        let states = probes.iter().filter_map(InformerProbe::state);
        json!({"informers": states.map(|state| informer(&state, now)).collect::<Vec<_>>()})
    }

    /// Shows an election or a shard membership. A manager has a few; those beyond [`LEASES_MAX`] are not shown.
    pub(crate) fn show_lease(&self, lease: Arc<LeaseHealth>) {
        let mut leases = self.leases.lock();
        if leases.len() < LEASES_MAX {
            leases.push(lease);
        }
    }

    /// Every election and every shard membership, as JSON.
    pub(crate) fn leases_page(&self, now: Instant) -> Value {
        let leases = self.leases.lock().clone();
        json!({"leases": leases.iter().map(|lease| lease.page(now)).collect::<Vec<_>>()})
    }

    /// Fails while an informer restarts after a panic of its own tasks, since its cache does not follow the server.
    pub(crate) fn check_informers(&self) -> Result<(), CrashedInformers> {
        let states = all(&self.informers).into_iter().filter_map(|probe| probe.state());
        let text = |state: InformerState| Some(format!("{}: {}", state.name, state.crash?.panic));
        let crashed: Vec<String> = states.filter(|state| state.running).filter_map(text).collect();
        if crashed.is_empty() { Ok(()) } else { Err(CrashedInformers(crashed.join("; "))) }
    }

    /// Every queue, as JSON.
    pub(crate) fn queues_page(&self) -> Value {
        let probes = all(&self.queues);
        let stats = probes.iter().filter_map(|(name, probe)| Some((name, probe.stats()?)));
        json!({"queues": stats.map(|(name, stats)| queue(name, &stats)).collect::<Vec<_>>()})
    }
}

/// Host and port of a server, as upstream labels requests; what is no URL stays as it is.
#[cfg(feature = "prometheus")]
pub(crate) fn host(address: &str) -> String {
    let Ok(uri) = address.parse::<http::Uri>() else { return address.to_owned() };
    match (uri.host(), uri.port_u16()) {
        (Some(host), Some(port)) => format!("{host}:{port}"),
        (Some(host), None) => host.to_owned(),
        (None, _) => address.to_owned(),
    }
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
        "nextAttemptSeconds": reflector.next_attempt_at.map(|at| at.saturating_duration_since(now).as_secs_f64()),
        "lists": reflector.list_requests,
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

fn handler(state: &HandlerState) -> Value {
    json!({
        "name": state.name,
        "synced": state.synced,
        "depth": state.depth,
        "depthMax": state.depth_max,
        "calls": state.calls,
        "panics": state.panics,
        "blocked": state.blocked,
    })
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
        "depths": stats.depths.iter().map(depth).collect::<Vec<_>>(),
        "orderFailed": stats.order_failed,
    })
}

/// Probes by the order in which they came.
struct Probes<T> {
    next: u64,
    all: BTreeMap<u64, T>,
}

impl<T> Default for Probes<T> {
    fn default() -> Self {
        Self { next: 0, all: BTreeMap::new() }
    }
}

/// Adds a probe, and forgets those of what is gone when there are many.
fn keep<T: Clone>(probes: &Mutex<Probes<T>>, probe: T, lives: impl Fn(&T) -> bool) {
    let crowded = {
        let mut probes = probes.lock();
        let id = probes.next;
        probes.next += 1;
        probes.all.insert(id, probe);
        probes.all.len().is_power_of_two().then(|| probes.all.clone())
    };
    // Asked outside of the lock.
    let Some(all) = crowded else { return };
    let gone: Vec<u64> = all.iter().filter(|(_, probe)| !lives(probe)).map(|(id, _)| *id).collect();
    let mut probes = probes.lock();
    for id in gone {
        probes.all.remove(&id);
    }
    while probes.all.len() > PROBES_MAX {
        probes.all.pop_first();
    }
}

fn all<T: Clone>(probes: &Mutex<Probes<T>>) -> Vec<T> {
    probes.lock().all.values().cloned().collect()
}

impl InformerMetrics for Observed {
    fn observe(&self, probe: InformerProbe) {
        #[cfg(feature = "prometheus")]
        self.prometheus.informers.observe(probe.clone());
        keep(&self.informers, probe, InformerProbe::is_alive);
    }

    fn processed(&self, informer: &str, changes: usize, took: Duration) {
        #[cfg(feature = "prometheus")]
        self.prometheus.informers.processed(informer, changes, took);
        #[cfg(not(feature = "prometheus"))]
        let _ = (informer, changes, took);
    }
}

/// One queue: its probe is kept, and its events go on to the metrics.
struct ObservedQueue {
    name: String,
    observed: Arc<Observed>,
    #[cfg(feature = "prometheus")]
    inner: Arc<dyn QueueMetrics>,
}

#[cfg_attr(not(feature = "prometheus"), expect(unused_variables, reason = "only the probe is kept"))]
impl QueueMetrics for ObservedQueue {
    fn added(&self, keys: usize) {
        #[cfg(feature = "prometheus")]
        self.inner.added(keys);
    }

    fn retried(&self) {
        #[cfg(feature = "prometheus")]
        self.inner.retried();
    }

    fn queued_for(&self, time: Duration) {
        #[cfg(feature = "prometheus")]
        self.inner.queued_for(time);
    }

    fn worked_for(&self, time: Duration) {
        #[cfg(feature = "prometheus")]
        self.inner.worked_for(time);
    }

    fn attach(&self, probe: QueueProbe) {
        #[cfg(feature = "prometheus")]
        self.inner.attach(probe.clone());
        keep(&self.observed.queues, (self.name.clone(), probe), |(_, probe)| probe.is_alive());
    }
}

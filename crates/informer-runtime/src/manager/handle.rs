//! What the parts of a manager share.
//!
//! # Lock order
//!
//! `gate` alone; a part is asked for its name before it is taken.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use informer_cache::metrics::InformerMetrics;
use informer_client::Client;
use informer_workqueue::QueueMetrics;
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

use super::{AddError, BoxError, ManagerStatus};
use crate::controller::{ControllerMetricsProvider, Environment};
use crate::events::EventSender;
use crate::leader::health::LeaseHealth;
use crate::observed::Observed;
use crate::{
    ControllerDefaults, EventRecorder, HealthChecks, IntoRunnable, Leadership, Probe, Runnable,
    RunnableGroup, Services,
};

/// Parts that a manager takes over its life. Each of them sends one message at most, which bounds the driver's channel.
pub(super) const PARTS_MAX: usize = 10_000;

/// A part on its way into the manager.
pub(super) struct Added {
    pub(super) name: String,
    pub(super) group: RunnableGroup,
    pub(super) part: Box<dyn Runnable>,
}

impl Added {
    /// Asks a part for what has to be known before it runs, and for what it can do ahead of its turn.
    pub(super) fn of(mut part: Box<dyn Runnable>) -> Vec<Self> {
        let (name, group) = (part.name(), part.group());
        let early = part.warm_up().map(|part| Self { name: part.name(), group: RunnableGroup::WarmUp, part });
        early.into_iter().chain([Self { name, group, part }]).collect()
    }
}

/// A handle to a manager, for its parts and for those who made it. Cheap to clone.
#[derive(Clone)]
pub struct ManagerHandle {
    pub(super) shared: Arc<Shared>,
}

pub(super) struct Shared {
    services: Services,
    /// What controllers do unless they are told otherwise.
    pub(super) defaults: Mutex<ControllerDefaults>,
    controllers: Arc<dyn ControllerMetricsProvider>,
    gate: Mutex<Gate>,
    names: Mutex<HashSet<String>>,
    pub(super) stop: CancellationToken,
    pub(super) status: watch::Sender<ManagerStatus>,
    pub(super) leadership: watch::Sender<Leadership>,
    health: HealthChecks,
    pub(super) observed: Arc<Observed>,
    recorder: EventRecorder,
    /// Whether requests may be sent to the program.
    pub(super) ready: Arc<AtomicBool>,
}

/// Somebody who asks whether the driver goes on.
pub(super) type Ping = oneshot::Sender<()>;

/// Questions that wait: more than probes ask in the time that a check has.
const PINGS_MAX: usize = 16;

/// What the driver gets of a handle.
pub(super) struct DriverEnd {
    pub(super) added: mpsc::UnboundedReceiver<Added>,
    pub(super) pings: mpsc::Receiver<Ping>,
}

struct Gate {
    open: bool,
    taken: usize,
    parts: mpsc::UnboundedSender<Added>,
}

impl ManagerHandle {
    pub(super) fn new(client: crate::CachedClient, observed: Arc<Observed>) -> (Self, DriverEnd) {
        let (parts, added) = mpsc::unbounded_channel();
        let (ping, pings) = mpsc::channel(PINGS_MAX);
        let (events, recorder) = EventSender::new(client.api().clone());
        let (health, ready) = (HealthChecks::default(), Arc::new(AtomicBool::new(false)));
        own_checks(&health, &ping, &ready, &observed);
        let shared = Shared {
            services: Services::new(client, recorder.clone()),
            defaults: Mutex::default(),
            controllers: crate::controller::metrics_of(&observed),
            gate: Mutex::new(Gate { open: true, taken: 0, parts }),
            names: Mutex::default(),
            stop: CancellationToken::new(),
            status: watch::Sender::new(ManagerStatus::Created),
            leadership: watch::Sender::new(Leadership::Standby),
            health,
            observed,
            recorder,
            ready,
        };
        let handle = Self { shared: Arc::new(shared) };
        handle.add(events).expect("a new manager takes parts");
        (handle, DriverEnd { added, pings })
    }

    /// The client of the server, for requests of your own.
    pub fn client(&self) -> &Client {
        self.shared.services.client.api()
    }

    /// What the parts share: a client that reads from the cache, and the cache.
    pub fn services(&self) -> &Services {
        &self.shared.services
    }

    /// What a controller needs of this manager.
    pub(crate) fn environment(&self) -> Environment {
        Environment {
            services: self.shared.services.clone(),
            defaults: self.shared.defaults.lock().clone(),
            metrics: Some(Arc::clone(&self.shared.controllers)),
        }
    }

    /// Adds a part. Where its group has started, it starts at once; before, with its group.
    ///
    /// # Errors
    ///
    /// When the manager is stopping, has [too many](AddError::TooMany) parts, or the part cannot run in it.
    pub fn add(&self, part: impl IntoRunnable) -> Result<(), AddError> {
        let part = part.into_runnable(self).map_err(AddError::Refused)?;
        let parts = Added::of(part);
        let mut gate = self.shared.gate.lock();
        let name = || parts.last().map_or_else(String::new, |part| part.name.clone());
        if !gate.open {
            return Err(AddError::Stopping { name: name() });
        }
        if gate.taken + parts.len() > PARTS_MAX {
            return Err(AddError::TooMany { name: name(), max: PARTS_MAX });
        }
        gate.taken += parts.len();
        for part in parts {
            // The receiver lives as long as the gate is open.
            let _ = gate.parts.send(part);
        }
        Ok(())
    }

    /// Takes a name that only one part of this manager may have, as controllers do: it names their metrics.
    ///
    /// # Errors
    ///
    /// When another part has it.
    pub fn claim_name(&self, name: &str) -> Result<(), BoxError> {
        if self.shared.names.lock().insert(name.to_owned()) {
            return Ok(());
        }
        Err(format!("the name {name} is taken in this manager; name one of the two otherwise").into())
    }

    /// The checks of the probes.
    pub fn health(&self) -> &HealthChecks {
        &self.shared.health
    }

    /// Shows an election or a shard membership on `/readyz`, in metrics and on the debug page.
    pub(crate) fn observe_lease(&self, lease: &Arc<LeaseHealth>) {
        let checked = Arc::clone(lease);
        self.health().add(Probe::Ready, lease.check_name(), move || std::future::ready(checked.ready()));
        #[cfg(feature = "prometheus")]
        lease.count_in(&self.shared.observed.prometheus.leases);
        self.shared.observed.show_lease(Arc::clone(lease));
    }

    /// A recorder of events that names `controller` as the one who reports.
    pub fn recorder(&self, controller: &str) -> EventRecorder {
        self.shared.recorder.of(controller)
    }

    /// For informers, so that the manager's metrics and debug pages show them.
    pub fn informer_metrics(&self) -> Arc<dyn InformerMetrics> {
        Arc::clone(&self.shared.observed) as _
    }

    /// For a queue, so that the manager's metrics and debug pages show it.
    pub fn queue_metrics(&self, name: &str) -> Arc<dyn QueueMetrics> {
        self.shared.observed.queue(name)
    }

    /// For webhooks.
    #[cfg(all(feature = "prometheus", feature = "webhook"))]
    pub(crate) fn webhook_metrics(&self) -> crate::webhook::WebhookMetrics {
        self.shared.observed.prometheus.webhooks.clone()
    }

    /// For servers with a certificate.
    #[cfg(feature = "prometheus")]
    pub(crate) fn certificate_reads(&self) -> crate::http_server::CertificateReads {
        self.shared.observed.prometheus.certificates.clone()
    }

    /// Registers metrics beside the manager's own. It must not be called by a collector.
    #[cfg(feature = "prometheus")]
    pub fn register_metrics<T>(
        &self,
        register: impl FnOnce(&mut prometheus_client::registry::Registry) -> T,
    ) -> T {
        register(&mut self.shared.observed.prometheus.registry.write())
    }

    /// Ends the manager, as if what [`run_until`](super::Manager::run_until) waits for had come.
    pub fn stop(&self) {
        self.shared.stop.cancel();
    }

    /// What the manager does, now and later.
    pub fn status(&self) -> watch::Receiver<ManagerStatus> {
        self.shared.status.subscribe()
    }

    /// Whether this process leads, now and later. Without an election it leads as soon as the manager runs.
    pub fn leadership(&self) -> watch::Receiver<Leadership> {
        self.shared.leadership.subscribe()
    }

    /// True while this process leads, as far as it knows. The answer may be old when it is used: a write that must not be done by
    /// two processes needs a precondition, as [`Leadership`] says.
    pub fn is_leader(&self) -> bool {
        self.shared.leadership.borrow().is_leading()
    }

    /// Refuses parts from now on.
    pub(super) fn close(&self) {
        self.shared.gate.lock().open = false;
    }
}

/// The checks that every manager has. They hold parts of it, not the manager, which holds them.
fn own_checks(
    health: &HealthChecks,
    ping: &mpsc::Sender<Ping>,
    ready: &Arc<AtomicBool>,
    observed: &Arc<Observed>,
) {
    let observed = Arc::clone(observed);
    health.add(Probe::Ready, "informers", move || {
        let checked = observed.check_informers();
        async move { Ok(checked?) }
    });
    for probe in [Probe::Health, Probe::Ready, Probe::Live] {
        let ping = ping.clone();
        health.add(probe, "manager", move || {
            let ping = ping.clone();
            async move {
                let (answer, answered) = oneshot::channel();
                ping.send(answer).await.map_err(|_| "the manager has ended")?;
                Ok(answered.await.map_err(|_| "the manager has ended")?)
            }
        });
    }
    let ready = Arc::clone(ready);
    health.add(Probe::Ready, "started", move || {
        let ready = ready.load(Ordering::Acquire);
        async move { if ready { Ok(()) } else { Err("the manager is starting or stopping".into()) } }
    });
}

impl fmt::Debug for ManagerHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let status = self.shared.status.borrow().clone();
        f.debug_struct("ManagerHandle").field("status", &status).finish_non_exhaustive()
    }
}

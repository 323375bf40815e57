//! The handle of a manager and the services shared by its runnables.
//!
//! # Lock order
//!
//! One lock (`gate`) ensures that no runnable is added after the manager has begun to stop. It is never held
//! together with another lock. Methods of a runnable may take locks, so they are called before.

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
use crate::events::{EventSender, EventSink, EventSinks};
use crate::instrumentation::Instrumentation;
use crate::leader::health::LeaseHealth;
use crate::{
    ControllerDefaults, EventRecorder, HealthChecks, IntoRunnable, Leadership, Probe, Runnable,
    RunnableGroup, Services,
};

/// The maximum number of runnables that can be added to a manager during its life. The limit also bounds the
/// queue of added runnables, since the channel itself has no limit.
pub(super) const MAX_RUNNABLES: usize = 10_000;

pub(super) struct AddedRunnable {
    pub(super) name: String,
    pub(super) group: RunnableGroup,
    pub(super) runnable: Box<dyn Runnable>,
}

impl AddedRunnable {
    /// Reads the name and the group of a runnable. If the runnable has a warm-up, returns it as a separate
    /// runnable of the group `WarmUp`.
    pub(super) fn of(mut runnable: Box<dyn Runnable>) -> Vec<Self> {
        let (name, group) = (runnable.name(), runnable.group());
        let early = runnable.warm_up().map(|runnable| Self {
            name: runnable.name(),
            group: RunnableGroup::WarmUp,
            runnable,
        });
        early.into_iter().chain([Self { name, group, runnable }]).collect()
    }
}

/// A handle to a manager, for its runnables and its creator. Cheap to clone.
#[derive(Clone)]
pub struct ManagerHandle {
    pub(super) shared: Arc<ManagerShared>,
}

pub(super) struct ManagerShared {
    services: Services,
    pub(super) defaults: Mutex<ControllerDefaults>,
    controllers: Arc<dyn ControllerMetricsProvider>,
    gate: Mutex<Gate>,
    names: Mutex<HashSet<String>>,
    pub(super) stop: CancellationToken,
    pub(super) status: watch::Sender<ManagerStatus>,
    pub(super) leadership: watch::Sender<Leadership>,
    health: HealthChecks,
    pub(super) instrumentation: Arc<Instrumentation>,
    recorder: EventRecorder,
    sinks: EventSinks,
    pub(super) ready: Arc<AtomicBool>,
}

/// The channel on which the driver replies to a health check. If the driver's loop is blocked, there is no
/// reply, and the check fails.
pub(super) type Ping = oneshot::Sender<()>;

/// The capacity of the channel from health checks to the driver. It is larger than the number of health
/// requests that usually arrive within the timeout of a check.
const MAX_PINGS: usize = 16;

pub(super) struct DriverEnd {
    pub(super) added: mpsc::UnboundedReceiver<AddedRunnable>,
    pub(super) pings: mpsc::Receiver<Ping>,
}

struct Gate {
    open: bool,
    taken: usize,
    runnables: mpsc::UnboundedSender<AddedRunnable>,
}

impl ManagerHandle {
    pub(super) fn new(
        client: crate::CachedClient,
        instrumentation: Arc<Instrumentation>,
    ) -> (Self, DriverEnd) {
        let (runnables, added) = mpsc::unbounded_channel();
        let (ping, pings) = mpsc::channel(MAX_PINGS);
        let (events, recorder) = EventSender::new(client.api().clone());
        let (health, ready) = (HealthChecks::default(), Arc::new(AtomicBool::new(false)));
        own_checks(&health, &ping, &ready, &instrumentation);
        let shared = ManagerShared {
            services: Services::new(client, recorder.clone()),
            defaults: Mutex::default(),
            controllers: crate::controller::metrics_of(&instrumentation),
            gate: Mutex::new(Gate { open: true, taken: 0, runnables }),
            names: Mutex::default(),
            stop: CancellationToken::new(),
            status: watch::Sender::new(ManagerStatus::Created),
            leadership: watch::Sender::new(Leadership::Standby),
            health,
            instrumentation,
            recorder,
            sinks: events.sinks(),
            ready,
        };
        let handle = Self { shared: Arc::new(shared) };
        handle.add(events).expect("a new manager accepts runnables");
        (handle, DriverEnd { added, pings })
    }

    /// Returns the manager's API client, for requests that do not use the cache.
    pub fn client(&self) -> &Client {
        self.shared.services.client.api()
    }

    /// Returns the services that the manager's runnables share: the cached client, the cache and the event
    /// recorder.
    pub fn services(&self) -> &Services {
        &self.shared.services
    }

    pub(crate) fn environment(&self) -> Environment {
        Environment {
            services: self.shared.services.clone(),
            defaults: self.shared.defaults.lock().clone(),
            metrics: Some(Arc::clone(&self.shared.controllers)),
        }
    }

    /// Adds a runnable to the manager. The runnable starts with its group, or immediately if that group has
    /// started.
    ///
    /// # Errors
    ///
    /// Returns an error if the manager is stopping, has [too many](AddError::TooMany) runnables, or cannot
    /// run this one.
    pub fn add(&self, runnable: impl IntoRunnable) -> Result<(), AddError> {
        let runnable = runnable.into_runnable(self).map_err(AddError::Refused)?;
        let runnables = AddedRunnable::of(runnable);
        let mut gate = self.shared.gate.lock();
        let name = || runnables.last().map_or_else(String::new, |runnable| runnable.name.clone());
        if !gate.open {
            return Err(AddError::Stopping { name: name() });
        }
        if gate.taken + runnables.len() > MAX_RUNNABLES {
            return Err(AddError::TooMany { name: name(), max: MAX_RUNNABLES });
        }
        gate.taken += runnables.len();
        for runnable in runnables {
            // Sending the runnable to the driver cannot fail: the driver keeps the receiver as long as the
            // handle accepts runnables.
            let _ = gate.runnables.send(runnable);
        }
        Ok(())
    }

    /// Reserves a name that must be unique in this manager, such as a controller's name in metrics.
    ///
    /// # Errors
    ///
    /// Returns an error if the name is already in use.
    pub fn claim_name(&self, name: &str) -> Result<(), BoxError> {
        if self.shared.names.lock().insert(name.to_owned()) {
            return Ok(());
        }
        Err(format!("the name {name} is taken in this manager; use another name").into())
    }

    /// Returns the health checks of the manager, to which a program can add its own.
    pub fn health(&self) -> &HealthChecks {
        &self.shared.health
    }

    /// Adds an election or a shard group's member to the health endpoint `/readyz`, the metrics, and the page
    /// `/debug/leases`.
    pub(crate) fn observe_lease(&self, lease: &Arc<LeaseHealth>) {
        let checked = Arc::clone(lease);
        self.health().add(Probe::Ready, lease.check_name(), move || std::future::ready(checked.ready()));
        #[cfg(feature = "prometheus")]
        lease.count_in(&self.shared.instrumentation.prometheus.leases);
        self.shared.instrumentation.show_lease(Arc::clone(lease));
    }

    /// Returns a recorder whose events have `controller` as the reporting controller.
    pub fn recorder(&self, controller: &str) -> EventRecorder {
        self.shared.recorder.of(controller)
    }

    /// Adds a sink, which receives the events that are recorded from now on in addition to the API server.
    pub fn add_event_sink(&self, sink: impl EventSink) {
        self.shared.sinks.add(sink);
    }

    /// Returns a receiver of informer metrics. An informer that is built with it appears in the manager's
    /// metrics and on its debug pages.
    pub fn informer_metrics(&self) -> Arc<dyn InformerMetrics> {
        Arc::clone(&self.shared.instrumentation) as _
    }

    /// Returns a receiver of the metrics of a queue. A queue that is built with it appears under this name in
    /// the manager's metrics and on its debug pages.
    pub fn queue_metrics(&self, name: &str) -> Arc<dyn QueueMetrics> {
        self.shared.instrumentation.queue(name)
    }

    #[cfg(all(feature = "prometheus", feature = "webhook"))]
    pub(crate) fn webhook_metrics(&self) -> crate::webhook::WebhookMetrics {
        self.shared.instrumentation.prometheus.webhooks.clone()
    }

    #[cfg(feature = "prometheus")]
    pub(crate) fn certificate_metrics(&self) -> crate::http_server::CertificateMetrics {
        self.shared.instrumentation.prometheus.certificates.clone()
    }

    /// Registers metrics in the manager's registry. A metrics collector must not call this method: the
    /// registry is locked while collectors run, so the call would deadlock.
    #[cfg(feature = "prometheus")]
    pub fn register_metrics<T>(
        &self,
        register: impl FnOnce(&mut prometheus_client::registry::Registry) -> T,
    ) -> T {
        register(&mut self.shared.instrumentation.prometheus.registry.write())
    }

    /// Stops the manager and its runnables, like the future passed to
    /// [`run_until`](super::Manager::run_until) when it resolves.
    pub fn stop(&self) {
        self.shared.stop.cancel();
    }

    /// Returns a receiver of the manager's status, for example to wait until it runs.
    pub fn status(&self) -> watch::Receiver<ManagerStatus> {
        self.shared.status.subscribe()
    }

    /// Returns a receiver of this process's role in the leader election. Without an election, leader-only
    /// work is allowed as soon as the manager runs.
    pub fn leadership(&self) -> watch::Receiver<Leadership> {
        self.shared.leadership.subscribe()
    }

    /// Returns true if this process was the leader when last checked. The value may be outdated when it is
    /// used: a write that must not be made by two processes needs a precondition, as described at
    /// [`Leadership`].
    pub fn is_leader(&self) -> bool {
        self.shared.leadership.borrow().is_leading()
    }

    pub(super) fn close(&self) {
        self.shared.gate.lock().open = false;
    }
}

/// Adds the built-in health checks of a manager: `manager`, `informers` and `started`. The manager owns the
/// checks, so they refer only to its parts: a reference to the manager itself would be a cycle.
fn own_checks(
    health: &HealthChecks,
    ping: &mpsc::Sender<Ping>,
    ready: &Arc<AtomicBool>,
    instrumentation: &Arc<Instrumentation>,
) {
    let instrumentation = Arc::clone(instrumentation);
    health.add(Probe::Ready, "informers", move || {
        let checked = instrumentation.check_informers();
        async move { Ok(checked?) }
    });
    for probe in [Probe::Health, Probe::Ready, Probe::Live] {
        let ping = ping.clone();
        health.add(probe, "manager", move || {
            let ping = ping.clone();
            async move {
                let (reply_sender, reply) = oneshot::channel();
                ping.send(reply_sender).await.map_err(|_| "the manager has ended")?;
                Ok(reply.await.map_err(|_| "the manager has ended")?)
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

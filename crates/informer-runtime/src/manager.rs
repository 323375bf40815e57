//! The manager: starts the runnables of a program in order, supervises them, and stops them.
//!
//! # Invariants
//!
//! The state machine in `state.rs` decides when runnables start and stop, and its invariants hold. Only the
//! driver (`driver.rs`) starts and drops the tasks of runnables.
//!
//! # Lock order
//!
//! The handle (`handle.rs`) has locks, which are never held together. The driver holds no lock.
//!
//! # Shutdown
//!
//! 1. The manager accepts no more runnables.
//! 2. Each group of runnables is cancelled and awaited, from the last group to the first.
//! 3. Shortly before the deadline, all remaining groups are cancelled together.
//! 4. At the deadline, runnables that still run are dropped and named in the error. Their tasks and informers
//!    end with them.

mod driver;
mod error;
mod handle;
mod into_runnable;
mod state;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
#[cfg(feature = "prometheus")]
use prometheus_client::{
    metrics::{family::Family, gauge::Gauge},
    registry::Registry,
};

pub use error::{AddError, ManagerError, RunnableError};
pub use handle::ManagerHandle;
pub use into_runnable::IntoRunnable;

use crate::http_server::typed_response;
use crate::instrumentation::Instrumentation;
use crate::{
    BoxError, Cache, CachedClient, ControllerDefaults, EventSink, HttpServer, LeaderElection, LeaderElector,
    Probe,
};
use handle::DriverEnd;

const STOP_TIMEOUT: Duration = Duration::from_secs(30);

const START_TIMEOUT: Duration = Duration::from_secs(120);

/// The status of a manager, from its creation to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ManagerStatus {
    /// The manager was created and does not run yet.
    Created,
    /// The manager starts its runnables, one group after another.
    Starting,
    /// The runnables of all groups have started. If the manager has leader election and another process is
    /// the leader, the leader-only group has not started.
    Running,
    /// The manager is stopping its runnables, because the program requested it or a runnable failed.
    Stopping,
    /// The run of the manager has ended, and so have its runnables.
    Stopped,
}

/// Runs the runnables of a program: caches, controllers, servers and every other
/// [`Runnable`](crate::Runnable).
///
/// Runnables start in the order of their [groups](crate::RunnableGroup). Each group starts when the previous
/// one is ready; with leader election, the leader-only group waits until this process is the leader. The
/// first error or panic of any runnable stops the manager and all other runnables. They stop in reverse
/// order, within [`stop_timeout`](Self::stop_timeout); the error names those that did not stop.
///
/// This type corresponds to
/// [`manager.Manager`](https://pkg.go.dev/sigs.k8s.io/controller-runtime/pkg/manager#Manager). There,
/// runnables of a standby that hang can keep the process from exiting, webhooks count as started before they
/// listen, and controller names are unique per process. Here all runnables stop at a deadline, a ready
/// webhook listens, and names are unique per manager.
///
/// ```
/// use informer_runtime::{Manager, RunnableGroup, runnable};
/// # use informer_client::Client;
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), informer_runtime::ManagerError> {
/// # let server = informer_apiserver::ApiServer::builder().build();
/// # let client = Client::from_service(server.service(), "default");
/// let greeter = runnable("greeter", |_stop| async move {
///     println!("hello");
///     Ok(())
/// });
/// Manager::new(client)
///     .add(greeter.group(RunnableGroup::Others))
///     .run_until(tokio::time::sleep(std::time::Duration::from_secs(5)))
///     .await
/// # }
/// ```
#[must_use = "a manager does nothing until it runs"]
pub struct Manager {
    handle: ManagerHandle,
    end: DriverEnd,
    options: Options,
    /// The errors of runnables that the manager could not create or add. The run of the manager ends with
    /// these errors before it starts any runnable.
    rejected: Vec<BoxError>,
}

#[derive(Debug, Clone)]
struct Options {
    stop_timeout: Duration,
    start_timeout: Duration,
    elects: bool,
}

impl Manager {
    /// Creates a manager with a new cache, which uses this API client. The manager runs the cache, and has no
    /// other runnables yet.
    pub fn new(client: impl Into<informer_client::Client>) -> Self {
        Self::of(CachedClient::new(&Cache::new(client)))
    }

    /// Creates a manager that uses this cached client and runs its cache. Both may have their own
    /// configuration, and the cache may already be started. The manager's metrics and debug pages include
    /// them.
    pub fn of(client: CachedClient) -> Self {
        let instrumentation: Arc<Instrumentation> = Arc::default();
        instrumentation.show(&client);
        let cache = client.cache().clone();
        let (handle, end) = ManagerHandle::new(client, instrumentation);
        let options = Options { stop_timeout: STOP_TIMEOUT, start_timeout: START_TIMEOUT, elects: false };
        Self { handle, end, options, rejected: Vec::new() }.add(cache)
    }

    /// Sets the default options of controllers that are added to this manager after this call.
    pub fn controller_defaults(self, defaults: ControllerDefaults) -> Self {
        *self.handle.shared.defaults.lock() = defaults;
        self
    }

    /// Sets the timeout for stopping all runnables together; 30 s by default. With zero the manager waits for
    /// no runnable; with [`Duration::MAX`] there is no deadline.
    pub fn stop_timeout(mut self, timeout: Duration) -> Self {
        self.options.stop_timeout = timeout;
        self
    }

    /// Sets the timeout for each runnable to be ready; 2 min by default. A cache that cannot sync in that
    /// time stops the manager with an error that states the reason.
    pub fn start_timeout(mut self, timeout: Duration) -> Self {
        self.options.start_timeout = timeout;
        self
    }

    /// Adds a runnable, which the manager starts with its group. If the runnable cannot be added, the run of
    /// the manager returns the error.
    #[expect(clippy::should_implement_trait, reason = "controller-runtime's name; a manager is not a number")]
    pub fn add(mut self, runnable: impl IntoRunnable) -> Self {
        match self.handle.add(runnable) {
            Ok(()) => {}
            Err(AddError::Refused(error)) => self.rejected.push(error),
            Err(error) => self.rejected.push(error.into()),
        }
        self
    }

    /// Adds a controller. This method is the same as [`add`](Self::add), under a name that is easier to find.
    pub fn controller(self, controller: impl IntoRunnable) -> Self {
        self.add(controller)
    }

    /// Enables leader election, so that leader-only runnables run in one replica at a time. Without leader
    /// election, they run as soon as the other groups are ready.
    ///
    /// If the lease is lost, the manager ends with an error for which
    /// [`is_leader_lost`](ManagerError::is_leader_lost) is true; its runnables then have only the rest of the
    /// lease to stop. On a normal stop, the lease is released after the leader-only runnables have stopped;
    /// if they do not stop, the lease is not released and expires.
    pub fn leader_election(mut self, election: LeaderElection) -> Self {
        let leadership = self.handle.shared.leadership.clone();
        self.options.elects = true;
        match LeaderElector::new(election, self.handle.client().clone(), leadership) {
            Ok(mut elector) => {
                self.handle.health().add(Probe::Health, "leader-election", elector.check());
                self.handle.observe_lease(&elector.health());
                elector.recorder = Some(self.handle.recorder(elector.identity()));
                #[cfg(feature = "prometheus")]
                {
                    elector.status = Some(
                        self.handle.register_metrics(master_status).get_or_create_owned(&elector.labels()),
                    );
                }
                self.add(elector)
            }
            Err(error) => {
                self.rejected.push(error.into());
                self
            }
        }
    }

    /// Adds a sink, which receives the events of the manager and its controllers in addition to the API
    /// server.
    ///
    /// ```
    /// # use informer_runtime::Manager;
    /// use informer_runtime::RecordedEvent;
    ///
    /// # fn example(manager: Manager) -> Manager {
    /// manager.event_sink(|event: &RecordedEvent| println!("{event}"))
    /// # }
    /// ```
    pub fn event_sink(self, sink: impl EventSink) -> Self {
        self.handle.add_event_sink(sink);
        self
    }

    /// Serves `/healthz`, `/readyz` and `/livez` with the [checks](ManagerHandle::health) at an address such
    /// as `0.0.0.0:8081`. By default these endpoints are not served.
    pub fn health(self, server: impl Into<HttpServer>) -> Self {
        let server = server.into().named("probes");
        let server = self.handle.health().pages(server);
        self.serve(server)
    }

    /// Serves `/metrics` in the Prometheus text format at an address such as `0.0.0.0:8080`. Unlike in
    /// controller-runtime, metrics are not served by default, since an unexpected open port is a security
    /// risk.
    ///
    /// Metrics with upstream's names:
    ///
    /// - controllers (`controller_runtime_…`) and their queues (`workqueue_…`);
    /// - webhooks (`controller_runtime_webhook_…`) and server certificates (`certwatcher_…`);
    /// - leader election (`leader_election_master_status`);
    /// - requests of the client (`rest_client_requests_total`).
    ///
    /// Metrics without an upstream counterpart:
    ///
    /// - informers with their lists and watches (`informer_…`);
    /// - reads that waited for own writes (`informer_client_read_wait_…`);
    /// - the expiry of generated certificates (`informer_certificate_expiration_timestamp_seconds`);
    /// - failed requests of elections and shard groups (`informer_lease_request_failures_total`);
    /// - shards (`informer_shard_…`).
    #[cfg(feature = "prometheus")]
    pub fn metrics(self, server: impl Into<HttpServer>) -> Self {
        const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
        let instrumentation = Arc::clone(&self.handle.shared.instrumentation);
        let server = server.into().named("metrics").route("/metrics", move |_| {
            let page = match instrumentation.metrics() {
                Ok(text) => typed_response(StatusCode::OK, OPEN_METRICS, text),
                Err(_) => typed_response(
                    StatusCode::INTERNAL_SERVER_ERROR,
                    "text/plain",
                    "the metrics cannot be encoded\n",
                ),
            };
            std::future::ready(page)
        });
        self.serve(server)
    }

    /// Serves `/debug/informers`, `/debug/queues` and `/debug/leases` (elections and shard groups) as JSON:
    /// state, counters and last error of each, without any objects. `/debug/reconciles` shows the keys and
    /// causes of the last and the queued requests of the controllers that
    /// [record causes](crate::ControllerOptions::record_causes). These pages are not served by default; use
    /// the loopback interface for them.
    pub fn debug_pages(self, server: impl Into<HttpServer>) -> Self {
        let instrumentation = Arc::clone(&self.handle.shared.instrumentation);
        let [queues, leases, reconciles] = std::array::from_fn(|_| Arc::clone(&instrumentation));
        let page =
            |page: serde_json::Value| typed_response(StatusCode::OK, "application/json", page.to_string());
        let informers = move || page(instrumentation.informers_page(tokio::time::Instant::now().into_std()));
        let server = server.into().named("debug pages");
        let server = server.route("/debug/informers", move |_| std::future::ready(informers()));
        let leases = move || page(leases.leases_page(tokio::time::Instant::now().into_std()));
        let server = server.route("/debug/queues", move |_| std::future::ready(page(queues.queues_page())));
        let reconciles = move || page(reconciles.reconciles_page());
        let server = server.route("/debug/reconciles", move |_| std::future::ready(reconciles()));
        let server = server.route("/debug/leases", move |_| std::future::ready(leases()));
        self.serve(server)
    }

    /// Serves the console at `/debug/informer/`: a page that shows the informers, queues, controllers, leases
    /// and requests of this manager live, and its data as JSON and as server-sent events below
    /// `/debug/informer/v1/`. By default it is not served.
    ///
    /// The data contains names of objects, paths of changed fields and errors of reconciles, but no values of
    /// fields. If the server [authorizes](HttpServer::authorized_by) requests, the data needs permission, as
    /// `/metrics` does; the page itself, which is the same in every program, does not. A server without
    /// authorization should listen on the loopback interface. There it refuses requests whose `Host` is a DNS
    /// name other than `localhost`, which protects it from pages of other sites.
    ///
    /// While a page or another client reads the console, snapshots are computed, and all controllers of the
    /// manager record causes and keep their last 1,000 reconciles;
    /// [`Console`](crate::console::Console) describes the limits.
    ///
    /// The console only reads, unless it [allows actions](crate::console::Console::allow_actions).
    ///
    /// ```
    /// # use informer_runtime::Manager;
    /// # fn example(manager: Manager) -> Manager {
    /// manager.console("127.0.0.1:8082")
    /// # }
    /// ```
    #[cfg(feature = "console")]
    pub fn console(self, console: impl Into<crate::console::Console>) -> Self {
        let recorder = self.handle.recorder(crate::console::REPORTER);
        let audit = crate::console::ActionAudit::new(recorder, self.handle.client().default_namespace());
        let server = crate::console::routes(console.into(), self.console_data(), audit);
        self.serve(server)
    }

    /// Returns a reader of the data that the [console](Self::console) shows. Like reads of the console, its
    /// reads make all controllers of the manager record causes.
    #[cfg(feature = "console")]
    pub fn console_data(&self) -> crate::console::ConsoleData {
        let instrumentation = Arc::clone(&self.handle.shared.instrumentation);
        let address = crate::instrumentation::host(self.handle.client().address());
        let status = self.handle.status();
        let status = Box::new(move || format!("{:?}", *status.borrow()));
        crate::console::ConsoleData::new(instrumentation, status, address)
    }

    fn serve(self, server: HttpServer) -> Self {
        #[cfg(feature = "prometheus")]
        let server = server.counted(self.handle.certificate_metrics());
        self.add(server)
    }

    /// Returns a handle of this manager, which can add runnables, access the shared services, and stop the
    /// manager while it runs.
    pub fn handle(&self) -> ManagerHandle {
        self.handle.clone()
    }

    /// Runs the manager until `stop` resolves (for example [`ctrl_c`](crate::ctrl_c)),
    /// [`ManagerHandle::stop`] is called, or a runnable fails.
    ///
    /// # Errors
    ///
    /// Returns an error if a runnable failed, panicked, was not ready in time, could not be created or did
    /// not stop, or if the lease was lost.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops all runnables immediately, without the shutdown order. The informers of the
    /// cache and the tasks of sources end, too.
    pub async fn run_until<S: Future>(self, stop: S) -> Result<(), ManagerError> {
        let Self { handle, end, options, mut rejected } = self;
        if !rejected.is_empty() {
            handle.close();
            let mut error = ManagerError::of(RunnableError::not_created("a runnable", rejected.remove(0)));
            error.later_errors =
                rejected.into_iter().map(|error| RunnableError::not_created("a runnable", error)).collect();
            return Err(error);
        }
        driver::run(handle, end, options, stop).await
    }
}

#[cfg(feature = "prometheus")]
type MasterStatus = Family<Vec<(&'static str, String)>, Gauge>;

/// Registers the metric of leader election, which is 1 in the leader and 0 in a standby, under its name in
/// controller-runtime.
#[cfg(feature = "prometheus")]
fn master_status(registry: &mut Registry) -> MasterStatus {
    let status = MasterStatus::default();
    registry.register("leader_election_master_status", "1 while this process leads", status.clone());
    status
}

impl fmt::Debug for Manager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Manager").field("options", &self.options).finish_non_exhaustive()
    }
}

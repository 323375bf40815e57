//! The manager: starts what a program is made of, in order, watches it, and stops it.
//!
//! # Invariants
//!
//! Those of its life cycle (`state.rs`). The driver alone starts and drops tasks.
//!
//! # Lock order
//!
//! That of `handle.rs`; the driver holds no lock.
//!
//! # Shutdown
//!
//! 1. No part is taken any more.
//! 2. From the last group to the first, each is asked to stop and waited for.
//! 3. When the time is nearly over, all others are asked at once.
//! 4. When it is over, what still runs is dropped where it is, and named. Its tasks and informers end with it.

mod driver;
mod error;
mod handle;
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

pub use error::{AddError, ManagerError, PartError};
pub use handle::ManagerHandle;

use crate::http_server::answer;
use crate::observed::Observed;
use crate::{
    BoxError, Cache, CachedClient, ControllerDefaults, HttpServer, IntoRunnable, LeaderElection,
    LeaderElector, Probe,
};
use handle::DriverEnd;

/// How long parts may take to stop.
const STOP_TIMEOUT: Duration = Duration::from_secs(30);

/// How long a part may take to be ready.
const START_TIMEOUT: Duration = Duration::from_secs(120);

/// What a manager does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ManagerStatus {
    /// It has not started.
    Created,
    /// Its groups are starting.
    Starting,
    /// All groups have started, but for the leader-only one where another process leads.
    Running,
    /// It was asked to stop, or a part has failed.
    Stopping,
    /// It has ended.
    Stopped,
}

/// Runs the parts of a program: caches, controllers, servers and everything else that is a [`Runnable`](crate::Runnable).
///
/// Parts start in the order of their [groups](crate::RunnableGroup), each group when the one before it is ready; the leader-only
/// group waits for the election where there is one. The first error of any part, or a panic, ends the manager and all others. It
/// stops in the reverse order, within [`stop_timeout`](Self::stop_timeout), and says what did not stop.
///
/// Upstream: [`manager.Manager`](https://pkg.go.dev/sigs.k8s.io/controller-runtime/pkg/manager#Manager). There, a standby's runnables
/// that hang can keep the process from ending, webhooks are "started" before they listen, and controllers' names are unique in
/// the process; here all of them end at a deadline, ready means ready, and names are the manager's own.
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
    /// Parts that could not be made, told when the manager is run.
    refused: Vec<BoxError>,
}

#[derive(Debug, Clone)]
struct Options {
    stop_timeout: Duration,
    start_timeout: Duration,
    elects: bool,
}

impl Manager {
    /// A manager without parts.
    pub fn new(client: impl Into<informer_client::Client>) -> Self {
        Self::of(CachedClient::new(&Cache::new(client)))
    }

    /// A manager whose parts read and write by this client, and whose cache is that of the client: both may be configured
    /// before, and the cache may have been started. Its metrics and debug pages show the two, too.
    pub fn of(client: CachedClient) -> Self {
        let observed: Arc<Observed> = Arc::default();
        observed.show(&client);
        let cache = client.cache().clone();
        let (handle, end) = ManagerHandle::new(client, observed);
        let options = Options { stop_timeout: STOP_TIMEOUT, start_timeout: START_TIMEOUT, elects: false };
        Self { handle, end, options, refused: Vec::new() }.add(cache)
    }

    /// What the controllers that are added after this call do unless they are told otherwise themselves.
    pub fn controller_defaults(self, defaults: ControllerDefaults) -> Self {
        *self.handle.shared.defaults.lock() = defaults;
        self
    }

    /// How long parts may take to stop, all together; 30 s by default. With zero nothing is waited for, with [`Duration::MAX`] there is
    /// no deadline.
    pub fn stop_timeout(mut self, timeout: Duration) -> Self {
        self.options.stop_timeout = timeout;
        self
    }

    /// How long a part may take to be ready; 2 min by default. A cache that cannot sync in that time ends the manager with an
    /// error that says why.
    pub fn start_timeout(mut self, timeout: Duration) -> Self {
        self.options.start_timeout = timeout;
        self
    }

    /// Adds a part.
    #[expect(
        clippy::should_implement_trait,
        reason = "a manager has parts added, as upstream says it; it is no number"
    )]
    pub fn add(mut self, part: impl IntoRunnable) -> Self {
        match self.handle.add(part) {
            Ok(()) => {}
            Err(AddError::Refused(error)) => self.refused.push(error),
            Err(error) => self.refused.push(error.into()),
        }
        self
    }

    /// Adds a controller. The same as [`add`](Self::add), by the name that says what it is.
    pub fn controller(self, controller: impl IntoRunnable) -> Self {
        self.add(controller)
    }

    /// Holds an election: the leader-only parts run in one replica at a time. Without it they run as soon as the others are ready.
    ///
    /// When the lease is lost, the manager ends with an error for which [`is_leader_lost`](ManagerError::is_leader_lost) is true; its parts
    /// have no longer to stop than the lease holds others off. When it is asked to end, the lease is given back after
    /// the leader-only parts have stopped; where they do not, it is left to expire.
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
                self.refused.push(error.into());
                self
            }
        }
    }

    /// Serves `/healthz`, `/readyz` and `/livez` with the [checks](ManagerHandle::health), at an address as `0.0.0.0:8081`. Off by
    /// default.
    pub fn health(self, server: impl Into<HttpServer>) -> Self {
        let server = server.into().named("probes");
        let server = self.handle.health().pages(server);
        self.serve(server)
    }

    /// Serves `/metrics` in the text form of Prometheus, at an address as `0.0.0.0:8080`. Off by default, unlike upstream: a port
    /// that nobody has asked for is one that nobody guards.
    ///
    /// Under the names of upstream: controllers (`controller_runtime_…`), their queues (`workqueue_…`), webhooks
    /// (`controller_runtime_webhook_…`), elections (`leader_election_master_status`), certificates of its servers (`certwatcher_…`), and
    /// the requests of its client (`rest_client_requests_total`). Under names of our own, since upstream has none: informers with their lists and watches
    /// (`informer_…`), reads that waited for own writes (`informer_client_read_wait_…`), failed requests of elections and shard groups
    /// (`informer_lease_request_failures_total`), and shares of keys (`informer_shard_…`).
    #[cfg(feature = "prometheus")]
    pub fn metrics(self, server: impl Into<HttpServer>) -> Self {
        const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
        let observed = Arc::clone(&self.handle.shared.observed);
        let server = server.into().named("metrics").route("/metrics", move |_| {
            let page = match observed.metrics() {
                Ok(text) => answer(StatusCode::OK, OPEN_METRICS, text),
                Err(_) => {
                    answer(StatusCode::INTERNAL_SERVER_ERROR, "text/plain", "the metrics cannot be written\n")
                }
            };
            std::future::ready(page)
        });
        self.serve(server)
    }

    /// Serves `/debug/informers`, `/debug/queues` and `/debug/leases` (elections and shard groups) as JSON: what each does, its figures
    /// and its last error, and nothing of objects. Off by default; for the loopback device.
    pub fn debug_pages(self, server: impl Into<HttpServer>) -> Self {
        let observed = Arc::clone(&self.handle.shared.observed);
        let (queues, leases) = (Arc::clone(&observed), Arc::clone(&observed));
        let page = |page: serde_json::Value| answer(StatusCode::OK, "application/json", page.to_string());
        let informers = move || page(observed.informers_page(tokio::time::Instant::now().into_std()));
        let server = server.into().named("debug pages");
        let server = server.route("/debug/informers", move |_| std::future::ready(informers()));
        let leases = move || page(leases.leases_page(tokio::time::Instant::now().into_std()));
        let server = server.route("/debug/queues", move |_| std::future::ready(page(queues.queues_page())));
        let server = server.route("/debug/leases", move |_| std::future::ready(leases()));
        self.serve(server)
    }

    fn serve(self, server: HttpServer) -> Self {
        #[cfg(feature = "prometheus")]
        let server = server.counted(self.handle.certificate_reads());
        self.add(server)
    }

    /// What the parts share; to add more of them while the manager runs, or to stop it.
    pub fn handle(&self) -> ManagerHandle {
        self.handle.clone()
    }

    /// Runs until `stop` resolves, as [`ctrl_c`](crate::ctrl_c) does, or [`ManagerHandle::stop`] is called, or a part fails.
    ///
    /// # Errors
    ///
    /// When a part failed, panicked, was not ready in time, could not be made or did not stop, or the lease was lost.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops all parts where they are, without the order of stopping. The informers of the cache and the
    /// tasks of sources end, too.
    pub async fn run_until<S: Future>(self, stop: S) -> Result<(), ManagerError> {
        let Self { handle, end, options, mut refused } = self;
        if !refused.is_empty() {
            handle.close();
            let mut error = ManagerError::of(PartError::not_made("a part", refused.remove(0)));
            error.also = refused.into_iter().map(|error| PartError::not_made("a part", error)).collect();
            return Err(error);
        }
        driver::run(handle, end, options, stop).await
    }
}

#[cfg(feature = "prometheus")]
type MasterStatus = Family<Vec<(&'static str, String)>, Gauge>;

/// Registers the metric of an election, by upstream's name.
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

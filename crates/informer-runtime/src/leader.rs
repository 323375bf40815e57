//! Leader election on Leases: one replica at a time runs the leader-only runnables.
//!
//! # Invariants
//!
//! The invariants of `informer_control::election` hold. The driver sends one request at a time, each with a
//! timeout.
//!
//! # Lock order
//!
//! The lock of `health.rs` is never nested. [`Leadership`] is published through a watch channel.
//!
//! # Shutdown
//!
//! 1. A write in flight is awaited for at most the renew deadline.
//! 2. A leader releases its Lease, so that another candidate can lead at once.

pub(crate) mod driver;
mod error;
pub(crate) mod failures;
pub(crate) mod health;
pub(crate) mod lease;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use informer_client::Client;
use informer_control::election::ElectionTimes;
use tokio::sync::watch;

pub use driver::LeaderElector;
pub use error::ElectionConfigError;
pub use informer_control::election::{Fence, LeaderLost};

/// Whether this process is the leader.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Leadership {
    /// There is no election: leader-only work is allowed.
    Unopposed,
    /// There is no leader, or another process leads.
    Standby,
    /// This process leads.
    Leading(Fence),
    /// The candidacy has ended; this process does not lead again in this run.
    Ended,
}

impl Leadership {
    /// Returns true if leader-only work is allowed.
    pub fn is_leading(&self) -> bool {
        matches!(self, Self::Unopposed | Self::Leading(_))
    }
}

type Observer = Arc<dyn Fn(&str) + Send + Sync>;

/// Configures leader election.
///
/// The replicas of one program name the same Lease, and each has its own identity. The leader renews its
/// lease every `retry_period`. Other candidates acquire it when they have observed no renewal for the
/// duration that the leader wrote, or when it was released. Only the time for which a process itself has
/// observed a record unchanged counts, so clocks may show any time; their rates may differ by a tenth.
///
/// A leader that cannot renew gives up after `renew_deadline`, and in any case before its lease expires,
/// counted from before its last renewal was sent: a slow response never makes two leaders. Its runnables are
/// stopped before another process may lead. That does not stop work on other threads, or a process that is
/// suspended for longer than its lease: writes still need preconditions.
///
/// A standby also watches the Lease, if it is allowed to, and reads it again when it changes: a released
/// lease is acquired at once. Without that permission it reads every 2 to 4.4 s, as in client-go.
///
/// Upstream: [`leaderelection`](https://pkg.go.dev/k8s.io/client-go/tools/leaderelection). There, a leader
/// that observes another holder continues until the renew deadline, and the deadline counts from the
/// response, so that slow responses can make two leaders.
///
/// # Failures
///
/// Failed requests are logged: for example without permission (403), in a namespace that does not exist
/// (404), or to a server that cannot be reached. The first failure is logged at once, later ones at intervals
/// that grow from 10 s to 5 min. In a manager, the metric `informer_lease_request_failures_total` counts
/// them, `/debug/leases` shows the last one, and the check `leader-election` of `/readyz` fails: at once if
/// the server rejects the request, after the renew deadline if it cannot be reached.
///
/// # Permissions
///
/// `get`, `create` and `update` on `leases` of `coordination.k8s.io`; `watch` for fast takeovers.
#[derive(Clone)]
#[must_use = "pass it to a manager, or call `elector`"]
pub struct LeaderElection {
    name: String,
    namespace: Option<String>,
    identity: Option<String>,
    times: ElectionTimes,
    release: bool,
    share_connections: bool,
    observers: Vec<Observer>,
}

impl LeaderElection {
    /// Creates an election on the Lease `name`. The name must be unique per program: two programs on one
    /// Lease would exclude each other.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            namespace: None,
            identity: None,
            times: ElectionTimes::default(),
            release: true,
            share_connections: false,
            observers: Vec::new(),
        }
    }

    /// Sets the namespace of the Lease; by default that of the client, which inside a cluster is the pod's.
    pub fn namespace(self, namespace: impl Into<String>) -> Self {
        Self { namespace: Some(namespace.into()), ..self }
    }

    /// Sets the identity of this process. By default the host name and a random suffix, so that it is unique.
    pub fn identity(self, identity: impl Into<String>) -> Self {
        Self { identity: Some(identity.into()), ..self }
    }

    /// Sets how long other candidates wait after the last observed renewal; 15 s by default. Fractions of a
    /// second are dropped.
    pub fn lease_duration(mut self, duration: Duration) -> Self {
        self.times.lease = Duration::from_secs(duration.as_secs());
        self
    }

    /// Sets how long a leader tries to renew before it gives up; 10 s by default.
    pub fn renew_deadline(mut self, deadline: Duration) -> Self {
        self.times.renew = deadline;
        self
    }

    /// Sets the delay between two attempts; 2 s by default. A standby waits up to 2.2 times as long, at
    /// random.
    pub fn retry_period(mut self, period: Duration) -> Self {
        self.times.retry = period;
        self
    }

    /// Sets whether a stopped leader releases its lease; true by default, since a manager stops the leader's
    /// work before.
    pub fn release_on_stop(mut self, release: bool) -> Self {
        self.release = release;
        self
    }

    /// Sends the requests of the election over the connections of its client. By default the election has
    /// connections of its own ([`Client::with_separate_connections`]), so that renewals do not wait for the
    /// lists and watches of caches.
    pub fn share_connections(mut self, share: bool) -> Self {
        self.share_connections = share;
        self
    }

    /// Sets a function that is called with each newly observed holder, including this process; with an empty
    /// name if there is no holder. It must not block. If it panics, the panic is caught and logged and the
    /// lease is kept.
    pub fn on_holder(mut self, observer: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.observers.push(Arc::new(observer));
        self
    }

    /// Validates the configuration and creates the elector.
    ///
    /// # Errors
    ///
    /// If names are missing or the periods conflict.
    pub fn elector(self, client: impl Into<Client>) -> Result<LeaderElector, ElectionConfigError> {
        LeaderElector::new(self, client.into(), watch::Sender::new(Leadership::Standby))
    }
}

impl fmt::Debug for LeaderElection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeaderElection")
            .field("name", &self.name)
            .field("namespace", &self.namespace)
            .field("identity", &self.identity)
            .field("times", &self.times)
            .field("release", &self.release)
            .finish_non_exhaustive()
    }
}

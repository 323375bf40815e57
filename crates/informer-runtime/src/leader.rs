//! Leader election on Leases. Leader-only runnables run in one replica at a time.
//!
//! # Invariants
//!
//! The state machine `informer_control::election` decides which requests are sent, and its invariants hold.
//! The driver (`driver.rs`) sends one of these requests at a time, each with a timeout.
//!
//! # Lock order
//!
//! The state for health checks and metrics (`health.rs`) has a lock, which is never held together with
//! another lock. [`Leadership`] is published through a watch channel.
//!
//! # Shutdown
//!
//! 1. If a write of the Lease is in flight, the driver waits for it, at most for the renew deadline.
//! 2. A leader releases its Lease, so that another candidate can become the leader immediately.

mod candidate;
pub(crate) mod driver;
mod error;
pub(crate) mod failures;
pub(crate) mod health;
pub(crate) mod lease;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use informer_client::Client;
use informer_control::election::ElectionTimes;
use tokio::sync::watch;

pub use candidate::Coordination;
pub use driver::LeaderElector;
pub use error::ElectionConfigError;
pub use informer_control::election::{Fence, LeaderLost};

/// The role of this process in the leader election of its manager: whether it may do leader-only work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Leadership {
    /// The manager has no leader election, so leader-only work is always allowed.
    Unopposed,
    /// Leader-only work is not allowed, because another process is the leader or there is no leader yet.
    Standby,
    /// This process is the leader. The fence identifies this term of leadership, for stores that reject
    /// writes of an earlier leader.
    Leading(Fence),
    /// The election has ended for this process, because it lost its lease or was stopped. It does not become
    /// the leader again in this run of the manager.
    Ended,
}

impl Leadership {
    /// Returns true if leader-only work is allowed in this process, because it is the leader or there is no
    /// election.
    pub fn is_leading(&self) -> bool {
        matches!(self, Self::Unopposed | Self::Leading(_))
    }
}

type Observer = Arc<dyn Fn(&str) + Send + Sync>;

/// Configures leader election.
///
/// The replicas of one program use the same Lease, and each has a different identity. The leader renews its
/// lease every `retry_period`. Other candidates acquire the lease when they have observed no renewal for the
/// duration that the leader wrote, or when it was released. Only the time for which a process itself has
/// observed a record unchanged counts, so clocks may show any time; their rates may differ by a tenth.
///
/// A leader that cannot renew its lease gives up after `renew_deadline`, and in any case before its lease
/// expires, counted from before its last renewal was sent: a slow response never makes two leaders. Its
/// runnables are stopped before another process may lead. This does not stop work on other threads, or a
/// process that is suspended for longer than its lease, so writes still need preconditions.
///
/// A standby also watches the Lease, if it has permission, and reads it again when it changes: a released
/// lease is acquired immediately. Without that permission the standby reads the Lease every 2 to 4.4 s, as in
/// client-go.
///
/// This type corresponds to [`leaderelection`](https://pkg.go.dev/k8s.io/client-go/tools/leaderelection).
/// There, a leader that observes another holder continues until the renew deadline, and the deadline counts
/// from the response, so that slow responses can make two leaders.
///
/// # Failures
///
/// Failed requests are logged, for example without permission (403), in a namespace that does not exist
/// (404), or to a server that cannot be reached. The first failure is logged immediately, later ones at
/// intervals that grow from 10 s to 5 min. In a manager, the metric `informer_lease_request_failures_total`
/// counts the failures, `/debug/leases` shows the last one, and the check `leader-election` of `/readyz`
/// fails: immediately if the server rejects the request, after the renew deadline if the server cannot be
/// reached.
///
/// # Permissions
///
/// The election needs permission to `get`, `create` and `update` `leases` of `coordination.k8s.io`, and to
/// `watch` them for fast takeovers.
#[derive(Clone)]
#[must_use = "pass it to a manager, or call `elector`"]
pub struct LeaderElection {
    name: String,
    namespace: Option<String>,
    identity: Option<String>,
    times: ElectionTimes,
    release: bool,
    share_connections: bool,
    labels: BTreeMap<String, String>,
    client: Option<Client>,
    coordination: Option<Coordination>,
    observers: Vec<Observer>,
}

impl LeaderElection {
    /// Creates an election on the Lease `name`. Each program needs its own Lease: if two programs used the
    /// same one, only one of them could have a leader.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            namespace: None,
            identity: None,
            times: ElectionTimes::default(),
            release: true,
            share_connections: false,
            labels: BTreeMap::new(),
            client: None,
            coordination: None,
            observers: Vec::new(),
        }
    }

    /// Sets the namespace of the Lease. The default is that of the client, which inside a cluster is the
    /// pod's.
    pub fn namespace(self, namespace: impl Into<String>) -> Self {
        Self { namespace: Some(namespace.into()), ..self }
    }

    /// Sets the identity of this process. The default is the host name with a random suffix, so that it is
    /// unique.
    pub fn identity(self, identity: impl Into<String>) -> Self {
        Self { identity: Some(identity.into()), ..self }
    }

    /// Sets how long a candidate waits after the last renewal that it has observed, before it acquires the
    /// lease; 15 s by default. Fractions of a second are dropped, since the field of the Lease is in seconds.
    pub fn lease_duration(mut self, duration: Duration) -> Self {
        self.times.lease = Duration::from_secs(duration.as_secs());
        self
    }

    /// Sets how long a leader that cannot renew its lease retries before it gives up leadership; 10 s by
    /// default.
    pub fn renew_deadline(mut self, deadline: Duration) -> Self {
        self.times.renew = deadline;
        self
    }

    /// Sets the delay between two attempts to acquire or renew the lease; 2 s by default. A standby waits up
    /// to 2.2 times as long, at random.
    pub fn retry_period(mut self, period: Duration) -> Self {
        self.times.retry = period;
        self
    }

    /// Sets whether a stopped leader releases its lease; true by default, since a manager stops the
    /// leader-only work first.
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

    /// Adds a label to the Lease, for example for a policy that selects Leases by labels. Labels of other
    /// programs are kept.
    ///
    /// Upstream: `LeaderElectionLabels`.
    pub fn label(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.insert(name.into(), value.into());
        self
    }

    /// Sets the client of the election, for a Lease in another cluster than that of the manager, or with
    /// other credentials.
    ///
    /// Upstream: `LeaderElectionConfig`, `LeaderElectionResourceLockInterface`.
    pub fn client(self, client: impl Into<Client>) -> Self {
        Self { client: Some(client.into()), ..self }
    }

    /// Makes the control plane choose the leader among the candidates (alpha and beta: the feature gate
    /// `CoordinatedLeaderElection` of kube-apiserver, off by default). Without this feature there is no
    /// leader.
    ///
    /// This process creates a LeaseCandidate whose name is its identity, and deletes it when it stops. The
    /// default identity has no underscore in this case. A leader gives up when the control plane prefers
    /// another candidate.
    ///
    /// Upstream: `leaderelection.NewCandidate` and `LeaderElectionConfig.Coordinated`.
    ///
    /// # Permissions
    ///
    /// The election also needs permission to `get`, `create`, `update`, `delete` and `watch`
    /// `leasecandidates` of `coordination.k8s.io`.
    pub fn coordinated(self, coordination: Coordination) -> Self {
        Self { coordination: Some(coordination), ..self }
    }

    /// Sets a function that is called with the identity of each newly observed holder, including this
    /// process; the identity is empty if there is no holder. The function must not block. A panic in it is
    /// caught and logged, and the lease is kept.
    pub fn on_holder(mut self, observer: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.observers.push(Arc::new(observer));
        self
    }

    /// Validates the configuration and creates the elector.
    ///
    /// # Errors
    ///
    /// Returns an error if names are missing or the periods conflict.
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

//! Leader election on Leases: of several replicas, one at a time does the leader-only work.
//!
//! # Invariants
//!
//! Those of `informer_control::election`. The driver sends one request at a time, each with a deadline.
//!
//! # Lock order
//!
//! That of `health.rs` alone. [`Leadership`] is published through a watch channel.
//!
//! # Shutdown
//!
//! 1. A write that is on its way is waited for, for at most the renew deadline.
//! 2. A leader names no holder any more, so that another can lead at once.

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

/// Whether this process leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Leadership {
    /// There is no election: it may do everything.
    Unopposed,
    /// Another process leads, or none yet.
    Standby,
    /// It leads.
    Leading(Fence),
    /// It has led or stood by, and leads no more; nor will it again in this run.
    Ended,
}

impl Leadership {
    /// True where leader-only work may be done.
    pub fn is_leading(&self) -> bool {
        matches!(self, Self::Unopposed | Self::Leading(_))
    }
}

type Observer = Arc<dyn Fn(&str) + Send + Sync>;

/// How a process takes part in an election.
///
/// The replicas of one program name the same Lease, and each has an identity of its own. The holder renews its lease every
/// `retry_period`; others take over when they have seen no renewal for the duration that the holder wrote, or when it names no holder
/// any more. Only how long a process itself has seen a record unchanged counts, so clocks may show any time; their rates may
/// differ by a tenth.
///
/// A leader that cannot renew gives up after `renew_deadline`, and in any case before its lease has passed, counted from before its
/// last renewal was sent: a slow answer never makes two leaders. It is told in time to end its work before others may begin theirs.
/// What runs on a thread of its own, or in a process that is stopped for longer than its lease, is not ended by that: writes need
/// preconditions, as ever.
///
/// A standby also watches the Lease, where it may, and looks at it again when it changes: a lease that is given back is taken at
/// once. Without permission for that it looks every 2 to 4.4 s, as upstream.
///
/// Upstream: [`leaderelection`](https://pkg.go.dev/k8s.io/client-go/tools/leaderelection). There, a leader that is told that another
/// holds its lease goes on until the renew deadline, and the deadline counts from the answer, so that slow answers can make two leaders.
///
/// # Failures
///
/// Failed requests are logged, for example those without permission (403), in a namespace that does not exist (404), or to a server
/// that cannot be reached: the first one at once, later ones at intervals that grow from 10 s to 5 min. In a manager the metric
/// `informer_lease_request_failures_total` counts them, `/debug/leases` shows the last one, and the check `leader-election` of `/readyz`
/// fails: at once if the server rejects the request, and after the renew deadline if it cannot be reached.
///
/// # Permissions
///
/// `get`, `create` and `update` on `leases` of `coordination.k8s.io`; `watch`, if takeovers are to be fast.
#[derive(Clone)]
#[must_use = "it is given to a manager or an elector"]
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
    /// An election on the Lease of this name. Which Lease it is has to be the program's decision: two programs on one Lease
    /// would keep each other from working.
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

    /// The namespace of the Lease; by default that of the client, which inside a cluster is the pod's.
    pub fn namespace(self, namespace: impl Into<String>) -> Self {
        Self { namespace: Some(namespace.into()), ..self }
    }

    /// Who this process is. By default the name of its host and a random part, so that no two processes are one.
    pub fn identity(self, identity: impl Into<String>) -> Self {
        Self { identity: Some(identity.into()), ..self }
    }

    /// How long others wait after the last renewal that they saw; 15 s by default. Whole seconds: what is less is cut.
    pub fn lease_duration(mut self, duration: Duration) -> Self {
        self.times.lease = Duration::from_secs(duration.as_secs());
        self
    }

    /// How long a leader tries to renew before it gives up; 10 s by default.
    pub fn renew_deadline(mut self, deadline: Duration) -> Self {
        self.times.renew = deadline;
        self
    }

    /// How long is waited between two attempts; 2 s by default. A standby waits up to 2.2 times as long, at random.
    pub fn retry_period(mut self, period: Duration) -> Self {
        self.times.retry = period;
        self
    }

    /// Whether a leader that is stopped gives its lease back; yes by default, since a manager has ended the leader's work before.
    pub fn release_on_stop(mut self, release: bool) -> Self {
        self.release = release;
        self
    }

    /// Sends the requests of the election over the connections of its client. By default the election has
    /// connections of its own ([`Client::with_separate_connections`]), so that renewals do not wait for the lists and
    /// watches of caches.
    pub fn share_connections(mut self, share: bool) -> Self {
        self.share_connections = share;
        self
    }

    /// Calls a function with each new holder that is seen, this process included; with an empty name where nobody holds the Lease. It
    /// must not block. A panic of it is contained and logged: it must not cost the lease.
    pub fn on_holder(mut self, observer: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.observers.push(Arc::new(observer));
        self
    }

    /// Checks the election, and makes its elector.
    ///
    /// # Errors
    ///
    /// When names are missing or the times contradict each other.
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

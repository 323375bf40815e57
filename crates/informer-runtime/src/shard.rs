//! Sharding: distributes the keys of one controller over several replicas, by membership on Leases and
//! rendezvous hashing.
//!
//! Each replica has its own Lease with the label `informer/shard-group`, renews it, and lists the other
//! Leases of the group. Each key belongs to one live replica. When a replica joins or leaves, only its share
//! of the keys moves.
//!
//! # Hand-over
//!
//! A replica publishes the set of members by which it claims keys in an annotation of its Lease. When a key
//! moves to another replica, no new work on it begins, and the new claim is published after running work on
//! it has ended. When a key moves to this replica, work on it begins after the claim was published and a
//! later list shows that no other replica claims the key, or that the other's lease has certainly expired. So
//! no two replicas act on a key while clock rates differ by less than a tenth and no process is suspended for
//! longer than its lease.
//!
//! # Limits
//!
//! - A process that is suspended between a check and a write (stopped, swapped out, starved) sends that write
//!   when it resumes, even if another replica owns the key by then. Check before each write
//!   ([`OwnedKey::check`]), set request timeouts, and send the uid and the resourceVersion as preconditions,
//!   so that the API server rejects outdated writes. For other stores, reject a write whose [`ShardFence`] is
//!   older than that of an earlier write.
//! - A replica relies on its lease for eight tenths of the lease duration. One tenth allows for clocks with
//!   different rates, and one for writes in flight. A write that takes longer than that can arrive too late.
//! - If a member has not renewed its Lease for eight tenths of the lease, it has lost its keys, and does not
//!   wait for work that still runs. The next check or write of that work fails.
//! - If a user deletes a Lease of the group while its replica runs, the replica notices that at its next
//!   renewal. A replica that joins before that does not know of it.
//! - Work that does not end keeps its key, and delays the moves of other keys in the same change of
//!   membership.
//! - Every change of membership costs each replica a write and a list; so does each retry period. Sharding is
//!   intended for tens of replicas. Members beyond 256 get no keys.
//! - The keys are distributed, but the watches are not: the cache of each replica contains all objects.
//! - A [`sharded`](crate::ControllerBuilder::sharded) controller reconciles all keys that it gains. If a
//!   replica dies after it received a deletion event and before it reconciled it, that deletion is lost, as
//!   without sharding: use a finalizer for deletions that must not be missed.
//!
//! # Invariants
//!
//! The state machine in `state.rs` decides which requests are sent, and its invariants hold. The driver
//! (`driver.rs`) sends one request at a time, each with a timeout.
//!
//! # Lock order
//!
//! One lock guards the state of the member. While it is held, no other lock is taken and no user code runs.
//!
//! # Shutdown
//!
//! 1. No more work begins: [`Sharding::enter`] fails.
//! 2. When running work has ended, the replica publishes that it left, and other replicas take over its keys
//!    immediately.
//! 3. When the other replicas have seen that, or after three retry periods, the replica deletes its Lease.

mod driver;
mod error;
mod handle;
mod membership;
mod metrics;
mod peer;
mod state;
#[cfg(test)]
mod tests;
mod view;
mod wire;

use std::time::{Duration, Instant};

use informer_client::Client;
use informer_core::ResourceVersion;

pub use driver::ShardMember;
pub use error::{NotOwned, ShardConfigError};
pub use handle::{OwnedKey, Sharding};
#[cfg(feature = "prometheus")]
pub(crate) use metrics::PrometheusShards;
pub(crate) use metrics::ShardMetrics;
pub use view::ShardView;

/// The maximum lease duration that a member accepts from the Lease of another member. Without this limit, a
/// Lease with a far too long duration would keep the keys of a dead member from moving.
const MAX_LEASE: Duration = Duration::from_secs(3600);

/// Proves that this replica owned a key at a certain time.
///
/// A fence is a fencing token for stores that reject writes with an older one. It is a hint, not a lock: the
/// API server does not check it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShardFence {
    /// A version that is higher for each later owner of a key, and each time a replica owns the key again. A
    /// store can reject a write if its version is lower than that of an earlier write.
    pub version: ResourceVersion,
    /// The time until which the replica may rely on its lease. Requests that change external state should
    /// time out before it.
    pub until: Instant,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ShardTimes {
    pub(crate) lease: Duration,
    pub(crate) retry: Duration,
}

impl Default for ShardTimes {
    fn default() -> Self {
        Self { lease: Duration::from_secs(15), retry: Duration::from_secs(2) }
    }
}

/// Configures the membership of a process in a shard group.
///
/// The replicas of one program use the same group name. Every process is a new member, whatever its identity.
///
/// # Permissions
///
/// The member needs permission to `list`, `create`, `patch` and `delete` `leases` of `coordination.k8s.io`.
///
/// # Use in a controller
///
/// [`ControllerBuilder::sharded`](crate::ControllerBuilder::sharded) contains everything that a controller
/// needs. For work outside of a controller, work only on keys that can be [entered](Sharding::enter), and
/// process [gained](Sharding::enqueue_gained) keys.
///
/// ```
/// # async fn example(client: informer_client::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use informer_runtime::{CancellationToken, ShardGroup};
///
/// let member = ShardGroup::new("reports").member(client)?;
/// let sharding = member.sharding();
/// tokio::spawn(member.run(CancellationToken::new()));
/// let tenants = || vec!["blue", "green", "red"];
/// sharding
///     .enqueue_gained(tenants, |tenant| {
///         let Ok(owned) = sharding.enter(tenant) else { return };
///         println!("reports on {tenant}");
///         // Before each write:
///         if owned.check().is_ok() { /* write */ }
///     })
///     .await;
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
#[must_use = "call `member` to join the group"]
pub struct ShardGroup {
    name: String,
    namespace: Option<String>,
    identity: Option<String>,
    times: ShardTimes,
    share_connections: bool,
}

impl ShardGroup {
    /// Creates the configuration of a group. A group usually belongs to one controller of one program.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            namespace: None,
            identity: None,
            times: ShardTimes::default(),
            share_connections: false,
        }
    }

    /// Sets the namespace of the Leases. The default is that of the client, which inside a cluster is the
    /// pod's.
    pub fn namespace(self, namespace: impl Into<String>) -> Self {
        Self { namespace: Some(namespace.into()), ..self }
    }

    /// Sets the identity of this replica, which its Lease shows as `holderIdentity`. The default is the host
    /// name with a random suffix.
    pub fn identity(self, identity: impl Into<String>) -> Self {
        Self { identity: Some(identity.into()), ..self }
    }

    /// Sets the lease duration: how long other replicas wait after the last observed renewal, before they
    /// take over the keys of this replica. The default is 15 s. Fractions of a second are dropped.
    pub fn lease_duration(mut self, duration: Duration) -> Self {
        self.times.lease = Duration::from_secs(duration.as_secs());
        self
    }

    /// Sets the interval between renewals and between lists of the group; 2 s by default, and a quarter of it
    /// while keys move.
    pub fn retry_period(mut self, period: Duration) -> Self {
        self.times.retry = period;
        self
    }

    /// Sends the requests of the membership over the connections of its client. By default the membership has
    /// connections of its own ([`Client::with_separate_connections`]), so that renewals do not wait for the
    /// lists and watches of caches.
    pub fn share_connections(mut self, share: bool) -> Self {
        self.share_connections = share;
        self
    }

    /// Validates the configuration and creates the member.
    ///
    /// # Errors
    ///
    /// Returns an error if names are not valid Lease names, or the periods conflict.
    pub fn member(self, client: impl Into<Client>) -> Result<ShardMember, ShardConfigError> {
        ShardMember::new(self, client.into())
    }
}

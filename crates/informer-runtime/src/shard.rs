//! Sharding: the keys of one controller over several replicas, by membership on Leases and rendezvous hashing.
//!
//! Each replica has a Lease of its own, with the label `informer/shard-group`. It renews it, and lists those of the others. A key belongs to one of
//! the replicas that live: when one comes or goes, only its share of the keys moves.
//!
//! # Hand-over
//!
//! A replica publishes, in an annotation of its Lease, among which replicas it takes its share. What moves away is not begun any more
//! from the moment that is noticed; it is given up in public when the work on it has ended. What moves in is acted upon when
//! the claim is public, a list made after that shows no claim of another, or the other's lease has certainly passed.
//! So no two replicas act on a key while clock rates differ by less than a tenth and no process pauses for longer than its lease.
//!
//! # Limits
//!
//! - A process that is paused between a check and a write (stopped, swapped out, starved) sends that write when it goes on, whoever owns the key
//!   by then. Check before each write ([`OwnedKey::check`]), let requests time out, and send the uid and the version of what was
//!   read: the API server then refuses what another has overtaken. [`ShardFence`] orders writes to other stores.
//! - A replica relies on its lease for eight tenths of it; one tenth is for clocks, one for writes that are on their way. A write that
//!   takes longer than that to arrive can come late.
//! - A Lease of the group that is deleted by hand while its replica runs is noticed by that replica when it renews; one that joins
//!   within that time does not know of it.
//! - Work that does not end keeps its key, and what else was to move in the same change.
//! - Every change of members costs each replica a write and a list, a renewal one of each per retry period: meant for tens of replicas.
//!   More than 256 stand by.
//! - The keys are split, the watches are not: each replica's cache holds all objects.
//! - A controller ([`sharded`](crate::ControllerBuilder::sharded)) looks at all keys that come to it. A deletion that its owner was told of and did not
//!   come to reconcile before it died is seen by nobody, as without sharding: what must not be missed takes a finalizer.
//!
//! # Invariants
//!
//! Those of `state.rs`. The driver sends one request at a time, each with a deadline.
//!
//! # Lock order
//!
//! One lock, around the state. Nothing else is locked while it is held, and no user code runs.
//!
//! # Shutdown
//!
//! 1. No more work is begun ([`Sharding::enter`] fails).
//! 2. When what was begun has ended, the replica says that it left, and others take its keys at once.
//! 3. When they have seen that, or after three retry periods, it deletes its Lease.

mod driver;
mod error;
mod handle;
mod metrics;
mod peer;
mod ring;
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

/// No lease is taken to last longer: what is garbage in a Lease must not hold keys for ever.
const LEASE_MAX: Duration = Duration::from_secs(3600);

/// Proves that a key was owned at a time.
///
/// A hint for stores that refuse what is older, not a lock: the API server does not check it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShardFence {
    /// Grows over all terms of all owners of a key: what an owner wrote under a lower one came before.
    pub version: ResourceVersion,
    /// Until when the lease is relied on: requests had better be given up by then.
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

/// How a process takes part in sharding.
///
/// The replicas of one program name the same group. Every process is a new member, whatever its identity: two that were started under
/// one name do not mix.
///
/// # Permissions
///
/// `list`, `create`, `patch` and `delete` on `leases` of `coordination.k8s.io`.
///
/// # Use in a controller
///
/// [`ControllerBuilder::sharded`](crate::ControllerBuilder::sharded) does all that there is to do. By hand, where the work is no
/// controller's: act upon what can be [entered](Sharding::enter), and look again at what is [gained](Sharding::enqueue_gained).
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
#[must_use = "it makes a member"]
pub struct ShardGroup {
    name: String,
    namespace: Option<String>,
    identity: Option<String>,
    times: ShardTimes,
    share_connections: bool,
}

impl ShardGroup {
    /// The group of this name: of one controller of one program.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            namespace: None,
            identity: None,
            times: ShardTimes::default(),
            share_connections: false,
        }
    }

    /// The namespace of the Leases; by default that of the client, which inside a cluster is the pod's.
    pub fn namespace(self, namespace: impl Into<String>) -> Self {
        Self { namespace: Some(namespace.into()), ..self }
    }

    /// What people read in the Lease as its holder. By default the name of the host and a random part.
    pub fn identity(self, identity: impl Into<String>) -> Self {
        Self { identity: Some(identity.into()), ..self }
    }

    /// How long others wait after the last renewal that they saw; 15 s by default. Whole seconds: what is less is cut.
    pub fn lease_duration(mut self, duration: Duration) -> Self {
        self.times.lease = Duration::from_secs(duration.as_secs());
        self
    }

    /// How long is waited between two renewals, and two looks at the others; 2 s by default, and a quarter of it while keys move.
    pub fn retry_period(mut self, period: Duration) -> Self {
        self.times.retry = period;
        self
    }

    /// Sends the requests of the membership over the connections of its client. By default the membership has
    /// connections of its own ([`Client::with_separate_connections`]), so that renewals do not wait for the lists and
    /// watches of caches.
    pub fn share_connections(mut self, share: bool) -> Self {
        self.share_connections = share;
        self
    }

    /// Checks the group, and makes a member of it.
    ///
    /// # Errors
    ///
    /// When names are no names of Leases, or the times contradict each other.
    pub fn member(self, client: impl Into<Client>) -> Result<ShardMember, ShardConfigError> {
        ShardMember::new(self, client.into())
    }
}

//! Leader election on one Lease: a state machine without I/O.
//!
//! Programs use `informer_runtime::LeaderElection`. The code that drives an [`ElectorState`] (the driver)
//! does the following:
//!
//! - it sends each [`ElectionAction`] and passes the [`ElectionResponse`] to the state; after a timeout, it
//!   passes [`ElectionResponse::Failed`];
//! - it calls [`tick`](ElectorState::tick) at [`next_deadline`](ElectorState::next_deadline);
//! - it reads the [`ElectionNotice`]s after each call.
//!
//! ```
//! use informer_control::election::{ElectionAction, ElectionResponse, ElectionTimes, ElectorState, LeaseRecord, ElectionNotice};
//!
//! let now = tokio::time::Instant::now().into_std();
//! let mut state = ElectorState::new("a".to_owned(), ElectionTimes::default(), true, now);
//! state.tick(now);
//! assert_eq!(state.poll_action(), Some(ElectionAction::Get));
//! state.handle_response(ElectionResponse::NotFound, now, 0.0);
//! let Some(ElectionAction::Create(write)) = state.poll_action() else { panic!("the Lease does not exist") };
//!
//! let record = LeaseRecord { holder: write.holder, duration: Some(15), ..LeaseRecord::default() };
//! state.handle_response(ElectionResponse::Lease(record, "7".into()), now, 0.0);
//! assert!(matches!(state.poll_notice(), Some(ElectionNotice::Holder(holder)) if holder == "a"));
//! assert!(matches!(state.poll_notice(), Some(ElectionNotice::Leading(fence)) if fence.version == "7"));
//! ```

mod state;

use std::fmt;
use std::time::Duration;

use informer_core::ResourceVersion;

pub use state::{ElectionAction, ElectionNotice, ElectionResponse, ElectorState, LeaseRecord, LeaseWrite};

/// A fencing token, which identifies one term of a leader.
///
/// A leader writes the token along with its data to a store that rejects older tokens. The API server does
/// not check the token. Terms are ordered by `version`, which grows with each write of the Lease;
/// `transitions` restarts at 0 if the Lease is deleted.
///
/// If the Lease is deleted during a term, candidates that have not seen the last renewal may acquire it at
/// once. If an administrator removes the holder from the Lease, every candidate may acquire it. Two processes
/// may then lead until the first leader tries to renew its lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fence {
    /// The value of `spec.leaseTransitions` in the Lease when the term began.
    pub transitions: i32,
    /// The `metadata.resourceVersion` of the Lease after the write that began the term. A later term has a
    /// larger value.
    pub version: ResourceVersion,
}

/// The durations that control an election.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ElectionTimes {
    /// The lease duration: how long other candidates wait after the last renewal that they observed. Whole
    /// seconds, at least one.
    pub lease: Duration,
    /// How long a leader tries to renew its lease before it gives up leadership. Must be shorter than
    /// `lease`.
    pub renew: Duration,
    /// The delay between two attempts of a candidate to acquire or renew the lease.
    pub retry: Duration,
    /// The maximum random delay that a standby adds to `retry` before its next attempt, as a multiple of
    /// `retry`.
    pub jitter: f64,
}

impl Default for ElectionTimes {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self { lease: seconds(15), renew: seconds(10), retry: seconds(2), jitter: 1.2 }
    }
}

/// The error that ends the term of a leader that could not keep its lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaderLost {
    reason: String,
    left: Duration,
}

impl LeaderLost {
    /// Returns how long the lost lease still prevents other candidates from becoming the leader. The former
    /// leader must end its work within this time.
    pub fn time_left(&self) -> Duration {
        self.left
    }
}

impl fmt::Display for LeaderLost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the lease is lost: {}", self.reason)
    }
}

impl std::error::Error for LeaderLost {}

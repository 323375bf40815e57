//! Leader election on one Lease: the rules, without the requests.
//!
//! `informer_runtime::LeaderElection` is what programs use. Whoever drives an [`ElectorState`] by hand does what its driver does:
//! sends each [`Action`] and gives back its [`Answer`], with a deadline after which it is [`Answer::Failed`]; calls
//! [`tick`](ElectorState::tick) at [`next_deadline`](ElectorState::next_deadline); and reads the [`Notice`]s after each call.
//!
//! ```
//! use informer_control::election::{Action, Answer, ElectionTimes, ElectorState, LeaseRecord, Notice};
//!
//! let now = tokio::time::Instant::now().into_std();
//! let mut state = ElectorState::new("a".to_owned(), ElectionTimes::default(), true, now);
//! state.tick(now);
//! assert_eq!(state.poll_action(), Some(Action::Get));
//! state.answer(Answer::Missing, now, 0.0);
//! let Some(Action::Create(write)) = state.poll_action() else { panic!("nobody holds it") };
//!
//! let record = LeaseRecord { holder: write.holder, duration: Some(15), ..LeaseRecord::default() };
//! state.answer(Answer::Seen(record, "7".into()), now, 0.0);
//! assert!(matches!(state.poll_notice(), Some(Notice::Holder(holder)) if holder == "a"));
//! assert!(matches!(state.poll_notice(), Some(Notice::Leading(fence)) if fence.version == "7"));
//! ```

mod state;

use std::fmt;
use std::time::Duration;

use informer_core::ResourceVersion;

pub use state::{Action, Answer, ElectorState, LeaseRecord, LeaseWrite, Notice};

/// What tells one term of a leader from another: to be written beside what must not be written by a leader of before, by a store
/// that refuses what is older.
///
/// A hint, not a lock: the API server does not check it. Terms are ordered by `version`, which grows with each write of the Lease;
/// `transitions` begins anew where the Lease is deleted. A Lease that is deleted while somebody leads holds off nobody who
/// has not seen its last renewal, and one that is emptied by hand holds off nobody: two may lead until the first one renews.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fence {
    /// `spec.leaseTransitions` when the term began.
    pub transitions: i32,
    /// The version of the Lease when the term began.
    pub version: ResourceVersion,
}

/// How long things take in an election.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ElectionTimes {
    /// How long others wait after the last renewal that they saw; whole seconds, one at least.
    pub lease: Duration,
    /// How long a leader tries to renew before it gives up; shorter than the lease.
    pub renew: Duration,
    /// How long is waited between two attempts.
    pub retry: Duration,
    /// The factor that a wait of a standby grows by at random.
    pub jitter: f64,
}

impl Default for ElectionTimes {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self { lease: seconds(15), renew: seconds(10), retry: seconds(2), jitter: 1.2 }
    }
}

/// This process led, and could not keep its lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaderLost {
    reason: String,
    left: Duration,
}

impl LeaderLost {
    /// How long the lease still held off other processes when it was lost: what there is to end the leader's work.
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

//! Leader election on Leases.

use std::fmt;
use std::time::Duration;

use informer_core::ResourceVersion;

/// Whether this process leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Leadership {
    /// There is no election: it may do everything.
    Unopposed,
    /// Another process leads, or none yet.
    Standby,
    /// It leads.
    Leading(Fence),
    /// It has led, and leads no more; nor will it again in this run.
    Ended,
}

impl Leadership {
    /// True where leader-only work may be done.
    pub fn is_leading(&self) -> bool {
        matches!(self, Self::Unopposed | Self::Leading(_))
    }
}

/// What tells one term of a leader from another: to be written beside what must not be written by a leader of before, which
/// refuses what is older.
///
/// A hint, not a lock: the API server does not check it. Terms are ordered by `version`, which grows with each write of the Lease;
/// `transitions` begins anew where the Lease is deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fence {
    /// `spec.leaseTransitions` when the term began.
    pub transitions: i32,
    /// The version of the Lease when the term began.
    pub version: ResourceVersion,
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

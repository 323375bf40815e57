//! The result of a worker pool that has ended: how many keys succeeded, failed or were left.

/// The counts of a worker pool until it ended. Every hand-out of a key is counted once in `done`, `requeued`,
/// `retried`, `given_up`, `lost` or `abandoned`, unless the rate limiter or the failure hook panicked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// Number of keys that were processed successfully.
    pub done: u64,
    /// Number of keys that were requeued without a failure.
    pub requeued: u64,
    /// Number of keys that failed and were added again.
    pub retried: u64,
    /// Number of keys that were given up because they failed too often or permanently.
    pub given_up: u64,
    /// Number of keys that failed and were not retried because the queue was shut down.
    pub lost: u64,
    /// Number of panics of the work function, of operations of keys, or of the rate limiter.
    pub panicked: u64,
    /// Number of keys that were in process when the deadline of the shutdown passed.
    pub abandoned: u64,
    /// Number of keys that were ready and not handed out when the workers ended.
    pub left: usize,
    pub(super) started: u64,
    pub(super) ended: u64,
}

impl Report {
    /// Returns true if no key was given up, lost, abandoned or left.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.given_up == 0 && self.lost == 0 && self.abandoned == 0 && self.left == 0
    }
}

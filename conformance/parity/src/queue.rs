//! The operations in scripts of the work queue, and their results with the queue of this library.

mod ours;

pub use ours::run_ours;

use crate::operations::{Operation, OperationScript, Verb};

/// A parity script of a work queue, which client-go and this library both run.
pub type QueueScript = OperationScript<QueueVerb>;

/// The operations on a work queue: `add KEY`, `get GETTER`, `add-after KEY 50ms`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueVerb {
    /// A key is added without a delay.
    Add,
    /// A key is added after a delay.
    AddAfter,
    /// A key is added after the delay of the rate limiter.
    AddRateLimited,
    /// The failures of a key are forgotten by the rate limiter.
    Forget,
    /// Reads the number of additions of a key through the rate limiter since the key was last forgotten.
    Retries,
    /// Starts a getter, which is a task with this name that waits for a key.
    Get,
    /// A key is marked as done.
    Done,
    /// Reads the number of ready keys.
    Len,
    /// The simulated time advances by a duration.
    Advance,
    /// The queue is shut down: it rejects further keys, and returns the keys that it contains to getters.
    ShutDown,
    /// The queue is shut down, and a task waits until all keys are marked as done.
    Drain,
    /// Reads whether the queue was shut down.
    ShuttingDown,
}

impl Verb for QueueVerb {
    const OF: &'static str = "queue";
    const WHOM: &'static str = "key";
    const ALL: &'static [(Self, &'static str, bool, bool)] = &[
        (Self::Add, "add", true, false),
        (Self::AddAfter, "add-after", true, true),
        (Self::AddRateLimited, "add-rate-limited", true, false),
        (Self::Forget, "forget", true, false),
        (Self::Retries, "retries", true, false),
        (Self::Get, "get", true, false),
        (Self::Done, "done", true, false),
        (Self::Len, "len", false, false),
        (Self::Advance, "advance", false, true),
        (Self::ShutDown, "shut-down", false, false),
        (Self::Drain, "drain", false, false),
        (Self::ShuttingDown, "shutting-down", false, false),
    ];

    fn field(self) -> &'static str {
        if self == Self::Get { "getter" } else { "key" }
    }

    fn check(operations: &[Operation<Self>]) -> Result<(), String> {
        if operations.is_empty() { Err("it has no operations".to_owned()) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests;

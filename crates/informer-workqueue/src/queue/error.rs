//! What goes wrong when a queue is drained.

/// A drain that did not come to its end. The queue stays shut down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DrainError {
    /// The deadline passed: workers are stuck, or nobody gets keys any more.
    #[error("draining the work queue took too long: {ready} keys are ready and {processing} in process")]
    DeadlinePassed {
        /// Keys that nobody got.
        ready: usize,
        /// Keys that somebody got and has not done.
        processing: usize,
    },
    /// `shut_down` was called while the drain waited.
    #[error("draining the work queue was broken off: {ready} keys are ready and {processing} in process")]
    BrokenOff {
        /// Keys that nobody got.
        ready: usize,
        /// Keys that somebody got and has not done.
        processing: usize,
    },
}

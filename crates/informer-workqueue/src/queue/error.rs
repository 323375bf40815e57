/// The error of a drain that did not complete. The queue stays shut down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DrainError {
    /// The deadline of the drain passed: workers are stuck, or no worker gets keys any more.
    #[error("drain work queue: deadline passed: {ready} keys are ready and {processing} in process")]
    DeadlinePassed {
        /// Number of ready keys, which were not handed out.
        ready: usize,
        /// Number of keys in process, which were handed out and not finished.
        processing: usize,
    },
    /// `shut_down` was called during the drain.
    #[error(
        "drain work queue: interrupted by `shut_down`: {ready} keys are ready and {processing} in process"
    )]
    BrokenOff {
        /// Number of ready keys, which were not handed out.
        ready: usize,
        /// Number of keys in process, which were handed out and not finished.
        processing: usize,
    },
}

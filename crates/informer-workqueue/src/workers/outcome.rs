use std::fmt;
use std::time::Duration;

/// Any error that the work can return.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The outcome of processing a key. `()` and `Result`s convert to it, so the work can use `?`.
#[derive(Debug)]
pub enum WorkOutcome {
    /// The key was processed successfully: its failures are forgotten.
    Done,
    /// Adds the key again after the delay of the rate limiter. Counts as a retry of the rate limiter, not of
    /// [`max_retries`](super::Workers::max_retries).
    Requeue,
    /// The key was processed successfully: its failures are forgotten, and it is added again after this
    /// delay.
    RequeueAfter(Duration),
    /// Processing failed: the key is retried through the rate limiter, up to the maximum number of retries.
    Retry(BoxError),
    /// Processing failed permanently: the key is not retried, and its failures are forgotten.
    Fail(BoxError),
}

impl From<()> for WorkOutcome {
    fn from((): ()) -> Self {
        Self::Done
    }
}

impl<E: Into<BoxError>> From<Result<(), E>> for WorkOutcome {
    fn from(result: Result<(), E>) -> Self {
        result.map_or_else(|error| Self::Retry(error.into()), |()| Self::Done)
    }
}

impl<E: Into<BoxError>> From<Result<WorkOutcome, E>> for WorkOutcome {
    fn from(result: Result<WorkOutcome, E>) -> Self {
        result.unwrap_or_else(|error| Self::Retry(error.into()))
    }
}

/// A failure to process a key, as passed to the failure hook.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Failure<'a> {
    /// The cause of the failure: an error or a panic.
    pub cause: Cause<'a>,
    /// Number of earlier failures of the key.
    pub retries: u32,
    /// The decision about retrying the key.
    pub decision: RetryDecision,
}

/// The cause of a failure to process a key.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Cause<'a> {
    /// The work returned an error.
    Error(&'a (dyn std::error::Error + Send + Sync)),
    /// The work panicked with this message.
    Panic(&'a str),
}

/// Whether a failed key is retried, and why not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RetryDecision {
    /// The key is retried.
    Retried,
    /// The key is not retried, because it failed too often or permanently.
    GivenUp,
    /// The key is not retried, because the queue is shut down.
    Lost,
}

impl fmt::Display for Failure<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.cause {
            Cause::Error(error) => write!(f, "{error}")?,
            Cause::Panic(message) => write!(f, "panicked: {message}")?,
        }
        let attempt = u64::from(self.retries) + 1;
        match self.decision {
            RetryDecision::Retried => write!(f, " (attempt {attempt}, will be retried)"),
            RetryDecision::GivenUp => write!(f, " (attempt {attempt}, given up)"),
            RetryDecision::Lost => write!(f, " (attempt {attempt}, not retried: the queue is shut down)"),
        }
    }
}

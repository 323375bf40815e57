//! What work on a key comes to.

use std::fmt;
use std::time::Duration;

/// Any error.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// What becomes of a key after work on it. Made from `()` and from `Result`s too, so that work may use `?`.
#[derive(Debug)]
pub enum WorkOutcome {
    /// It succeeded: its failures are forgotten.
    Done,
    /// Again, as soon as the rate limiter allows. Counts as a retry of the rate limiter, not of
    /// [`max_retries`](super::Workers::max_retries).
    Requeue,
    /// It succeeded, and is to be looked at again after this time. Its failures are forgotten.
    RequeueAfter(Duration),
    /// It failed: again through the rate limiter, until it is given up.
    Retry(BoxError),
    /// It failed, and trying again is of no use. Its failures are forgotten.
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

/// Work on a key that went wrong.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Failure<'a> {
    /// Why.
    pub cause: Cause<'a>,
    /// How often the key had failed before.
    pub retries: u32,
    /// What becomes of the key.
    pub decision: RetryDecision,
}

/// Why work went wrong.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Cause<'a> {
    /// It said so.
    Error(&'a (dyn std::error::Error + Send + Sync)),
    /// It panicked, with this message.
    Panic(&'a str),
}

/// What becomes of a key that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RetryDecision {
    /// It comes again.
    Retried,
    /// It does not: it failed too often, or for good.
    GivenUp,
    /// It does not: the queue is shut down.
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
            RetryDecision::Retried => write!(f, " (attempt {attempt}, comes again)"),
            RetryDecision::GivenUp => write!(f, " (attempt {attempt}, given up)"),
            RetryDecision::Lost => write!(f, " (attempt {attempt}, not tried again: the queue is shut down)"),
        }
    }
}

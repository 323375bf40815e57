use std::error::Error;
use std::fmt;
use std::time::Duration;

use informer_cache::source::SourceError;
use informer_client::CallError;

use crate::{BoxError, MaybeConflict, ReadError, WriteError};

pub use informer_control::controller::Outcome;

/// The error of a failed reconcile. Every error type converts to it, so that `?` needs no annotation.
///
/// The rate limiter requeues the request unless the error is [terminal](Self::terminal). If a cause of the
/// error is the rejection of a request by an API server with `Retry-After`, the delay is at least that time,
/// of which at most [`MAX_RETRY_AFTER`](informer_cache::reflector::MAX_RETRY_AFTER) is respected.
///
/// ```
/// use informer_runtime::{Outcome, ReconcileError};
///
/// fn reconcile(text: &str) -> Result<Outcome, ReconcileError> {
///     let replicas: u32 = text.parse()?;
///     if replicas > 100 {
///         return Err(ReconcileError::terminal("more than 100 replicas are not supported"));
///     }
///     Ok(Outcome::Done)
/// }
/// assert!(!reconcile("many").unwrap_err().is_terminal());
/// assert!(reconcile("1000").unwrap_err().is_terminal());
/// ```
pub struct ReconcileError {
    cause: BoxError,
    terminal: bool,
    priority: Option<i32>,
    retry_after: Option<Duration>,
}

impl ReconcileError {
    /// Creates an error that is not retried: the request is reconciled again only after another event. The
    /// failure count of the request is kept.
    pub fn terminal(cause: impl Into<BoxError>) -> Self {
        Self { cause: TerminalError::new(cause).into(), terminal: true, priority: None, retry_after: None }
    }

    /// Returns true if the error is terminal, which means that it or one of its causes is a
    /// [`TerminalError`].
    pub fn is_terminal(&self) -> bool {
        self.terminal
    }

    /// Sets the priority with which the failed request is requeued.
    pub fn with_priority(mut self, priority: i32) -> Self {
        self.priority = Some(priority);
        self
    }

    /// Returns the priority with which the failed request is requeued, if it was set.
    pub fn priority(&self) -> Option<i32> {
        self.priority
    }

    /// Sets the time before which the failed request is not retried, for example the `Retry-After` of a
    /// server of another API. The delay of the rate limiter applies if it is longer.
    pub fn with_retry_after(mut self, minimum: Duration) -> Self {
        self.retry_after = Some(minimum);
        self
    }

    /// Returns the time before which the failed request is not retried: the one that
    /// [`with_retry_after`](Self::with_retry_after) has set, or the `Retry-After` of an API server.
    pub fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }

    /// Returns the error from which this error was created.
    pub fn cause(&self) -> &(dyn Error + Send + Sync + 'static) {
        &*self.cause
    }

    /// Converts this error into the one from which it was created.
    pub fn into_cause(self) -> BoxError {
        self.cause
    }
}

impl<E: Into<BoxError>> From<E> for ReconcileError {
    fn from(error: E) -> Self {
        let cause = error.into();
        let terminal = chain(&*cause).any(|error| error.is::<TerminalError>());
        let retry_after = chain(&*cause).find_map(retry_after_of);
        Self { cause, terminal, priority: None, retry_after }
    }
}

/// Returns the `Retry-After` of a rejected request.
fn retry_after_of(error: &(dyn Error + 'static)) -> Option<Duration> {
    if let Some(error) = error.downcast_ref::<CallError>() {
        return error.retry_after();
    }
    if let Some(error) = error.downcast_ref::<WriteError>() {
        return error.retry_after();
    }
    if let Some(error) = error.downcast_ref::<ReadError>() {
        return error.retry_after();
    }
    error.downcast_ref::<SourceError>()?.retry_after()
}

/// Prints the error of a reconcile together with the chain of its causes.
impl fmt::Display for ReconcileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in chain(&*self.cause).enumerate() {
            let separator = if index > 0 { ": " } else { "" };
            write!(f, "{separator}{error}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for ReconcileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReconcileError")
            .field("cause", &self.cause)
            .field("terminal", &self.terminal)
            .field("priority", &self.priority)
            .field("retry_after", &self.retry_after)
            .finish()
    }
}

impl MaybeConflict for ReconcileError {
    fn is_conflict(&self) -> bool {
        chain(self.cause()).any(|error| {
            error.downcast_ref().is_some_and(WriteError::is_conflict)
                || error.downcast_ref().is_some_and(CallError::is_conflict)
        })
    }
}

fn chain<'e>(error: &'e (dyn Error + 'static)) -> impl Iterator<Item = &'e (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&error| error.source())
}

/// Marks an error as terminal: a reconcile that fails with it is not retried. It may be at any position in
/// the chain of causes.
#[derive(Debug, thiserror::Error)]
#[error("terminal error")]
pub struct TerminalError {
    source: BoxError,
}

impl TerminalError {
    /// Wraps an error, so that a reconcile that fails with it is not retried.
    pub fn new(cause: impl Into<BoxError>) -> Self {
        Self { source: cause.into() }
    }
}

/// The error of a reconcile that panicked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("panic: {message} [recovered]")]
pub struct ReconcilePanic {
    message: String,
}

impl ReconcilePanic {
    pub(super) fn new(message: &str) -> Self {
        Self { message: message.to_owned() }
    }
}

/// The error of a reconcile that exceeded its timeout.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the reconcile did not end within {after:?} and was dropped")]
pub struct ReconcileTimeout {
    after: Duration,
}

impl ReconcileTimeout {
    pub(super) fn new(after: Duration) -> Self {
        Self { after }
    }
}

#[cfg(test)]
mod tests {
    use informer_cache::source::ServerStatus;

    use super::*;

    #[test]
    fn conflict_is_found_among_the_causes_of_a_reconcile_error() {
        #[derive(Debug, thiserror::Error)]
        #[error("sync")]
        struct Sync(#[source] WriteError);

        let rejected = |code| {
            let status = ServerStatus { code, ..ServerStatus::default() };
            Sync(CallError::refused("update", status).into())
        };
        let is_conflict = |error: ReconcileError| MaybeConflict::is_conflict(&error);
        assert!(is_conflict(rejected(409).into()));
        assert!(!is_conflict(rejected(500).into()));
        assert!(!is_conflict("conflict".into()));
    }
}

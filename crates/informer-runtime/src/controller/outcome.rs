use std::error::Error;
use std::fmt;
use std::time::Duration;

use crate::BoxError;

pub use informer_control::controller::Outcome;

/// The error of a failed reconcile. Every error type converts to it, so that `?` needs no annotation.
///
/// The rate limiter requeues the request unless the error is [terminal](Self::terminal).
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
}

impl ReconcileError {
    /// Creates an error that is not retried: the request is reconciled again only after another event. The
    /// failure count of the request is kept.
    pub fn terminal(cause: impl Into<BoxError>) -> Self {
        Self { cause: TerminalError::new(cause).into(), terminal: true, priority: None }
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
        Self { cause, terminal, priority: None }
    }
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
            .finish()
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

use std::error::Error;
use std::fmt;
use std::time::Duration;

use crate::BoxError;

/// What becomes of a request whose reconcile succeeded.
///
/// | outcome | the request comes again | its failures |
/// |---|---|---|
/// | [`Done`](Self::Done) | when something happens | are forgotten |
/// | [`RequeueAfter`](Self::RequeueAfter) | after this time | are forgotten |
/// | [`Requeue`](Self::Requeue) | as soon as the rate limiter allows, which counts it | are kept |
///
/// Made from `()`, too. A priority that is not set is the one with which the request was handed out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// All is as it should be.
    #[default]
    Done,
    /// Again, by the rate limiter: where it is not worth an error that something is not there yet.
    Requeue {
        /// The priority from now on.
        priority: Option<i32>,
    },
    /// All is as it should be, and is to be looked at again.
    RequeueAfter {
        /// After this time; zero is [`Done`](Self::Done).
        delay: Duration,
        /// The priority from now on.
        priority: Option<i32>,
    },
}

impl Outcome {
    /// Again, as soon as the rate limiter allows.
    pub fn requeue() -> Self {
        Self::Requeue { priority: None }
    }

    /// Again after this time.
    pub fn requeue_after(delay: Duration) -> Self {
        Self::RequeueAfter { delay, priority: None }
    }

    /// Sets the priority with which the request comes again. Changes nothing of [`Done`](Self::Done).
    pub fn with_priority(mut self, wanted: i32) -> Self {
        match &mut self {
            Self::Done => {}
            Self::Requeue { priority } | Self::RequeueAfter { priority, .. } => *priority = Some(wanted),
        }
        self
    }
}

impl From<()> for Outcome {
    fn from((): ()) -> Self {
        Self::Done
    }
}

/// Why a reconcile failed: any error, so that `?` needs no annotation.
///
/// The request comes again, as soon as the rate limiter allows, unless the error is [terminal](Self::terminal).
///
/// ```
/// use informer_runtime::{Outcome, ReconcileError};
///
/// fn reconcile(text: &str) -> Result<Outcome, ReconcileError> {
///     let replicas: u32 = text.parse()?;
///     if replicas > 100 {
///         return Err(ReconcileError::terminal("over 100 replicas will not be made"));
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
    /// An error that trying again does not mend: the request is not tried again before something happens to it. Its failures are
    /// kept.
    pub fn terminal(cause: impl Into<BoxError>) -> Self {
        Self { cause: TerminalError::new(cause).into(), terminal: true, priority: None }
    }

    /// Whether the error, or one that caused it, is a [`TerminalError`].
    pub fn is_terminal(&self) -> bool {
        self.terminal
    }

    /// Sets the priority with which the request comes again.
    pub fn with_priority(mut self, priority: i32) -> Self {
        self.priority = Some(priority);
        self
    }

    /// The priority that was set.
    pub fn priority(&self) -> Option<i32> {
        self.priority
    }

    /// The error itself.
    pub fn cause(&self) -> &(dyn Error + Send + Sync + 'static) {
        &*self.cause
    }

    /// Takes the error itself out.
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

/// With its causes, one after the other.
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

/// An error that trying again does not mend, wherever it stands in the chain of causes.
#[derive(Debug, thiserror::Error)]
#[error("terminal error")]
pub struct TerminalError {
    source: BoxError,
}

impl TerminalError {
    /// Marks an error.
    pub fn new(cause: impl Into<BoxError>) -> Self {
        Self { source: cause.into() }
    }
}

/// A reconcile panicked.
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

/// A reconcile took longer than it may.
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

use std::error::Error;
use std::fmt;
use std::time::Duration;

use informer_core::panics::panic_text;

use crate::BoxError;

/// The maximum number of later errors of runnables in a [`ManagerError`], in addition to the first error,
/// which has stopped the manager.
pub(super) const MAX_LATER_ERRORS: usize = 32;

/// The error with which a manager ends. It contains the first failure of a runnable, later failures, and the
/// names of runnables that did not stop in time.
#[derive(Debug)]
pub struct ManagerError {
    pub(super) first: Option<Box<RunnableError>>,
    pub(super) later_errors: Vec<RunnableError>,
    pub(super) unstopped: Vec<String>,
    pub(super) timeout: Duration,
}

impl ManagerError {
    pub(super) fn of(error: RunnableError) -> Self {
        Self {
            first: Some(Box::new(error)),
            later_errors: Vec::new(),
            unstopped: Vec::new(),
            timeout: Duration::ZERO,
        }
    }

    /// Returns the error of the runnable that stopped the manager. Returns `None` if no runnable failed
    /// before the stop, so that the error lists only failures during the stop.
    pub fn first(&self) -> Option<&RunnableError> {
        self.first.as_deref()
    }

    /// Returns the errors that runnables returned while the manager was stopping.
    pub fn later_errors(&self) -> &[RunnableError] {
        &self.later_errors
    }

    /// Returns the names of runnables that did not stop in time, in insertion order. Their futures were
    /// dropped; threads that they started keep running.
    pub fn unstopped(&self) -> &[String] {
        &self.unstopped
    }

    /// Returns true if the manager ended because it lost its lease, so that another process may be the leader
    /// now.
    pub fn is_leader_lost(&self) -> bool {
        self.first.as_ref().is_some_and(|error| error.problem == Problem::LeaderLost)
    }
}

impl fmt::Display for ManagerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the manager ended")?;
        if let Some(first) = &self.first {
            write!(f, ": {first}")?;
        }
        if let Some(others) = self.later_errors.len().checked_sub(1) {
            write!(f, "; while stopping, {}", self.later_errors[0])?;
            if others > 0 {
                write!(f, " and {others} more")?;
            }
        }
        if !self.unstopped.is_empty() {
            write!(f, "; not stopped after {:?}: {}", self.timeout, self.unstopped.join(", "))?;
        }
        Ok(())
    }
}

impl Error for ManagerError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.first.as_ref().and_then(|first| first.source())
    }
}

/// The error of one runnable of a manager: it failed, panicked, or was not ready in time.
#[derive(Debug)]
pub struct RunnableError {
    name: String,
    problem: Problem,
    source: Option<BoxError>,
}

#[derive(Debug, PartialEq, Eq)]
enum Problem {
    Failed,
    Panicked(String),
    NotReady,
    NotReadyIn(Duration),
    NotCreated,
    LeaderLost,
}

impl RunnableError {
    pub(super) fn failed(name: impl Into<String>, error: BoxError) -> Self {
        let lost = error.is::<crate::LeaderLost>();
        let problem = if lost { Problem::LeaderLost } else { Problem::Failed };
        Self { name: name.into(), problem, source: Some(error) }
    }

    pub(super) fn not_ready(name: impl Into<String>, error: BoxError) -> Self {
        Self { name: name.into(), problem: Problem::NotReady, source: Some(error) }
    }

    pub(super) fn not_ready_in(name: impl Into<String>, time: Duration) -> Self {
        Self { name: name.into(), problem: Problem::NotReadyIn(time), source: None }
    }

    pub(super) fn not_created(name: impl Into<String>, error: BoxError) -> Self {
        Self { name: name.into(), problem: Problem::NotCreated, source: Some(error) }
    }

    pub(super) fn panicked(name: impl Into<String>, payload: &(dyn std::any::Any + Send)) -> Self {
        let problem = Problem::Panicked(panic_text(payload).to_owned());
        Self { name: name.into(), problem, source: None }
    }

    /// If the runnable was the leader elector and lost its lease, returns the time for which the lease still
    /// excludes other candidates. The manager must stop leader-only work within it.
    pub(super) fn lease_left(&self) -> Option<Duration> {
        self.source.as_ref()?.downcast_ref::<crate::LeaderLost>().map(crate::LeaderLost::time_left)
    }

    /// Returns the name of the runnable whose failure this error describes.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns true if the runnable failed with a panic instead of an error.
    pub fn is_panic(&self) -> bool {
        matches!(self.problem, Problem::Panicked(_))
    }

    /// Returns true if the runnable did not become ready within the start timeout.
    pub fn is_not_ready(&self) -> bool {
        matches!(self.problem, Problem::NotReady | Problem::NotReadyIn(_))
    }
}

impl fmt::Display for RunnableError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = &self.name;
        match &self.problem {
            Problem::Failed => write!(f, "{name} failed"),
            Problem::Panicked(text) => write!(f, "{name} panicked: {text}"),
            Problem::NotReady => write!(f, "{name} was not ready"),
            Problem::NotReadyIn(time) => write!(f, "{name} was not ready after {time:?}"),
            Problem::NotCreated => write!(f, "{name} cannot run in this manager"),
            Problem::LeaderLost => write!(f, "{name} lost the lease"),
        }
    }
}

impl Error for RunnableError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}

/// The error for a runnable that could not be added to a manager.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AddError {
    /// The manager is stopping, or has stopped, and starts no more runnables.
    #[error("add {name}: the manager is stopping; start a new one")]
    Stopping {
        /// The name of the rejected runnable.
        name: String,
    },
    /// The manager has reached the maximum number of runnables that can be added to it.
    #[error("add {name}: the manager has {max} runnables already; combine some of them")]
    TooMany {
        /// The name of the rejected runnable.
        name: String,
        /// The maximum number of runnables that can be added to a manager.
        max: usize,
    },
    /// The runnable cannot run in this manager, for example because its name is already in use.
    #[error("the runnable cannot run in this manager")]
    Refused(#[source] BoxError),
}

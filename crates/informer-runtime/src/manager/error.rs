use std::error::Error;
use std::fmt;
use std::time::Duration;

use informer_core::panics::panic_text;

use crate::BoxError;

/// Errors kept beside the first one. Each part has at most one, and a report that names hundreds helps nobody.
pub(super) const ALSO_MAX: usize = 32;

/// Why a manager ended: the first error of a part, what came after it, and what did not stop in time.
#[derive(Debug)]
pub struct ManagerError {
    pub(super) first: Option<Box<PartError>>,
    pub(super) also: Vec<PartError>,
    pub(super) unstopped: Vec<String>,
    pub(super) timeout: Duration,
}

impl ManagerError {
    pub(super) fn of(error: PartError) -> Self {
        Self {
            first: Some(Box::new(error)),
            also: Vec::new(),
            unstopped: Vec::new(),
            timeout: Duration::ZERO,
        }
    }

    /// The error that ended the manager; `None` where it was asked to end, and something did not stop.
    pub fn first(&self) -> Option<&PartError> {
        self.first.as_deref()
    }

    /// Errors of parts while the manager was stopping.
    pub fn also(&self) -> &[PartError] {
        &self.also
    }

    /// The names of the parts that did not stop in time, in the order in which they were added. They were dropped where they
    /// were; what they run on threads of their own goes on.
    pub fn unstopped(&self) -> &[String] {
        &self.unstopped
    }

    /// True where the manager ended because its lease was lost: another process may lead now.
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
        if let Some(others) = self.also.len().checked_sub(1) {
            write!(f, "; while stopping, {}", self.also[0])?;
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

/// The error of one part of a manager.
#[derive(Debug)]
pub struct PartError {
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
    NotMade,
    LeaderLost,
}

impl PartError {
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

    pub(super) fn not_made(name: impl Into<String>, error: BoxError) -> Self {
        Self { name: name.into(), problem: Problem::NotMade, source: Some(error) }
    }

    pub(super) fn panicked(name: impl Into<String>, payload: &(dyn std::any::Any + Send)) -> Self {
        let problem = Problem::Panicked(panic_text(payload).to_owned());
        Self { name: name.into(), problem, source: None }
    }

    /// How long the lease that was lost holds off other processes.
    pub(super) fn lease_left(&self) -> Option<Duration> {
        self.source.as_ref()?.downcast_ref::<crate::LeaderLost>().map(crate::LeaderLost::time_left)
    }

    /// The name of the part.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// True where the part panicked.
    pub fn is_panic(&self) -> bool {
        matches!(self.problem, Problem::Panicked(_))
    }

    /// True where the part was not ready in time.
    pub fn is_not_ready(&self) -> bool {
        matches!(self.problem, Problem::NotReady | Problem::NotReadyIn(_))
    }
}

impl fmt::Display for PartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = &self.name;
        match &self.problem {
            Problem::Failed => write!(f, "{name} failed"),
            Problem::Panicked(text) => write!(f, "{name} panicked: {text}"),
            Problem::NotReady => write!(f, "{name} was not ready"),
            Problem::NotReadyIn(time) => write!(f, "{name} was not ready after {time:?}"),
            Problem::NotMade => write!(f, "{name} cannot run in this manager"),
            Problem::LeaderLost => write!(f, "{name} lost the lease"),
        }
    }
}

impl Error for PartError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}

/// A part that a manager did not take.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AddError {
    /// The manager is stopping, or has stopped.
    #[error("cannot add {name}: the manager is stopping; start a new one")]
    Stopping {
        /// The name of the part.
        name: String,
    },
    /// There are too many parts.
    #[error("cannot add {name}: the manager has {max} parts already; run the work in fewer of them")]
    TooMany {
        /// The name of the part.
        name: String,
        /// How many there may be.
        max: usize,
    },
    /// The part cannot run in this manager.
    #[error("the part cannot run in this manager")]
    Refused(#[source] BoxError),
}

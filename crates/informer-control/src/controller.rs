//! The life of a controller, and what becomes of a request after its reconcile.

mod state;
#[cfg(test)]
mod tests;

use std::time::Duration;

pub use state::{CANCEL_GRACE, ControllerPhase, Drain, Feeding, LifeState};

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

/// How a reconcile ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// It succeeded.
    Succeeded(Outcome),
    /// It answered with an error.
    Failed {
        /// Trying again does not mend it.
        terminal: bool,
        /// The priority from now on.
        priority: Option<i32>,
    },
    /// It panicked.
    Panicked,
    /// It took longer than it may, and was dropped.
    TimedOut,
}

/// What is to be done with the request that was handed out.
///
/// ```
/// use std::time::Duration;
/// use informer_control::controller::{Again, Ended, Outcome, Verdict};
///
/// let soon = Duration::from_secs(5);
/// let verdict = Verdict::of(Ended::Succeeded(Outcome::requeue_after(soon)));
/// assert_eq!(verdict, Verdict { forget: true, again: Again::After(soon), priority: None });
///
/// // A terminal error keeps the failures: what comes next may well fail again.
/// let verdict = Verdict::of(Ended::Failed { terminal: true, priority: None });
/// assert_eq!(verdict, Verdict { forget: false, again: Again::No, priority: None });
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verdict {
    /// Its failures are forgotten.
    pub forget: bool,
    /// Whether it comes again by itself.
    pub again: Again,
    /// The priority with which it does; without one, that with which it was handed out.
    pub priority: Option<i32>,
}

/// Whether a request comes again by itself. What was added while it was worked on comes again in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Again {
    /// It does not.
    No,
    /// After this time.
    After(Duration),
    /// As soon as the rate limiter allows, which counts it as a failure.
    RateLimited,
}

impl Verdict {
    /// What follows from how the reconcile ended. Whether a panic ends the controller instead is not decided here.
    pub fn of(ended: Ended) -> Self {
        let (forget, again, priority) = match ended {
            Ended::Succeeded(Outcome::RequeueAfter { delay, priority }) if !delay.is_zero() => {
                (true, Again::After(delay), priority)
            }
            Ended::Succeeded(Outcome::Done | Outcome::RequeueAfter { .. }) => (true, Again::No, None),
            Ended::Succeeded(Outcome::Requeue { priority }) => (false, Again::RateLimited, priority),
            Ended::Failed { terminal: true, .. } => (false, Again::No, None),
            Ended::Failed { terminal: false, priority } => (false, Again::RateLimited, priority),
            Ended::Panicked | Ended::TimedOut => (false, Again::RateLimited, None),
        };
        Self { forget, again, priority }
    }
}

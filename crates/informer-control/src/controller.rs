//! The lifecycle of a controller, and the decision whether a request is requeued after its reconcile.

mod state;
#[cfg(test)]
mod tests;

use std::time::Duration;

pub use state::{CANCEL_GRACE, ControllerLifecycle, ControllerPhase, DrainStep, SourceStart};

/// The result of a successful reconcile: whether the request is requeued.
///
/// | outcome | the request is requeued | its failure count |
/// |---|---|---|
/// | [`Done`](Self::Done) | on the next event | is reset |
/// | [`RequeueAfter`](Self::RequeueAfter) | after the delay | is reset |
/// | [`Requeue`](Self::Requeue) | by the rate limiter, which counts a failure | is kept |
///
/// `()` converts to [`Done`](Self::Done). Without a priority, the request keeps the priority with which it
/// was handed out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// The object has its desired state. Its next event enqueues the next request.
    #[default]
    Done,
    /// The request is requeued with the rate limiter's delay. Use this outcome if a dependency does not exist
    /// yet and an error would be inappropriate.
    Requeue {
        /// The priority of the requeued request; `None` keeps its priority.
        priority: Option<i32>,
    },
    /// The object has its desired state and is reconciled again after a delay.
    RequeueAfter {
        /// The delay until the request is requeued; a delay of zero has the same effect as
        /// [`Done`](Self::Done).
        delay: Duration,
        /// The priority of the requeued request; `None` keeps its priority.
        priority: Option<i32>,
    },
}

impl Outcome {
    /// Returns an outcome that requeues the request with the rate limiter's delay.
    pub fn requeue() -> Self {
        Self::Requeue { priority: None }
    }

    /// Returns an outcome that requeues the request after `delay`.
    pub fn requeue_after(delay: Duration) -> Self {
        Self::RequeueAfter { delay, priority: None }
    }

    /// Sets the priority with which the request is requeued. It has no effect on [`Done`](Self::Done).
    pub fn with_priority(mut self, new: i32) -> Self {
        match &mut self {
            Self::Done => {}
            Self::Requeue { priority } | Self::RequeueAfter { priority, .. } => *priority = Some(new),
        }
        self
    }
}

impl From<()> for Outcome {
    fn from((): ()) -> Self {
        Self::Done
    }
}

/// How the reconcile of a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReconcileEnd {
    /// The reconcile succeeded and returned this outcome.
    Succeeded(Outcome),
    /// The reconcile returned an error.
    Failed {
        /// True for a terminal error: a retry cannot succeed, so the request is not requeued.
        terminal: bool,
        /// The priority with which the failed request is retried; `None` keeps its priority.
        priority: Option<i32>,
    },
    /// The reconcile panicked.
    Panicked,
    /// The reconcile exceeded its timeout and was dropped.
    TimedOut,
}

/// Whether a request is requeued after its reconcile, and whether its failure count is reset.
///
/// ```
/// use std::time::Duration;
/// use informer_control::controller::{Requeue, ReconcileEnd, Outcome, RequeueDecision};
///
/// let soon = Duration::from_secs(5);
/// let decision = RequeueDecision::of(ReconcileEnd::Succeeded(Outcome::requeue_after(soon)));
/// assert_eq!(decision, RequeueDecision { forget: true, requeue: Requeue::After(soon), priority: None });
///
/// // A terminal error keeps the failure count: the next attempt may well fail again.
/// let decision = RequeueDecision::of(ReconcileEnd::Failed { terminal: true, priority: None });
/// assert_eq!(decision, RequeueDecision { forget: false, requeue: Requeue::Never, priority: None });
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequeueDecision {
    /// True if the failure count of the request is reset.
    pub forget: bool,
    /// Whether, and after which delay, the request is requeued.
    pub requeue: Requeue,
    /// The priority of the requeued request; `None` keeps the priority with which the request was handed out.
    pub priority: Option<i32>,
}

/// Whether and when a request is requeued. Independent of that, a request that was added again during its
/// reconcile is handed out again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Requeue {
    /// The request is not requeued; only its next event enqueues it again.
    Never,
    /// The request is requeued after this delay.
    After(Duration),
    /// The request is requeued with the rate limiter's delay. The rate limiter counts a failure, which
    /// usually makes the next delay longer.
    RateLimited,
}

impl RequeueDecision {
    /// Returns whether and when a request is requeued after its reconcile has ended with `end`. The caller
    /// decides whether a panic stops the controller.
    pub fn of(end: ReconcileEnd) -> Self {
        let (forget, requeue, priority) = match end {
            ReconcileEnd::Succeeded(Outcome::RequeueAfter { delay, priority }) if !delay.is_zero() => {
                (true, Requeue::After(delay), priority)
            }
            ReconcileEnd::Succeeded(Outcome::Done | Outcome::RequeueAfter { .. }) => {
                (true, Requeue::Never, None)
            }
            ReconcileEnd::Succeeded(Outcome::Requeue { priority }) => (false, Requeue::RateLimited, priority),
            ReconcileEnd::Failed { terminal: true, .. } => (false, Requeue::Never, None),
            ReconcileEnd::Failed { terminal: false, priority } => (false, Requeue::RateLimited, priority),
            ReconcileEnd::Panicked | ReconcileEnd::TimedOut => (false, Requeue::RateLimited, None),
        };
        Self { forget, requeue, priority }
    }
}

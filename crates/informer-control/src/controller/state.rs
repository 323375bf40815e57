//! The lifecycle of a controller, as a pure state machine.
//!
//! ```text
//! Created ──run──▶ Starting ──sources synced──▶ Running ──stop──▶ Stopping ──reconciles ended──▶ Stopped
//!    │                 │ stop, or a source fails     │ a worker fails  │ drain_within: reconciles are cancelled
//!    └──── end ────────┴───────────▶ Stopped ◀───────┘                 └ CANCEL_GRACE: reconciles are dropped
//! ```
//!
//! # Invariants
//!
//! 1. Sources are started once, by the warm-up or by the run.
//! 2. Requests are reconciled only in `Running`: after the initial list of every source and before the stop.
//! 3. The controller ends within `drain_within` and [`CANCEL_GRACE`] after the stop.

use std::time::{Duration, Instant};

use informer_core::deadline::later;

/// How long the reconciles of a stopped controller may take to end after their cancellation token is
/// cancelled. After this time they are dropped.
pub const CANCEL_GRACE: Duration = Duration::from_secs(5);

/// The phase of a controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ControllerPhase {
    /// The controller was not started. Its sources may already run, to fill the caches before the start
    /// (warm-up).
    Created,
    /// The controller waits for its sources to sync.
    Starting,
    /// The controller's workers reconcile requests.
    Running,
    /// The controller starts no more reconciles and waits for the running ones.
    Stopping,
    /// The controller has ended, and its reconciles have ended or were dropped.
    Stopped,
}

/// The result of [`ControllerLifecycle::start_sources`], which says whether the caller must start the sources
/// of the controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SourceStart {
    /// The caller must start the sources now, and then call [`ControllerLifecycle::sources_started`] with the
    /// result.
    Start,
    /// The sources of the controller are started and synced.
    Started,
    /// The sources of the controller failed to start or to sync, or their start was abandoned.
    Failed,
}

/// The next step for reconciles that still run after the controller was stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DrainStep {
    /// Cancel the cancellation token of the reconciles that still run.
    Cancel,
    /// Drop the futures of the reconciles that still run.
    Drop,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Created,
    Starting,
    Running,
    Draining { until: Instant },
    Cancelling { until: Instant },
    Dropped,
    Stopped,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sources {
    NotStarted,
    Starting,
    Synced,
    Failed,
}

/// The lifecycle of one controller.
///
/// ```
/// use std::time::Duration;
/// use informer_control::controller::{CANCEL_GRACE, DrainStep, SourceStart, ControllerLifecycle};
///
/// let now = tokio::time::Instant::now().into_std();
/// let mut lifecycle = ControllerLifecycle::new(Duration::from_secs(20));
/// assert!(lifecycle.run() && !lifecycle.run());
/// assert_eq!(lifecycle.start_sources(), SourceStart::Start);
/// assert!(!lifecycle.accepts_requests());
/// lifecycle.sources_started(true);
/// assert!(lifecycle.start_reconciling() && lifecycle.accepts_requests());
///
/// lifecycle.stop(now);
/// assert!(!lifecycle.accepts_requests());
/// assert_eq!(lifecycle.tick(now), None);
/// let late = now + Duration::from_secs(20);
/// assert_eq!(lifecycle.tick(late), Some(DrainStep::Cancel));
/// assert_eq!(lifecycle.tick(late + CANCEL_GRACE), Some(DrainStep::Drop));
/// ```
#[derive(Debug)]
pub struct ControllerLifecycle {
    drain_within: Duration,
    phase: Phase,
    sources: Sources,
}

impl ControllerLifecycle {
    /// Creates the lifecycle of a controller whose reconciles may run for `drain_within` after the stop.
    pub fn new(drain_within: Duration) -> Self {
        Self { drain_within, phase: Phase::Created, sources: Sources::NotStarted }
    }

    /// Returns the current phase of the controller.
    pub fn phase(&self) -> ControllerPhase {
        match self.phase {
            Phase::Created => ControllerPhase::Created,
            Phase::Starting => ControllerPhase::Starting,
            Phase::Running => ControllerPhase::Running,
            Phase::Draining { .. } | Phase::Cancelling { .. } | Phase::Dropped => ControllerPhase::Stopping,
            Phase::Stopped => ControllerPhase::Stopped,
        }
    }

    /// Starts the controller. Returns false if it was started or stopped before.
    pub fn run(&mut self) -> bool {
        let begins = self.phase == Phase::Created;
        if begins {
            self.phase = Phase::Starting;
        }
        begins
    }

    /// Returns whether the caller must start the sources, for the warm-up or the run of the controller. After
    /// [`SourceStart::Start`], call [`sources_started`](Self::sources_started) before the next call, unless
    /// the start is abandoned.
    pub fn start_sources(&mut self) -> SourceStart {
        match self.sources {
            Sources::NotStarted => {
                self.sources = Sources::Starting;
                SourceStart::Start
            }
            Sources::Synced => SourceStart::Started,
            Sources::Starting | Sources::Failed => SourceStart::Failed,
        }
    }

    /// Records the result of starting the sources: `synced` is true if all sources have delivered their
    /// initial list.
    pub fn sources_started(&mut self, synced: bool) {
        self.sources = if synced { Sources::Synced } else { Sources::Failed };
    }

    /// Returns true if [`start_sources`](Self::start_sources) was not called yet.
    pub fn sources_not_started(&self) -> bool {
        self.sources == Sources::NotStarted
    }

    /// Moves the controller to the phase `Running`. Returns false if the sources are not synced or the
    /// controller was not started.
    pub fn start_reconciling(&mut self) -> bool {
        let begins = self.phase == Phase::Starting && self.sources == Sources::Synced;
        if begins {
            self.phase = Phase::Running;
        }
        begins
    }

    /// Returns true while the controller reconciles requests. A request that is handed out at another time is
    /// marked done without a reconcile, because the next run lists all objects again.
    pub fn accepts_requests(&self) -> bool {
        self.phase == Phase::Running
    }

    /// Stops the controller. A running controller waits for its reconciles to end; in any other phase the
    /// controller ends immediately.
    pub fn stop(&mut self, now: Instant) {
        match self.phase {
            Phase::Running => {
                self.phase = Phase::Draining { until: later(now, self.drain_within) };
            }
            Phase::Created | Phase::Starting => self.phase = Phase::Stopped,
            _ => {}
        }
    }

    /// Returns the time at which [`tick`](Self::tick) must be called if reconciles are still running.
    pub fn next_deadline(&self) -> Option<Instant> {
        match self.phase {
            Phase::Draining { until } | Phase::Cancelling { until } => Some(until),
            _ => None,
        }
    }

    /// Returns the step that is due for reconciles that still run after the stop, if there is one. Call it
    /// only while reconciles are running.
    pub fn tick(&mut self, now: Instant) -> Option<DrainStep> {
        match self.phase {
            Phase::Draining { until } if until <= now => {
                self.phase = Phase::Cancelling { until: later(now, CANCEL_GRACE) };
                Some(DrainStep::Cancel)
            }
            Phase::Cancelling { until } if until <= now => {
                self.phase = Phase::Dropped;
                Some(DrainStep::Drop)
            }
            _ => None,
        }
    }

    /// Moves the controller to the phase `Stopped`.
    pub fn end(&mut self) {
        self.phase = Phase::Stopped;
    }
}

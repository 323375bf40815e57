//! The life of a controller, as pure state.
//!
//! ```text
//! Created ──run──▶ Starting ──sources have delivered──▶ Running ──stop──▶ Stopping ──reconciles have ended──▶ Stopped
//!    │                 │ stop, or a source fails           │ a worker fails  │ drain_within: they are told to tidy up
//!    └──── end ────────┴────────────────▶ Stopped ◀────────┘                 └ CANCEL_GRACE: they are dropped
//! ```
//!
//! # Invariants
//!
//! 1. Sources are started once, by the warm-up or by the run.
//! 2. Requests are worked on only while it runs: not before every source has delivered what was there at the beginning, and not after
//!    the stop.
//! 3. It ends within `drain_within` and [`CANCEL_GRACE`] after the stop.

use std::time::{Duration, Instant};

use informer_core::deadline::later;

/// How long reconciles may take to end after they were told to tidy up.
pub const CANCEL_GRACE: Duration = Duration::from_secs(5);

/// Where a controller is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ControllerPhase {
    /// It has not started; its sources may have, to warm up.
    Created,
    /// It waits for its sources.
    Starting,
    /// It reconciles.
    Running,
    /// It ends its reconciles.
    Stopping,
    /// It has ended.
    Stopped,
}

/// What is to be done with the sources.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Feeding {
    /// They are to be started now, and [`LifeState::fed`] is to be told how that ended.
    Start,
    /// They have delivered.
    Started,
    /// They were started, and failed or were given up.
    Failed,
}

/// What is to be done with the reconciles that go on after the stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Drain {
    /// They are told to tidy up.
    Cancel,
    /// They are dropped.
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

/// The life of one controller.
///
/// ```
/// use std::time::Duration;
/// use informer_control::controller::{CANCEL_GRACE, Drain, Feeding, LifeState};
///
/// let now = tokio::time::Instant::now().into_std();
/// let mut life = LifeState::new(Duration::from_secs(20));
/// assert!(life.run() && !life.run());
/// assert_eq!(life.feed(), Feeding::Start);
/// assert!(!life.takes_requests());
/// life.fed(true);
/// assert!(life.work() && life.takes_requests());
///
/// life.stop(now);
/// assert!(!life.takes_requests());
/// assert_eq!(life.tick(now), None);
/// let late = now + Duration::from_secs(20);
/// assert_eq!(life.tick(late), Some(Drain::Cancel));
/// assert_eq!(life.tick(late + CANCEL_GRACE), Some(Drain::Drop));
/// ```
#[derive(Debug)]
pub struct LifeState {
    drain_within: Duration,
    phase: Phase,
    /// Nothing, until they are to be started; then how that ended, if it has.
    feeding: Option<Option<bool>>,
}

impl LifeState {
    /// Of a controller whose reconciles may go on for so long after the stop.
    pub fn new(drain_within: Duration) -> Self {
        Self { drain_within, phase: Phase::Created, feeding: None }
    }

    /// Where it is.
    pub fn phase(&self) -> ControllerPhase {
        match self.phase {
            Phase::Created => ControllerPhase::Created,
            Phase::Starting => ControllerPhase::Starting,
            Phase::Running => ControllerPhase::Running,
            Phase::Draining { .. } | Phase::Cancelling { .. } | Phase::Dropped => ControllerPhase::Stopping,
            Phase::Stopped => ControllerPhase::Stopped,
        }
    }

    /// It is to run. False where it was told before.
    pub fn run(&mut self) -> bool {
        let begins = self.phase == Phase::Created;
        if begins {
            self.phase = Phase::Starting;
        }
        begins
    }

    /// Somebody wants the sources: the warm-up, or the run. Not to be asked while whoever was told to start them has not said how that
    /// ended, unless he has given up.
    pub fn feed(&mut self) -> Feeding {
        match self.feeding {
            None => {
                self.feeding = Some(None);
                Feeding::Start
            }
            Some(Some(true)) => Feeding::Started,
            Some(None | Some(false)) => Feeding::Failed,
        }
    }

    /// The sources were started, and have delivered or failed.
    pub fn fed(&mut self, delivered: bool) {
        self.feeding = Some(Some(delivered));
    }

    /// True until somebody wants the sources.
    pub fn is_unfed(&self) -> bool {
        self.feeding.is_none()
    }

    /// It is to reconcile. False where it may not: its sources have not delivered, or it does not start.
    pub fn work(&mut self) -> bool {
        let begins = self.phase == Phase::Starting && self.feeding == Some(Some(true));
        if begins {
            self.phase = Phase::Running;
        }
        begins
    }

    /// True while requests are worked on. What is handed out at another time is done with, unseen: whoever runs next looks at everything
    /// anyway.
    pub fn takes_requests(&self) -> bool {
        self.phase == Phase::Running
    }

    /// It is told to stop: what does not run ends at once, what runs is drained.
    pub fn stop(&mut self, now: Instant) {
        match self.phase {
            Phase::Running => {
                self.phase = Phase::Draining { until: later(now, self.drain_within) };
            }
            Phase::Created | Phase::Starting => self.phase = Phase::Stopped,
            _ => {}
        }
    }

    /// When [`tick`](Self::tick) has to be called, unless the reconciles end before.
    pub fn next_deadline(&self) -> Option<Instant> {
        match self.phase {
            Phase::Draining { until } | Phase::Cancelling { until } => Some(until),
            _ => None,
        }
    }

    /// Time has passed, and reconciles go on.
    pub fn tick(&mut self, now: Instant) -> Option<Drain> {
        match self.phase {
            Phase::Draining { until } if until <= now => {
                self.phase = Phase::Cancelling { until: later(now, CANCEL_GRACE) };
                Some(Drain::Cancel)
            }
            Phase::Cancelling { until } if until <= now => {
                self.phase = Phase::Dropped;
                Some(Drain::Drop)
            }
            _ => None,
        }
    }

    /// It is over.
    pub fn end(&mut self) {
        self.phase = Phase::Stopped;
    }
}

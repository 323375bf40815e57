//! The theme of a schedule: the part of the system on which it concentrates. A defect that needs several
//! rare steps is found much sooner by schedules whose steps and faults mostly concern one part.

use crate::fault::Fault;
use crate::random::Random;
use crate::script::Verb;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Theme {
    /// All parts of the system with equal frequency, and any fault.
    Everything,
    /// Requests of the reflector, and the responses to them.
    Requests,
    /// Events of watches and the history of the server.
    Events,
    /// Backups, restores, and objects that cannot be decoded, with few writes in between.
    Restores,
    /// Handlers, the work queue and the controller.
    Users,
    Election,
}

/// The verbs of steps, and how often each is drawn.
type Weights = &'static [(Verb, usize)];

impl Theme {
    pub(crate) fn draw(random: &mut Random) -> Self {
        match random.below(12) {
            0..4 => Self::Everything,
            4 | 5 => Self::Requests,
            6 => Self::Events,
            7 => Self::Restores,
            8 | 9 => Self::Users,
            _ => Self::Election,
        }
    }

    fn weights(self) -> Weights {
        match self {
            Self::Everything => &[
                (Verb::Write, 20),
                (Verb::Burst, 2),
                (Verb::Recreate, 3),
                (Verb::Relabel, 2),
                (Verb::BackUp, 1),
                (Verb::Reflect, 32),
                (Verb::Pump, 14),
                (Verb::Handle, 13),
                (Verb::Work, 9),
                (Verb::Wait, 4),
                (Verb::Elect, 10),
            ],
            Self::Requests => &[
                (Verb::Write, 5),
                (Verb::Burst, 1),
                (Verb::BackUp, 1),
                (Verb::Reflect, 60),
                (Verb::Pump, 10),
                (Verb::Handle, 4),
                (Verb::Wait, 10),
            ],
            Self::Events => &[
                (Verb::Write, 20),
                (Verb::Burst, 6),
                (Verb::Recreate, 6),
                (Verb::Relabel, 2),
                (Verb::BackUp, 4),
                (Verb::Reflect, 40),
                (Verb::Pump, 14),
                (Verb::Handle, 5),
                (Verb::Wait, 2),
            ],
            Self::Restores => &[
                (Verb::Write, 12),
                (Verb::Recreate, 2),
                (Verb::Relabel, 1),
                (Verb::BackUp, 10),
                (Verb::Reflect, 50),
                (Verb::Pump, 20),
                (Verb::Handle, 3),
                (Verb::Wait, 4),
            ],
            Self::Users => &[
                (Verb::Write, 16),
                (Verb::Burst, 6),
                (Verb::Recreate, 2),
                (Verb::Reflect, 20),
                (Verb::Pump, 14),
                (Verb::Handle, 20),
                (Verb::Work, 30),
                (Verb::Wait, 3),
            ],
            Self::Election => &[(Verb::Elect, 9), (Verb::Wait, 1)],
        }
    }

    pub(crate) fn verb(self, random: &mut Random) -> Verb {
        let weights = self.weights();
        let mut left = random.below(weights.iter().map(|(_, weight)| weight).sum());
        for (verb, weight) in weights {
            match left.checked_sub(*weight) {
                Some(rest) => left = rest,
                None => return *verb,
            }
        }
        Verb::Wait
    }

    pub(crate) fn count(self) -> std::ops::Range<usize> {
        match self {
            Self::Everything => 4..9,
            Self::Restores => 12..24,
            _ => 6..15,
        }
    }

    pub(crate) fn faults(self) -> Vec<Fault> {
        Fault::ALL.iter().copied().filter(|fault| self.has(*fault)).collect()
    }

    fn has(self, fault: Fault) -> bool {
        use Fault::{
            Compaction, ControllerRestarts, Down, EventsReplayed, ExpiredEvent, HandlerJoins, HandlerLeaves,
            HandlerPanics, HandlerStuck, HeldUp, InformerRestarts, ReflectorReplaced, RelistRequested,
            ReplicaLags, Restart, Restore, Rewind, Streaming, Unreadable, VersionJump, Wiped,
            WorkerCancelled, WorkerFails, WorkerFailsForGood, WorkerPanics, WorkerTimesOut,
        };
        match self {
            Self::Everything => true,
            Self::Requests => {
                fault.is_of_request()
                    || matches!(
                        fault,
                        Compaction
                            | Down
                            | ExpiredEvent
                            | HeldUp
                            | InformerRestarts
                            | ReflectorReplaced
                            | RelistRequested
                            | Streaming
                            | Wiped
                    )
            }
            Self::Events => {
                fault.is_of_stream()
                    || matches!(
                        fault,
                        Compaction
                            | ReflectorReplaced
                            | ReplicaLags
                            | RelistRequested
                            | Restart
                            | Restore
                            | Rewind
                            | Unreadable
                            | VersionJump
                            | Wiped
                    )
            }
            Self::Restores => matches!(
                fault,
                InformerRestarts | ReflectorReplaced | RelistRequested | Restore | Rewind | Unreadable
            ),
            Self::Users => matches!(
                fault,
                ControllerRestarts
                    | EventsReplayed
                    | HandlerJoins
                    | HandlerLeaves
                    | HandlerPanics
                    | HandlerStuck
                    | InformerRestarts
                    | RelistRequested
                    | Rewind
                    | Unreadable
                    | WorkerCancelled
                    | WorkerFails
                    | WorkerFailsForGood
                    | WorkerPanics
                    | WorkerTimesOut
            ),
            Self::Election => fault.is_of_election(),
        }
    }
}

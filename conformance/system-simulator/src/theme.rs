//! The theme of a scenario: the part of the system on which it concentrates. A defect that needs a
//! combination of rare steps is found much sooner by scenarios whose faults and objects mostly concern one
//! part.

use informer_simulator::Random;

use crate::fault::Fault;
use crate::sample::NAMESPACES;
use crate::scenario::{KINDS, ProgramSetup, Representation, Scope, Selected, Target};

/// The themes of scenarios, each with its own frequencies of faults and objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Theme {
    /// All parts of the system with equal frequency, and any fault.
    Everything,
    /// Outages of the server that last for minutes.
    Outages,
    /// Restores of the server to an earlier state, with writes that informers have not seen.
    Restores,
    /// Relists and deletions of objects that are transformed before they are cached.
    Transforms,
    /// Handlers of several informers that hang, panic and are removed.
    Handlers,
    /// Objects whose decoding panics.
    Decoders,
    /// Defaulting and validating webhooks, which sometimes do not work.
    Webhooks,
}

/// The index of the kind `Fruit`, whose decoder can panic.
const FRUIT: usize = 3;

impl Theme {
    pub(crate) fn draw(random: &mut Random) -> Self {
        match random.below(14) {
            0..4 => Self::Everything,
            4 => Self::Outages,
            5 | 6 => Self::Restores,
            7 | 8 => Self::Transforms,
            9 => Self::Handlers,
            10 | 11 => Self::Decoders,
            _ => Self::Webhooks,
        }
    }

    /// Returns the average number of faults in 40 steps. It is drawn at random.
    pub(crate) fn troubled(self, random: &mut Random) -> usize {
        match self {
            Self::Everything => random.between(2, 8),
            _ => random.between(5, 10),
        }
    }

    /// Returns true if scenarios of this theme may also run replicas of an operator.
    pub(crate) fn has_replicas(self) -> bool {
        self == Self::Everything
    }

    pub(crate) fn adapt(self, setup: &mut ProgramSetup) {
        match self {
            Self::Everything | Self::Outages | Self::Restores | Self::Webhooks => {}
            Self::Transforms => {
                setup.transformed = true;
                setup.kinds.iter_mut().for_each(|kind| kind.representation = Representation::Lazy);
            }
            Self::Handlers => setup.scope = Scope::Namespaces(2),
            Self::Decoders => {
                let fruit = &mut setup.kinds[FRUIT];
                fruit.selected = Selected::All;
                if !matches!(fruit.representation, Representation::Typed | Representation::Lazy) {
                    fruit.representation = Representation::Typed;
                }
            }
        }
    }

    pub(crate) fn target(self, random: &mut Random) -> Target {
        let all: [usize; KINDS] = std::array::from_fn(|kind| kind);
        match self {
            Self::Handlers => Target::draw(&all, 2, random),
            Self::Decoders => Target::draw(&[FRUIT, FRUIT, FRUIT, 0, 1, 2], NAMESPACES.len(), random),
            _ => Target::draw(&all, NAMESPACES.len(), random),
        }
    }

    pub(crate) fn faults(self) -> &'static [Fault] {
        match self {
            Self::Everything => &Fault::ALL,
            Self::Outages => &[
                Fault::Outage,
                Fault::Outage,
                Fault::Unreachable,
                Fault::Restart,
                Fault::Compaction,
                Fault::TooMany,
                Fault::Unavailable,
                Fault::InternalError,
                Fault::NoResponse,
            ],
            Self::Restores => &[
                Fault::Rewind,
                Fault::RestoreOfUnseenWrites,
                Fault::RestoreOfUnseenWrites,
                Fault::WatchStalls,
                Fault::WatchLags,
                Fault::NoBookmarks,
                Fault::WatchEnds,
                Fault::VersionJump,
                Fault::Restart,
            ],
            Self::Transforms => &[
                Fault::Compaction,
                Fault::WatchExpires,
                Fault::Expired,
                Fault::StreamingRefused,
                Fault::NoInitialEnd,
                Fault::ListBreaks,
                Fault::Restart,
                Fault::Rewind,
            ],
            Self::Handlers => &[
                Fault::HandlerHangs,
                Fault::HandlerPanics,
                Fault::HandlerRemoved,
                Fault::HandlerRemovedInCall,
                Fault::HandlerRemovedInCall,
                Fault::Compaction,
                Fault::Restart,
                Fault::WatchEnds,
            ],
            Self::Decoders => &[
                Fault::DecoderPanics,
                Fault::DecoderPanics,
                Fault::DecoderPanics,
                Fault::Compaction,
                Fault::WatchExpires,
                Fault::ListBreaks,
                Fault::Restart,
                Fault::WatchEnds,
            ],
            Self::Webhooks => &[
                Fault::WebhooksFail,
                Fault::WebhooksFail,
                Fault::WebhooksFail,
                Fault::ResponseLost,
                Fault::FalseResponse,
                Fault::Delayed,
                Fault::Restart,
                Fault::Rewind,
            ],
        }
    }
}

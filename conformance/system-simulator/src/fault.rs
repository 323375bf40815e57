//! The faults that a scenario injects.

use informer_apiserver::{FaultAction, FaultMatch, Verb};
use informer_simulator::Random;

use crate::cluster::{Cluster, of_programs};

/// The faults of the system simulator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The server ends watches properly.
    WatchEnds,
    /// The connections of watches are reset.
    WatchResets,
    /// Watches send nothing any more, while their connections stay open.
    WatchStalls,
    /// Watches end in the middle of an event.
    HalfFrame,
    /// A watch sends bytes that are not an event.
    Garbage,
    /// A watch sends an error event with status 410.
    WatchExpires,
    /// A watch sends an error event with another status.
    WatchError,
    /// Watches send their events with a delay.
    WatchLags,
    /// Watches send no bookmarks.
    NoBookmarks,
    /// The bytes of responses arrive slowly.
    Trickle,
    /// The responses to lists are cut off.
    ListBreaks,
    /// The server rejects streaming lists.
    StreamingRefused,
    /// A streaming list does not send the bookmark that ends the initial events.
    NoInitialEnd,
    /// Requests are rejected with status 410.
    Expired,
    /// Requests are rejected with status 429, with or without `Retry-After`.
    TooMany,
    /// Requests are rejected with status 500.
    InternalError,
    /// Requests are rejected with status 503.
    Unavailable,
    /// Requests are rejected with status 403.
    Forbidden,
    /// Requests never get a response.
    NoResponse,
    /// Responses are delayed by some time.
    Delayed,
    /// Writes are applied, but their responses are lost.
    ResponseLost,
    /// Writes are applied, but the response is an error.
    FalseResponse,
    /// The server is unreachable for some time.
    Unreachable,
    /// The server is unreachable for some minutes.
    Outage,
    /// The server restarts: open watches end.
    Restart,
    /// The history is compacted and open watches end.
    Compaction,
    /// The resource versions of the server jump ahead.
    VersionJump,
    /// The server is restored to an earlier state, including its resource versions.
    Rewind,
    /// The server is restored to an earlier state, at a time when caches have not received the last writes of
    /// their programs.
    RestoreOfUnseenWrites,
    /// A handler of a program hangs for some time.
    HandlerHangs,
    /// A handler of a program panics.
    HandlerPanics,
    /// A handler of a program is removed.
    HandlerRemoved,
    /// A handler is removed while one of its calls is running and others are waiting.
    HandlerRemovedInCall,
    /// An object is stored whose decoding by the programs panics.
    DecoderPanics,
    /// The webhooks fail, hang or respond late for some time.
    WebhooksFail,
    /// A replica of the operator is killed and restarted.
    ReplicaKilled,
    /// An object that a controller owns is deleted.
    OwnedDeleted,
}

impl Fault {
    /// All faults, in the order of declaration.
    pub const ALL: [Self; 37] = [
        Self::WatchEnds,
        Self::WatchResets,
        Self::WatchStalls,
        Self::HalfFrame,
        Self::Garbage,
        Self::WatchExpires,
        Self::WatchError,
        Self::WatchLags,
        Self::NoBookmarks,
        Self::Trickle,
        Self::ListBreaks,
        Self::StreamingRefused,
        Self::NoInitialEnd,
        Self::Expired,
        Self::TooMany,
        Self::InternalError,
        Self::Unavailable,
        Self::Forbidden,
        Self::NoResponse,
        Self::Delayed,
        Self::ResponseLost,
        Self::FalseResponse,
        Self::Unreachable,
        Self::Outage,
        Self::Restart,
        Self::Compaction,
        Self::VersionJump,
        Self::Rewind,
        Self::RestoreOfUnseenWrites,
        Self::HandlerHangs,
        Self::HandlerPanics,
        Self::HandlerRemoved,
        Self::HandlerRemovedInCall,
        Self::DecoderPanics,
        Self::WebhooksFail,
        Self::ReplicaKilled,
        Self::OwnedDeleted,
    ];

    /// Returns the name of the fault in statistics, for example `watch-ends`.
    pub fn name(self) -> String {
        let mut name = String::new();
        for letter in format!("{self:?}").chars() {
            if letter.is_ascii_uppercase() && !name.is_empty() {
                name.push('-');
            }
            name.push(letter.to_ascii_lowercase());
        }
        name
    }

    /// If this is a fault of requests, returns the verbs of the affected requests, and what the server does
    /// with them.
    fn of_requests(self, random: &mut Random) -> Option<(&'static [Verb], FaultAction)> {
        const WATCH: &[Verb] = &[Verb::Watch];
        const LIST: &[Verb] = &[Verb::List];
        const ALL: &[Verb] =
            &[Verb::Watch, Verb::List, Verb::Get, Verb::Create, Verb::Update, Verb::Patch, Verb::Delete];
        const WRITES: &[Verb] = &[Verb::Create, Verb::Update, Verb::Patch, Verb::Delete];
        let after_events = random.below(3) as u64;
        let status = |code: u16, retry_after: Option<u32>| FaultAction::Status {
            code,
            reason: None,
            message: None,
            retry_after,
            body: None,
        };
        let cut = |abrupt| FaultAction::Cut { after_events: Some(after_events), after_bytes: None, abrupt };
        Some(match self {
            Self::WatchEnds => (WATCH, cut(false)),
            Self::WatchResets => (WATCH, cut(true)),
            Self::WatchStalls => {
                (WATCH, FaultAction::Stall { after_events: Some(after_events), after_bytes: None })
            }
            Self::HalfFrame => (WATCH, FaultAction::HalfFrame { after_events }),
            Self::Garbage => (WATCH, FaultAction::Garbage { after_events }),
            Self::WatchExpires => (WATCH, FaultAction::Expire { after_events }),
            Self::WatchError => {
                let code = random.pick(&[429, 500, 504]);
                let (reason, message, retry_after) = (None, None, None);
                (WATCH, FaultAction::ErrorEvent { after_events, code, reason, message, retry_after })
            }
            Self::WatchLags => (WATCH, FaultAction::Lag { millis: random.between(1, 4000) as u64 }),
            Self::NoBookmarks => (WATCH, FaultAction::DropBookmarks),
            Self::Trickle => (WATCH, FaultAction::Trickle { bytes: 64, millis: 5 }),
            Self::ListBreaks => {
                let after_bytes = Some(random.between(1, 2000) as u64);
                (LIST, FaultAction::Cut { after_events: None, after_bytes, abrupt: random.one_in(2) })
            }
            Self::StreamingRefused => (WATCH, FaultAction::RejectInitialEvents),
            Self::NoInitialEnd => (WATCH, FaultAction::NoInitialEnd),
            Self::Expired => (LIST, FaultAction::Expire { after_events: 0 }),
            Self::TooMany => (ALL, status(429, random.pick(&[None, Some(0), Some(1), Some(7)]))),
            Self::InternalError => (ALL, status(500, None)),
            Self::Unavailable => (ALL, status(503, None)),
            Self::Forbidden => (&[Verb::Watch, Verb::List], status(403, None)),
            Self::NoResponse => (ALL, FaultAction::NeverAnswer),
            Self::Delayed => (ALL, FaultAction::Delay { millis: random.between(1, 20_000) as u64 }),
            Self::ResponseLost => (WRITES, FaultAction::LostAnswer),
            Self::FalseResponse => {
                let (reason, message, retry_after) = (None, None, None);
                (WRITES, FaultAction::FalseStatus { code: 500, reason, message, retry_after })
            }
            _ => return None,
        })
    }

    /// Injects a fault of requests into the server. Returns false if this is another kind of fault.
    pub(crate) fn inject(self, cluster: &Cluster, random: &mut Random) -> bool {
        let Some((verbs, action)) = self.of_requests(random) else { return false };
        let times = random.between(1, 6) as u64;
        for &verb in verbs {
            let matching = of_programs(FaultMatch::verb(verb));
            cluster.server().faults().on(matching).times(times).then(action.clone());
        }
        true
    }
}

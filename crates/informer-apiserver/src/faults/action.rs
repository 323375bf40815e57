//! What can go wrong with a request.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What happens to a request.
///
/// Events are counted without bookmarks; `afterEvents: 0` is before the first one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", deny_unknown_fields)]
#[non_exhaustive]
pub enum FaultAction {
    /// Answered with this status and nothing done.
    Status {
        /// The HTTP status code.
        code: u16,
        /// The reason; by default that of the code.
        #[serde(default)]
        reason: Option<String>,
        /// The message; by default a general one.
        #[serde(default)]
        message: Option<String>,
        /// Seconds, as header and in the details.
        #[serde(default)]
        retry_after: Option<u32>,
        /// This text instead of a Status.
        #[serde(default)]
        body: Option<String>,
    },
    /// 410: an ERROR event in a watch, the status of anything else.
    Expire {
        /// Events before it.
        #[serde(default)]
        after_events: u64,
    },
    /// The body ends.
    Cut {
        /// After so many events of a watch.
        #[serde(default)]
        after_events: Option<u64>,
        /// After so many bytes.
        #[serde(default)]
        after_bytes: Option<u64>,
        /// By a reset of the connection (or HTTP/2 stream) instead of a proper end.
        #[serde(default)]
        abrupt: bool,
    },
    /// The body falls silent, with its connection open.
    Stall {
        /// After so many events of a watch.
        #[serde(default)]
        after_events: Option<u64>,
        /// After so many bytes.
        #[serde(default)]
        after_bytes: Option<u64>,
    },
    /// Everything about the answer comes later.
    Delay {
        /// By so many milliseconds.
        millis: u64,
    },
    /// No bookmark is sent but the one that ends the initial events.
    DropBookmarks,
    /// The bookmark that ends the initial events is not sent.
    NoInitialEnd,
    /// A state of the past: reads answer it, watches repeat what came after it.
    Rewind {
        /// By so many versions.
        by: u64,
    },
    /// A line that is not JSON.
    Garbage {
        /// Events before it.
        #[serde(default)]
        after_events: u64,
    },
    /// Half of the next event's line, and then a proper end.
    HalfFrame {
        /// Events before it.
        #[serde(default)]
        after_events: u64,
    },
    /// An event of a type that does not exist.
    UnknownEvent {
        /// Events before it.
        #[serde(default)]
        after_events: u64,
    },
    /// Streaming lists are refused with 422.
    RejectInitialEvents,
    /// `sendInitialEvents` is ignored, as by a server that does not know it.
    IgnoreInitialEvents,
    /// No answer ever comes.
    NeverAnswer,
    /// 504, the version is too large: an ERROR event in a watch, the status of anything else.
    TooLarge,
    /// An ERROR event with this status, worded as upstream words it where it does; nothing follows it.
    ErrorEvent {
        /// Events before it.
        #[serde(default)]
        after_events: u64,
        /// The code of its status.
        code: u16,
        /// The reason; by default that of the code.
        #[serde(default)]
        reason: Option<String>,
        /// The message; by default a general one.
        #[serde(default)]
        message: Option<String>,
        /// Seconds, in the details.
        #[serde(default)]
        retry_after: Option<u32>,
    },
    /// An event of the test's own making: of another kind, without metadata or version, huge. One of type `ERROR` is
    /// the last. Where a watch is answered as protobuf, an object that has none goes as its line of JSON.
    Event {
        /// Events before it.
        #[serde(default)]
        after_events: u64,
        /// Its type, as `MODIFIED`.
        r#type: String,
        /// Its object, which may be anything.
        #[serde(default)]
        object: Value,
    },
    /// The next event is not sent. No server that keeps its contract does this.
    SkipEvent {
        /// Events before it.
        #[serde(default)]
        after_events: u64,
    },
    /// The next event is sent twice. No server that keeps its contract does this.
    RepeatEvent {
        /// Events before it.
        #[serde(default)]
        after_events: u64,
    },
    /// The next two events are sent in the other order. No server that keeps its contract does this.
    SwapEvents {
        /// Events before them.
        #[serde(default)]
        after_events: u64,
    },
    /// Each bookmark is sent twice, the one that ends the initial events too.
    RepeatBookmarks,
    /// Bookmarks are of an older version than the events before them.
    OldBookmarks {
        /// By so many versions.
        by: u64,
    },
    /// The initial events come in some order. No server that keeps its contract does this.
    ShuffleInitial {
        /// Where the draws begin.
        #[serde(default)]
        seed: u64,
    },
    /// Everything that a watch tells comes later, while writes are acknowledged at once.
    Lag {
        /// By so many milliseconds.
        millis: u64,
    },
    /// A watch ends properly so long after it began.
    Lifetime {
        /// Milliseconds.
        millis: u64,
    },
    /// The body comes in drops.
    Trickle {
        /// Bytes of each.
        bytes: u32,
        /// Milliseconds before each.
        millis: u64,
    },
    /// Carried out, and then answered with this status all the same.
    FalseStatus {
        /// The HTTP status code.
        code: u16,
        /// The reason; by default that of the code.
        #[serde(default)]
        reason: Option<String>,
        /// The message; by default a general one.
        #[serde(default)]
        message: Option<String>,
        /// Seconds, as header and in the details.
        #[serde(default)]
        retry_after: Option<u32>,
    },
    /// Carried out, and then the connection (or HTTP/2 stream) is reset in place of the answer.
    LostAnswer,
    /// Carried out at once, and answered later.
    LateAnswer {
        /// By so many milliseconds.
        millis: u64,
    },
    /// The connection takes no more requests: GOAWAY over HTTP/2, `Connection: close` over HTTP/1.1. What is under way
    /// on it goes on.
    GoAway,
    /// A page has fewer items than were asked for, and a token to go on with.
    ShortPage {
        /// At most so many; an empty page for 0.
        items: u64,
    },
    /// `limit` is ignored: the whole list in one page.
    IgnoreLimit,
    /// `remainingItemCount` is wrong.
    RemainingItems {
        /// What it says; absent by default.
        #[serde(default)]
        count: Option<u64>,
    },
}

impl FaultAction {
    /// True for what can still happen to a watch after it began.
    pub(super) fn is_within_a_watch(&self) -> bool {
        match self {
            Self::Expire { .. }
            | Self::Garbage { .. }
            | Self::HalfFrame { .. }
            | Self::UnknownEvent { .. }
            | Self::ErrorEvent { .. }
            | Self::Event { .. }
            | Self::SkipEvent { .. }
            | Self::RepeatEvent { .. }
            | Self::SwapEvents { .. }
            | Self::DropBookmarks
            | Self::RepeatBookmarks
            | Self::OldBookmarks { .. }
            | Self::Lag { .. } => true,
            Self::Cut { after_bytes, .. } | Self::Stall { after_bytes, .. } => after_bytes.is_none(),
            _ => false,
        }
    }
}

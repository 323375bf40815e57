use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A fault to inject into a request.
///
/// `after_events` counts the events of a watch, but not its bookmarks; 0 means before the first event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", deny_unknown_fields)]
#[non_exhaustive]
pub enum FaultAction {
    /// Responds with this status without executing the request.
    Status {
        /// The HTTP status code.
        code: u16,
        /// The `reason` of the Status; defaults to the one that kube-apiserver uses for the code.
        #[serde(default)]
        reason: Option<String>,
        /// The `message` of the Status; defaults to a generic one for the code.
        #[serde(default)]
        message: Option<String>,
        /// Seconds in the `Retry-After` header and in `details.retryAfterSeconds`.
        #[serde(default)]
        retry_after: Option<u32>,
        /// A raw response body that replaces the Status object.
        #[serde(default)]
        body: Option<String>,
    },
    /// Fails with 410 Expired: as an ERROR event of a watch, or as the status of any other response.
    Expire {
        /// Number of watch events that are sent before the error.
        #[serde(default)]
        after_events: u64,
    },
    /// Ends the response body early. Without `after_events` and `after_bytes` it ends before the first byte,
    /// or immediately on an open watch.
    Cut {
        /// Ends the response body after this number of watch events. Takes precedence over `after_bytes`.
        #[serde(default)]
        after_events: Option<u64>,
        /// Ends the response body after this number of bytes.
        #[serde(default)]
        after_bytes: Option<u64>,
        /// Resets the connection (or the HTTP/2 stream) instead of ending the response body normally.
        #[serde(default)]
        abrupt: bool,
    },
    /// Stops sending the response body and keeps the connection open. Without `after_events` and
    /// `after_bytes` it stops before the first byte, or immediately on an open watch.
    Stall {
        /// Stalls the response body after this number of watch events. Takes precedence over `after_bytes`.
        #[serde(default)]
        after_events: Option<u64>,
        /// Stalls the response body after this number of bytes.
        #[serde(default)]
        after_bytes: Option<u64>,
    },
    /// Delays the request before it is executed.
    Delay {
        /// The delay in milliseconds.
        millis: u64,
    },
    /// Sends no bookmarks on a watch, except the one that ends the initial events.
    DropBookmarks,
    /// Does not send the bookmark that ends the initial events of a streaming list.
    NoInitialEnd,
    /// Reads return a past state, and watches replay the events since then.
    Rewind {
        /// How far back: reads return the state this many resourceVersions before the current one, and
        /// watches start this many before the requested one. Neither goes back further than the history of
        /// the server.
        by: u64,
    },
    /// Sends a line that is not JSON on a watch.
    Garbage {
        /// Number of watch events that are sent before the invalid line.
        #[serde(default)]
        after_events: u64,
    },
    /// Sends half of a watch event, then ends the watch normally.
    HalfFrame {
        /// Number of watch events that are sent before the truncated one.
        #[serde(default)]
        after_events: u64,
    },
    /// Sends a watch event of an unknown type.
    UnknownEvent {
        /// Number of watch events that are sent before the unknown one.
        #[serde(default)]
        after_events: u64,
    },
    /// Rejects streaming lists (`sendInitialEvents=true`) with 422, as a server without the `WatchList`
    /// feature does.
    RejectInitialEvents,
    /// Ignores `sendInitialEvents`, as a server does that does not know the parameter.
    IgnoreInitialEvents,
    /// Never responds.
    NeverAnswer,
    /// Fails with 504 "Too large resource version": as an ERROR event of a watch, or as the status of any
    /// other response.
    TooLarge,
    /// Sends an ERROR event with this status, then ends the watch.
    ErrorEvent {
        /// Number of watch events that are sent before the ERROR event.
        #[serde(default)]
        after_events: u64,
        /// The code of the status.
        code: u16,
        /// The `reason` of the Status; defaults to the one of the code.
        #[serde(default)]
        reason: Option<String>,
        /// The `message` of the Status; defaults to a generic one for the code.
        #[serde(default)]
        message: Option<String>,
        /// Seconds in `details.retryAfterSeconds`.
        #[serde(default)]
        retry_after: Option<u32>,
    },
    /// Sends a custom watch event, for example with an object of another kind, without metadata or
    /// resourceVersion, or with a huge object.
    ///
    /// An event of type `ERROR` ends the watch. On a protobuf watch, an object without a protobuf encoding is
    /// sent as a JSON line.
    Event {
        /// Number of watch events that are sent before the custom one.
        #[serde(default)]
        after_events: u64,
        /// The type of the custom event, for example `MODIFIED`.
        r#type: String,
        /// The object: any JSON value.
        #[serde(default)]
        object: Value,
    },
    /// Does not send one watch event. This violates the watch contract.
    SkipEvent {
        /// Number of watch events that are sent before the dropped one.
        #[serde(default)]
        after_events: u64,
    },
    /// Sends one watch event twice. This violates the watch contract.
    RepeatEvent {
        /// Number of watch events that are sent before the repeated one.
        #[serde(default)]
        after_events: u64,
    },
    /// Swaps two consecutive watch events. This violates the watch contract.
    SwapEvents {
        /// Number of watch events that are sent before the swapped ones.
        #[serde(default)]
        after_events: u64,
    },
    /// Sends each bookmark twice, including the one that ends the initial events.
    RepeatBookmarks,
    /// Sends bookmarks whose resourceVersion is older than that of the events before them.
    OldBookmarks {
        /// The number by which the resourceVersion of each bookmark is reduced.
        by: u64,
    },
    /// Shuffles the initial events of a streaming list. This violates the watch contract.
    ShuffleInitial {
        /// The seed of the random order.
        #[serde(default)]
        seed: u64,
    },
    /// Delays all events of a watch. Writes are still acknowledged without delay.
    Lag {
        /// The delay in milliseconds.
        millis: u64,
    },
    /// Ends a watch normally when this time has passed since its start.
    Lifetime {
        /// The time in milliseconds.
        millis: u64,
    },
    /// Sends the response body in small chunks with pauses between them.
    Trickle {
        /// Number of bytes of each chunk, at least one.
        bytes: u32,
        /// Milliseconds before each chunk.
        millis: u64,
    },
    /// Executes the request, but responds with this status instead of the real response.
    FalseStatus {
        /// The HTTP status code.
        code: u16,
        /// The `reason` of the Status; defaults to the one that kube-apiserver uses for the code.
        #[serde(default)]
        reason: Option<String>,
        /// The `message` of the Status; defaults to a generic one for the code.
        #[serde(default)]
        message: Option<String>,
        /// Seconds in the `Retry-After` header and in `details.retryAfterSeconds`.
        #[serde(default)]
        retry_after: Option<u32>,
    },
    /// Executes the request, then resets the connection (or the HTTP/2 stream) instead of responding.
    LostAnswer,
    /// Executes the request immediately, but delays the response.
    LateAnswer {
        /// The delay in milliseconds.
        millis: u64,
    },
    /// Closes the connection for further requests: GOAWAY over HTTP/2, `Connection: close` over HTTP/1.1.
    /// Requests in flight continue.
    GoAway,
    /// Returns fewer list items per page than requested, with a continue token.
    ShortPage {
        /// Maximum number of items of a page; 0 returns an empty page.
        items: u64,
    },
    /// Ignores `limit` of a list request and returns the whole list in one page.
    IgnoreLimit,
    /// Returns a wrong `remainingItemCount`.
    RemainingItems {
        /// The value of `remainingItemCount`; without a value the field is left out.
        #[serde(default)]
        count: Option<u64>,
    },
}

impl FaultAction {
    pub(super) fn applies_to_open_watch(&self) -> bool {
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

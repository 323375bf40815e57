/// Declares the faults of schedules, with their names in scripts, statistics and timelines.
macro_rules! faults {
    ($($(#[doc = $doc:literal])* $name:ident $word:literal,)*) => {
        /// The faults of the informer's simulator.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Fault {
            $($(#[doc = $doc])* $name,)*
        }

        impl Fault {
            /// All faults, in the order of declaration.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// Returns the name of the fault in scripts and statistics.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $word,)*
                }
            }
        }
    };
}

faults! {
    // The following faults change the response to the next request.
    /// The response is a 429, with `Retry-After` 0, 1 or 30, or without this header.
    TooMany "too-many",
    /// The response is a 503.
    Unavailable "unavailable",
    /// The server refuses the connection for the request.
    Refused "refused",
    /// The connection breaks before the response arrives.
    ResetRequest "reset-request",
    /// The response does not arrive in time.
    RequestTimeout "request-timeout",
    /// The response is a 401.
    Unauthorized "unauthorized",
    /// The response is a 403.
    Forbidden "forbidden",
    /// The response is a 404: the kind does not exist.
    NotFound "not-found",
    /// The response is a 400 or a similar rejection.
    Rejected "rejected",
    /// The response has the status 410: the version has expired.
    ExpiredStatus "expired-status",
    /// The response is a 504: the requested version is newer than that of the server.
    TooLarge "too-large",
    /// The request never gets a response.
    NoResponse "no-response",
    // The following faults change the response to a list.
    /// A list ends in the middle.
    ListBreaks "list-breaks",
    /// A list stops in the middle, and its connection stays open.
    ListStalls "list-stalls",
    /// The response to a continue token is a 410.
    TokenExpires "token-expires",
    /// Pages of a list are shorter than requested.
    ShortPage "short-page",
    /// A page is empty although another page follows.
    EmptyPage "empty-page",
    /// The server ignores the limit of a list.
    LimitIgnored "limit-ignored",
    /// A page has the same continue token as the request for it.
    SameToken "same-token",
    /// A list contains one object twice.
    ListedTwice "listed-twice",
    /// A list is served from a state older than the requested version.
    StaleResponse "stale-response",
    /// The list source ignores which objects the client already has, and sends all of them.
    KnownIgnored "known-ignored",
    // The following faults change an open watch or the request for a watch.
    /// A watch sends an error event with code 410.
    ExpiredEvent "expired-event",
    /// A watch sends an error event with code 500.
    ErrorEvent "error-event",
    /// A watch sends an error event with code 429.
    TooManyEvent "too-many-event",
    /// A watch sends an error event without a status code.
    BareErrorEvent "bare-error-event",
    /// The server closes a watch properly.
    Closed "closed",
    /// The server closes the next watches as soon as they are open.
    ClosedAtOnce "closed-at-once",
    /// The connection of a watch breaks.
    Reset "reset",
    /// A watch sends nothing any more, and its connection stays open.
    Stall "stall",
    /// A watch sends bytes that are not an event.
    Garbage "garbage",
    /// The source ends a watch because its objects must be listed again in another encoding.
    EncodingChanged "encoding-changed",
    /// The source refuses a watch because its objects must be listed again in another encoding.
    EncodingRefused "encoding-refused",
    /// A watch sends an event of an unknown type.
    UnknownEvent "unknown-event",
    /// A watch sends an object without a readable name.
    Nameless "nameless",
    /// The server stops sending bookmarks, or starts to send them again.
    Bookmarks "bookmarks",
    /// A bookmark is sent twice.
    BookmarkTwice "bookmark-twice",
    /// A watch sends a bookmark with an older version.
    BookmarkOld "bookmark-old",
    /// A streaming list has no bookmark that ends the initial events.
    NoEndMark "no-end-mark",
    /// A streaming list has the bookmark that ends the initial events twice.
    EndMarkTwice "end-mark-twice",
    /// A watch sends an event twice.
    EventTwice "event-twice",
    /// A watch sends some events again.
    EventsReplayed "events-replayed",
    /// A watch sends two events in the wrong order.
    EventsSwapped "events-swapped",
    /// The server rejects a streaming list once.
    StreamingRefused "streaming-refused",
    /// The server responds to a streaming list with a plain watch.
    StreamingIgnored "streaming-ignored",
    /// The server stops or starts to support streaming lists.
    Streaming "streaming",
    // The following faults change the history and the state of the server.
    /// The history is compacted up to the present, or up to an earlier moment.
    Compaction "compaction",
    /// The resource versions of the server jump ahead, beyond 2^32 or 2^53.
    VersionJump "version-jump",
    /// The server is restored correctly from a backup: its resource versions jump ahead.
    Restore "restore",
    /// The server is restored from a backup, and its resource versions go back together with the content.
    Rewind "rewind",
    /// The server loses all objects, and its resource versions start again.
    Wiped "wiped",
    /// The server restarts and keeps its state.
    Restart "restart",
    /// The server refuses connections for some time.
    Down "down",
    /// A replica of the API server starts to lag, or catches up.
    ReplicaLags "replica-lags",
    /// The client cannot decode an object.
    Unreadable "unreadable",
    // The following faults concern the leader election.
    /// A request for the Lease is processed, but its response is lost.
    LeaseResponseLost "lease-response-lost",
    /// A request for the Lease is processed long after its timeout.
    LeaseLate "lease-late",
    /// Requests for the Lease are refused.
    LeaseRefused "lease-refused",
    /// Another program changes the Lease: its labels, its duration, or its holder, who is removed.
    LeaseTouched "lease-touched",
    /// Another program deletes the Lease.
    LeaseDeleted "lease-deleted",
    /// One or all candidates are disconnected for some time.
    CandidateCutOff "candidate-cut-off",
    /// A candidate is paused for some time, and its clock continues.
    CandidatePaused "candidate-paused",
    /// A candidate crashes and restarts, sometimes with its old identity.
    CandidateCrashes "candidate-crashes",
    /// A candidate is stopped gracefully and releases its lease.
    CandidateStops "candidate-stops",
    /// The wall clock of a candidate jumps to another time.
    WallClockJumps "wall-clock-jumps",
    // The following faults concern the informer, its handlers and the controller.
    /// A handler of the informer panics.
    HandlerPanics "handler-panics",
    /// A handler does not return for some time.
    HandlerStuck "handler-stuck",
    /// A handler is removed from the informer.
    HandlerLeaves "handler-leaves",
    /// A handler is added to the informer.
    HandlerJoins "handler-joins",
    /// A reconcile of a worker is cancelled.
    WorkerCancelled "worker-cancelled",
    /// A reconcile fails.
    WorkerFails "worker-fails",
    /// A reconcile fails with a permanent error.
    WorkerFailsForGood "worker-fails-for-good",
    /// A reconcile panics.
    WorkerPanics "worker-panics",
    /// A reconcile exceeds its timeout.
    WorkerTimesOut "worker-times-out",
    /// The controller is stopped, and another one is started.
    ControllerRestarts "controller-restarts",
    /// A consistent relist of the informer is requested.
    RelistRequested "relist-requested",
    /// The informer is stopped and started again.
    InformerRestarts "informer-restarts",
    /// The informer is stopped. A new reflector, which knows no version, continues with its store.
    ReflectorReplaced "reflector-replaced",
    /// Reads from the list source are delayed, as by a full queue.
    HeldUp "held-up",
    /// The clock jumps ahead, as after the machine was suspended.
    ClockJump "clock-jump",
    /// An index is added to the running informer.
    IndexAdded "index-added",
}

impl Fault {
    pub(crate) fn is_of_request(self) -> bool {
        self as usize <= Self::KnownIgnored as usize
            || matches!(
                self,
                Self::ClosedAtOnce
                    | Self::EncodingRefused
                    | Self::NoEndMark
                    | Self::EndMarkTwice
                    | Self::StreamingRefused
                    | Self::StreamingIgnored
            )
    }

    /// Returns true if the fault applies to an open watch.
    pub(crate) fn is_of_stream(self) -> bool {
        matches!(
            self,
            Self::ExpiredEvent
                | Self::ErrorEvent
                | Self::TooManyEvent
                | Self::BareErrorEvent
                | Self::Closed
                | Self::Reset
                | Self::Stall
                | Self::Garbage
                | Self::EncodingChanged
                | Self::UnknownEvent
                | Self::Nameless
                | Self::BookmarkTwice
                | Self::BookmarkOld
                | Self::EventTwice
                | Self::EventsReplayed
                | Self::EventsSwapped
        )
    }

    pub(crate) fn is_of_election(self) -> bool {
        (Self::LeaseResponseLost as usize..=Self::WallClockJumps as usize).contains(&(self as usize))
    }

    pub(crate) fn of_word(word: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|fault| fault.as_str() == word)
    }
}

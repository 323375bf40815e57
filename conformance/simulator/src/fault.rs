/// Declares the faults with their names in scripts, statistics and timelines.
macro_rules! faults {
    ($($(#[doc = $doc:literal])* $name:ident $word:literal,)*) => {
        /// The simulated faults.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Fault {
            $($(#[doc = $doc])* $name,)*
        }

        impl Fault {
            /// Every fault, in the order of declaration.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// Returns its name in scripts and statistics.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $word,)*
                }
            }
        }
    };
}

faults! {
    // Responses to the next request.
    /// 429, with `Retry-After` 0, 1 or 30, or without.
    TooMany "too-many",
    /// 503.
    Unavailable "unavailable",
    /// The server refuses connections.
    Refused "refused",
    /// The connection breaks before the response.
    ResetRequest "reset-request",
    /// The response does not arrive in time.
    RequestTimeout "request-timeout",
    /// 401.
    Unauthorized "unauthorized",
    /// 403.
    Forbidden "forbidden",
    /// 404: the kind does not exist.
    NotFound "not-found",
    /// 400 and similar.
    Rejected "rejected",
    /// 410 as a response status.
    ExpiredStatus "expired-status",
    /// 504: the version is too large.
    TooLarge "too-large",
    /// The request never gets a response.
    NoResponse "no-response",
    // Lists.
    /// A list breaks off.
    ListBreaks "list-breaks",
    /// A list stops in the middle, and its connection stays open.
    ListStalls "list-stalls",
    /// 410 for a continue token.
    TokenExpires "token-expires",
    /// Pages are shorter than requested.
    ShortPage "short-page",
    /// A page is empty and is followed by another.
    EmptyPage "empty-page",
    /// The limit of a page is ignored.
    LimitIgnored "limit-ignored",
    /// A page continues with its own token.
    SameToken "same-token",
    /// A list contains an object twice.
    ListedTwice "listed-twice",
    /// A list is served from an older state than requested.
    StaleResponse "stale-response",
    /// The source ignores the objects that the client holds.
    KnownIgnored "known-ignored",
    // Watches.
    /// 410 as an event.
    ExpiredEvent "expired-event",
    /// 500 as an event.
    ErrorEvent "error-event",
    /// 429 as an event.
    TooManyEvent "too-many-event",
    /// An error event without a code.
    BareErrorEvent "bare-error-event",
    /// A watch is closed.
    Closed "closed",
    /// The next watches are closed as soon as they are open.
    ClosedAtOnce "closed-at-once",
    /// A watch breaks.
    Reset "reset",
    /// A watch falls silent, and its connection stays open.
    Stall "stall",
    /// Bytes that are not an event.
    Garbage "garbage",
    /// An event of an unknown type.
    UnknownEvent "unknown-event",
    /// An object without a readable name.
    Nameless "nameless",
    /// Stops bookmarks, or sends them again.
    Bookmarks "bookmarks",
    /// A bookmark is sent twice.
    BookmarkTwice "bookmark-twice",
    /// A bookmark of an older version.
    BookmarkOld "bookmark-old",
    /// A streaming list has no end mark.
    NoEndMark "no-end-mark",
    /// A streaming list has its end mark twice.
    EndMarkTwice "end-mark-twice",
    /// An event is sent twice.
    EventTwice "event-twice",
    /// Some events are replayed.
    EventsReplayed "events-replayed",
    /// Two events arrive in the wrong order.
    EventsSwapped "events-swapped",
    /// A streaming list is rejected once.
    StreamingRefused "streaming-refused",
    /// A streaming list is served as a plain watch.
    StreamingIgnored "streaming-ignored",
    /// The server stops or starts to support streaming lists.
    Streaming "streaming",
    // History.
    /// The history is compacted up to now, or to an earlier moment.
    Compaction "compaction",
    /// Versions jump ahead, beyond 2^32 or 2^53.
    VersionJump "version-jump",
    /// The server is restored from a backup, and its versions jump ahead, as they should.
    Restore "restore",
    /// The server is restored from a backup, and its versions go back too.
    Rewind "rewind",
    /// The server loses everything, and its versions start again.
    Wiped "wiped",
    /// The server restarts with its state.
    Restart "restart",
    /// The server refuses connections for some time.
    Down "down",
    /// A replica starts to lag, or catches up.
    ReplicaLags "replica-lags",
    /// The client cannot read an object.
    Unreadable "unreadable",
    // The election.
    /// A request for the Lease is processed, but its response is lost.
    LeaseResponseLost "lease-response-lost",
    /// A request for the Lease is processed long after its timeout.
    LeaseLate "lease-late",
    /// Requests for the Lease are refused.
    LeaseRefused "lease-refused",
    /// Another program changes the Lease: its labels, its duration, or its holder, who is removed.
    LeaseTouched "lease-touched",
    /// The Lease is deleted.
    LeaseDeleted "lease-deleted",
    /// One or all candidates are disconnected for some time.
    CandidateCutOff "candidate-cut-off",
    /// A candidate is paused for some time, and its clock continues.
    CandidatePaused "candidate-paused",
    /// A candidate crashes and restarts, sometimes with its old identity.
    CandidateCrashes "candidate-crashes",
    /// A candidate is stopped gracefully and releases its lease.
    CandidateStops "candidate-stops",
    /// The wall clock of a candidate jumps.
    WallClockJumps "wall-clock-jumps",
    // The informer and its users.
    /// A handler panics.
    HandlerPanics "handler-panics",
    /// A handler does not return for some time.
    HandlerStuck "handler-stuck",
    /// A handler is removed.
    HandlerLeaves "handler-leaves",
    /// A handler is added.
    HandlerJoins "handler-joins",
    /// A worker is cancelled.
    WorkerCancelled "worker-cancelled",
    /// A worker fails.
    WorkerFails "worker-fails",
    /// A worker fails with a permanent error.
    WorkerFailsForGood "worker-fails-for-good",
    /// A worker panics.
    WorkerPanics "worker-panics",
    /// A worker exceeds its timeout.
    WorkerTimesOut "worker-times-out",
    /// The controller is stopped, and another one is started.
    ControllerRestarts "controller-restarts",
    /// A consistent relist is requested.
    RelistRequested "relist-requested",
    /// The informer is stopped and started.
    InformerRestarts "informer-restarts",
    /// The informer is stopped, and a new reflector without a known version continues with its store.
    ReflectorReplaced "reflector-replaced",
    /// Reads from the source are delayed, as by a full queue.
    HeldUp "held-up",
    /// The clock jumps, as after suspending the machine.
    ClockJump "clock-jump",
    /// An index is added.
    IndexAdded "index-added",
}

impl Fault {
    /// Returns true if it applies to the response to one request.
    pub(crate) fn is_of_request(self) -> bool {
        self as usize <= Self::KnownIgnored as usize
            || matches!(
                self,
                Self::ClosedAtOnce
                    | Self::NoEndMark
                    | Self::EndMarkTwice
                    | Self::StreamingRefused
                    | Self::StreamingIgnored
            )
    }

    /// Returns true if it applies to an open stream.
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
                | Self::UnknownEvent
                | Self::Nameless
                | Self::BookmarkTwice
                | Self::BookmarkOld
                | Self::EventTwice
                | Self::EventsReplayed
                | Self::EventsSwapped
        )
    }

    /// Returns true if it applies to the election.
    pub(crate) fn is_of_election(self) -> bool {
        (Self::LeaseResponseLost as usize..=Self::WallClockJumps as usize).contains(&(self as usize))
    }

    pub(crate) fn of_word(word: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|fault| fault.as_str() == word)
    }
}

/// Declares the faults with their words in scripts, figures and timelines.
macro_rules! faults {
    ($($(#[doc = $doc:literal])* $name:ident $word:literal,)*) => {
        /// What can go wrong.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Fault {
            $($(#[doc = $doc])* $name,)*
        }

        impl Fault {
            /// Every fault, in the order of declaration.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// Its word in scripts and figures.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $word,)*
                }
            }
        }
    };
}

faults! {
    // Answers to the next request.
    /// 429, with `Retry-After` 0, 1 or 30, or without.
    TooMany "too-many",
    /// 503.
    Unavailable "unavailable",
    /// Nobody listens.
    Refused "refused",
    /// The connection breaks before the answer.
    ResetRequest "reset-request",
    /// The answer does not come in time.
    RequestTimeout "request-timeout",
    /// 401.
    Unauthorized "unauthorized",
    /// 403.
    Forbidden "forbidden",
    /// 404: the kind is not there.
    NotFound "not-found",
    /// 400 and the like.
    Rejected "rejected",
    /// 410 as the status of an answer.
    ExpiredStatus "expired-status",
    /// 504: the version is too large.
    TooLarge "too-large",
    /// The request is never answered.
    NeverAnswered "never-answered",
    // Lists.
    /// A list breaks off.
    ListBreaks "list-breaks",
    /// A list stops in the middle, and its connection stays open.
    ListStalls "list-stalls",
    /// 410 for the token of a page.
    TokenExpires "token-expires",
    /// Pages are shorter than asked for.
    ShortPage "short-page",
    /// A page has no object and is followed by another.
    EmptyPage "empty-page",
    /// The limit of a page is ignored.
    LimitIgnored "limit-ignored",
    /// A page continues with its own token.
    SameToken "same-token",
    /// A list has an object twice.
    ListedTwice "listed-twice",
    /// A list is answered from an older state than was asked for.
    StaleAnswer "stale-answer",
    /// The source relies on nothing that is held.
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
    /// Bytes that are no event.
    Garbage "garbage",
    /// An event of an unknown type.
    UnknownEvent "unknown-event",
    /// An object without a readable name.
    Nameless "nameless",
    /// No bookmarks from here on, or again.
    Bookmarks "bookmarks",
    /// A bookmark comes twice.
    BookmarkTwice "bookmark-twice",
    /// A bookmark of an older version.
    BookmarkOld "bookmark-old",
    /// A streaming list has no end mark.
    NoEndMark "no-end-mark",
    /// A streaming list has its end mark twice.
    EndMarkTwice "end-mark-twice",
    /// An event comes twice.
    EventTwice "event-twice",
    /// Some events are sent again.
    EventsReplayed "events-replayed",
    /// Two events come in the wrong order.
    EventsSwapped "events-swapped",
    /// Streaming lists are refused once.
    StreamingRefused "streaming-refused",
    /// A streaming list is answered as a plain watch.
    StreamingIgnored "streaming-ignored",
    /// The server becomes one without streaming lists, or with them.
    Streaming "streaming",
    // History.
    /// What happened is forgotten up to now, or to some moment before.
    Compaction "compaction",
    /// Versions jump ahead, beyond 2^32 or 2^53.
    VersionJump "version-jump",
    /// The server goes back to a backup, its versions ahead, as they should.
    Restore "restore",
    /// The server goes back to a backup, and its versions do, too.
    Rewind "rewind",
    /// The server loses everything, and its versions begin anew.
    Wiped "wiped",
    /// The server starts again with what it had.
    Restart "restart",
    /// Nobody listens for a while.
    Down "down",
    /// A replica stays behind, or catches up.
    ReplicaLags "replica-lags",
    /// The client cannot read an object.
    Unreadable "unreadable",
    // The election.
    /// A request about the Lease is done, and its answer is lost.
    LeaseAnswerLost "lease-answer-lost",
    /// A request about the Lease is done long after it was given up.
    LeaseLate "lease-late",
    /// Requests about the Lease are refused.
    LeaseRefused "lease-refused",
    /// Somebody else changes the Lease: its labels, how long it is held, or its holder, who is removed.
    LeaseTouched "lease-touched",
    /// The Lease is deleted.
    LeaseDeleted "lease-deleted",
    /// A candidate, or all of them, reach nobody for a while.
    CandidateCutOff "candidate-cut-off",
    /// A candidate stands still for a while, and its clock does not.
    CandidatePaused "candidate-paused",
    /// A candidate is gone at once, and comes back, at times under its old name.
    CandidateCrashes "candidate-crashes",
    /// A candidate is told to stop, and gives its lease back.
    CandidateStops "candidate-stops",
    /// The clock on the wall of a candidate shows another time.
    WallClockJumps "wall-clock-jumps",
    // The informer and its users.
    /// A handler panics.
    HandlerPanics "handler-panics",
    /// A handler does not return for a while.
    HandlerStuck "handler-stuck",
    /// A handler goes.
    HandlerLeaves "handler-leaves",
    /// A handler comes.
    HandlerJoins "handler-joins",
    /// A worker is cancelled.
    WorkerCancelled "worker-cancelled",
    /// A worker fails.
    WorkerFails "worker-fails",
    /// A worker fails, and trying again would not mend it.
    WorkerFailsForGood "worker-fails-for-good",
    /// A worker panics.
    WorkerPanics "worker-panics",
    /// A worker takes longer than it may.
    WorkerTimesOut "worker-times-out",
    /// The controller is stopped, and another one started.
    ControllerRestarts "controller-restarts",
    /// Somebody asks for a consistent relist.
    RelistRequested "relist-requested",
    /// The informer is stopped and started.
    InformerRestarts "informer-restarts",
    /// The informer is stopped, and another reflector, which knows of no version, goes on with its store.
    ReflectorAnew "reflector-anew",
    /// The reading of the source is held up, as by a full queue.
    HeldUp "held-up",
    /// The machine slept: the clock jumps.
    ClockJump "clock-jump",
    /// An index is added.
    IndexAdded "index-added",
}

impl Fault {
    /// The answer to one request is its place.
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

    /// An open stream is its place.
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

    /// The election is its place.
    pub(crate) fn is_of_election(self) -> bool {
        (Self::LeaseAnswerLost as usize..=Self::WallClockJumps as usize).contains(&(self as usize))
    }

    pub(crate) fn of_word(word: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|fault| fault.as_str() == word)
    }
}

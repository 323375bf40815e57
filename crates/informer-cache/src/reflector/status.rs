use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use informer_core::ResourceVersion;

use crate::source::{SourceError, SourceErrorKind};

/// A snapshot of the phase and the counters of a reflector, cheap to clone.
///
/// Instants in the status come from the clock of the runtime: `tokio::time::Instant::into_std`.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct ReflectorStatus {
    /// The current phase of the reflector.
    pub phase: ReflectorPhase,
    /// True once a complete list was written to the queue of the reflector.
    pub synced: bool,
    /// The last resourceVersion that the reflector has seen, in this run or in an earlier one; unset before
    /// the first version.
    pub last_version: ResourceVersion,
    /// The time at which `last_version` last changed in this run.
    pub last_version_at: Option<Instant>,
    /// The last failure of a request. It stays here after a recovery, when `failures` is 0.
    pub last_error: Option<ReflectorError>,
    /// Number of consecutive failed requests since the last success.
    pub failures: u64,
    /// Number of consecutive requests since the last success that failed with
    /// [`NotFound`](crate::source::SourceErrorKind::NotFound). A failure of another kind resets it.
    pub not_found: u64,
    /// The time at which the next attempt begins; set during a backoff.
    pub next_attempt_at: Option<Instant>,
    /// Number of lists that the reflector has begun, by reason, including streaming lists.
    pub relists: RelistCounts,
    /// Number of list requests that the reflector has sent, one per page.
    pub list_requests: u64,
    /// Number of watches that the server has accepted, including streaming lists.
    pub watches_opened: u64,
    /// Number of watch events that the reflector has received, by type.
    pub events: EventCounts,
    /// Number of lists that were older than the last version and therefore not applied.
    pub stale_lists: u64,
    /// Number of consistent lists that were older than the last version and were applied as authoritative.
    pub rewound: u64,
    /// Number of streaming lists that were replaced by an ordinary list.
    pub streaming_fallbacks: u64,
    /// Number of watches that sent nothing for longer than their timeout and were closed by the reflector or
    /// by its source.
    pub silent_watches: u64,
    /// Number of version checks: requests that check, after a long time without events, whether the server
    /// has the last resourceVersion.
    pub version_checks: u64,
    /// Number of watches that ended within a second after they were opened, and of watch requests that failed
    /// without a response or were rejected as unavailable with a `Retry-After`.
    pub short_watches: u64,
    /// Number of objects in lists and events that could not be decoded.
    pub undecodable: u64,
    /// Number of objects whose key occurred before in the same list.
    pub duplicates: u64,
    /// Number of events and bookmarks whose resourceVersion was older than the last one.
    pub older_versions: u64,
    /// Number of resyncs that were due, including those that a hook skipped.
    pub resyncs: u64,
    /// Number of lists in which every object was decoded, because another server or another server version
    /// responded than for the list before.
    pub server_changes: u64,
    /// True once the lists of the source have contradicted the order of its resource versions too often. From
    /// then on, versions are not compared.
    pub unordered: bool,
}

/// The phase of a reflector.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ReflectorPhase {
    /// The reflector was not started.
    #[default]
    Created,
    /// The reflector reads a list.
    Listing,
    /// The reflector reads the initial events of a streaming list.
    StreamingList,
    /// The reflector checks whether the server has the last version, before it watches from that version.
    Checking,
    /// The reflector has requested a watch, which the server has not accepted yet.
    OpeningWatch,
    /// The reflector receives the events of a watch.
    Watching,
    /// The reflector waits for the backoff before the next attempt.
    BackingOff,
    /// The run of the reflector has ended.
    Stopped,
}

/// The reason why a reflector lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RelistReason {
    /// This is the first list of the reflector.
    First,
    /// The resourceVersion of a watch is no longer in the server's history (410 Expired), or newer than the
    /// server's (`Too large resource version`).
    WatchExpired,
    /// A watch failed in a way that makes its resourceVersion unreliable.
    WatchFailed,
    /// The source must be read in another encoding
    /// ([`SourceErrorKind::EncodingChanged`](crate::source::SourceErrorKind::EncodingChanged)).
    EncodingChanged,
    /// Several consecutive watches were closed or failed shortly after they were opened.
    ShortWatches,
    /// The previous list of the reflector failed.
    ListFailed,
    /// The resourceVersion of the previous list expired, was newer than the server's, or was rejected by the
    /// server. The new list is a consistent read.
    ListExpired,
    /// The continue token of a page expired. The new list has no pages.
    ContinueExpired,
    /// The previous list was older than a resourceVersion seen before. The new list is a consistent read.
    StaleList,
    /// The consumer of the queue received an object whose resourceVersion was older than the cached one, or
    /// the program requested a list. The new list is a consistent read.
    Requested,
    /// A streaming list failed and is replaced by an ordinary list.
    StreamingFallback,
    /// A streaming list was closed before its final bookmark and is followed by another streaming list.
    StreamingCut,
}

impl RelistReason {
    /// All reasons, in the order of declaration.
    pub const ALL: [Self; 12] = [
        Self::First,
        Self::WatchExpired,
        Self::WatchFailed,
        Self::EncodingChanged,
        Self::ShortWatches,
        Self::ListFailed,
        Self::ListExpired,
        Self::ContinueExpired,
        Self::StaleList,
        Self::Requested,
        Self::StreamingFallback,
        Self::StreamingCut,
    ];

    /// Returns the name of this reason in metrics and states.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::First => "first",
            Self::WatchExpired => "watch_expired",
            Self::WatchFailed => "watch_failed",
            Self::EncodingChanged => "encoding_changed",
            Self::ShortWatches => "short_watches",
            Self::ListFailed => "list_failed",
            Self::ListExpired => "list_expired",
            Self::ContinueExpired => "continue_expired",
            Self::StaleList => "stale_list",
            Self::Requested => "requested",
            Self::StreamingFallback => "streaming_fallback",
            Self::StreamingCut => "streaming_cut",
        }
    }
}

/// The number of lists that a reflector has begun, by reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RelistCounts([u64; RelistReason::ALL.len()]);

impl RelistCounts {
    /// Returns the number of lists that were begun for this reason.
    pub fn get(&self, reason: RelistReason) -> u64 {
        self.0[reason as usize]
    }

    /// Returns the number of lists begun for any reason other than [`First`](RelistReason::First).
    pub fn total(&self) -> u64 {
        self.iter().filter(|(reason, _)| *reason != RelistReason::First).map(|(_, count)| count).sum()
    }

    /// Returns every reason with its count.
    pub fn iter(&self) -> impl Iterator<Item = (RelistReason, u64)> + '_ {
        RelistReason::ALL.into_iter().map(|reason| (reason, self.get(reason)))
    }

    pub(super) fn add(&mut self, reason: RelistReason) {
        self.0[reason as usize] += 1;
    }
}

/// The number of watch events that a reflector has received, by type.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct EventCounts {
    /// Number of `ADDED` events, including those of streaming lists.
    pub added: u64,
    /// Number of `MODIFIED` events.
    pub modified: u64,
    /// Number of `DELETED` events.
    pub deleted: u64,
    /// Number of objects in events of any type that a filter of the source rejected.
    pub rejected: u64,
    /// Number of `BOOKMARK` events.
    pub bookmarks: u64,
    /// Number of `ERROR` events.
    pub errors: u64,
    /// Number of objects in events of any type that could not be decoded.
    pub undecodable: u64,
    /// Number of events of unknown types.
    pub unknown: u64,
}

impl EventCounts {
    /// Returns the number of events of all types.
    pub fn total(&self) -> u64 {
        self.added
            + self.modified
            + self.deleted
            + self.rejected
            + self.bookmarks
            + self.errors
            + self.undecodable
            + self.unknown
    }
}

/// The failure of a request, with the time of the failure. Its message includes the causes.
#[derive(Debug, Clone)]
pub struct ReflectorError {
    error: Arc<SourceError>,
    at: Instant,
}

impl ReflectorError {
    pub(super) fn new(error: Arc<SourceError>, at: Instant) -> Self {
        Self { error, at }
    }

    /// Returns the kind of the failure.
    pub fn kind(&self) -> SourceErrorKind {
        self.error.kind()
    }

    /// Returns the error of the failed request.
    pub fn error(&self) -> &Arc<SourceError> {
        &self.error
    }

    /// Returns the time of the failure.
    pub fn at(&self) -> Instant {
        self.at
    }
}

impl fmt::Display for ReflectorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.error)?;
        let mut cause = self.error.source();
        while let Some(error) = cause {
            write!(f, ": {error}")?;
            cause = error.source();
        }
        Ok(())
    }
}

impl ReflectorStatus {
    /// Returns true if the last request of the reflector has failed.
    pub fn is_failing(&self) -> bool {
        self.failures > 0
    }

    /// Returns the time since the reflector last saw a new resourceVersion; `None` before the first one.
    pub fn version_age(&self, now: Instant) -> Option<Duration> {
        Some(now.saturating_duration_since(self.last_version_at?))
    }

    /// Returns true if the phase, `synced` or `failures` differ between two statuses, so that tasks that wait
    /// for a change of the status must be woken.
    pub(super) fn differs(&self, other: &Self) -> bool {
        (self.phase, self.synced, self.failures) != (other.phase, other.synced, other.failures)
    }
}

/// Formats the phase of the reflector and its current failure as one line for an error message.
impl fmt::Display for ReflectorStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.phase {
            ReflectorPhase::Created => "not started",
            ReflectorPhase::Listing => "listing",
            ReflectorPhase::StreamingList => "reading a streaming list",
            ReflectorPhase::Checking => "checking the last version",
            ReflectorPhase::OpeningWatch => "opening a watch",
            ReflectorPhase::Watching => "watching",
            ReflectorPhase::BackingOff => "backing off",
            ReflectorPhase::Stopped => "stopped",
        })?;
        match &self.last_error {
            Some(error) if self.is_failing() => {
                let plural = if self.failures == 1 { "" } else { "s" };
                write!(f, " after {} failure{plural}, the last: {error}", self.failures)
            }
            _ => Ok(()),
        }
    }
}

use std::sync::Arc;
use std::time::{Duration, Instant};

use informer_core::{Object, ResourceVersion};

use super::super::RelistReason;
use crate::Change;
use crate::source::{ListPart, SourceError, VersionMatch, WatchEvent};

/// What is to be done next.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Step {
    /// What.
    pub action: ReflectorAction,
    /// When [`Input::Timer`] is due, unless something else comes first.
    pub until: Option<Instant>,
}

/// What a driver does for a [`Step`].
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum ReflectorAction {
    /// Give up what is open, if anything, and send this list, unless it is already sent; answer with
    /// [`Input::Opened`] or [`Input::Failed`].
    List(ListPlan),
    /// Give up what is open, if anything, and send this watch, unless it is already sent; answer with
    /// [`Input::Opened`] or [`Input::Failed`].
    Watch(WatchPlan),
    /// Read on from what is open.
    Read,
    /// Give up what is open, if anything, and do nothing.
    Wait,
    /// Give up what is open. Nothing follows.
    Done,
}

/// A list request.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListPlan {
    /// The version asked for, as of [`ListRequest`](crate::source::ListRequest).
    pub version: ResourceVersion,
    /// How the answer must relate to it.
    pub version_match: VersionMatch,
    /// The limit of a page.
    pub limit: Option<u32>,
    /// The token of the page before.
    pub continue_token: Option<String>,
    /// False where the source must not rely on what is held.
    pub use_known: bool,
}

/// A watch request.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct WatchPlan {
    /// The version asked for, as of [`WatchRequest`](crate::source::WatchRequest).
    pub version: ResourceVersion,
    /// True for a streaming list.
    pub send_initial_events: bool,
    /// After this time the source should close the watch.
    pub timeout: Duration,
    /// False where the source must not rely on what is held.
    pub use_known: bool,
}

/// What has happened. Inputs that do not fit the step are ignored.
#[derive(Debug)]
pub enum Input<O: Object> {
    /// The request was accepted.
    Opened,
    /// A part of the list.
    Part(ListPart<O>),
    /// Events of the watch, in order.
    Events(Vec<WatchEvent<O>>),
    /// The stream has ended.
    Ended,
    /// The request was refused, or the stream broke.
    Failed(SourceError),
    /// The instant of the step has come. Too early it does nothing.
    Timer,
    /// A reader of the queue saw an object that is older than the one it holds.
    RelistRequested,
    /// The end.
    Stop,
}

/// What comes of an input.
#[derive(Debug)]
pub struct Effects<O: Object> {
    /// For the queue, in order.
    pub changes: Vec<Change<O>>,
    /// Each new version, in order.
    pub versions: Vec<ResourceVersion>,
    /// For the log and the hooks, in order.
    pub notices: Vec<ReflectorNotice>,
}

/// Something worth a line in a log.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum ReflectorNotice {
    /// A list begins.
    Relist(RelistReason),
    /// Something failed, and the next attempt is made after a wait.
    #[non_exhaustive]
    Failed {
        /// What.
        error: Arc<SourceError>,
        /// How long the wait is.
        retry_after: Duration,
    },
    /// A list, or the first part of a streaming list, failed and is asked for at once in another way; or the connection of
    /// a watch that had worked broke, and the watch is taken up at once from the last version.
    Recovering(Arc<SourceError>),
    /// A streaming list was refused, or its end mark did not come: the source is to remember it.
    StreamingListFailed,
    /// A list was older than what was seen before, and was not applied.
    #[non_exhaustive]
    StaleList {
        /// The version of the list.
        version: ResourceVersion,
        /// The last version seen.
        seen: ResourceVersion,
    },
    /// A consistent list was older than what was seen before, and is the truth.
    #[non_exhaustive]
    Rewound {
        /// The version of the list.
        version: ResourceVersion,
        /// The last version seen.
        seen: ResourceVersion,
    },
    /// A list had keys more than once; the last state of each was taken.
    Duplicates(u64),
    /// A watch was silent past its time and was cut.
    SilentWatch,
    /// An event of an unknown type was skipped.
    UnknownEvent(String),
    /// A resync is due: ask `should_resync`, then queue [`Change::Resync`].
    ResyncDue,
}

impl<O: Object> Default for Effects<O> {
    fn default() -> Self {
        Self { changes: Vec::new(), versions: Vec::new(), notices: Vec::new() }
    }
}

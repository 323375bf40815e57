use std::sync::Arc;
use std::time::{Duration, Instant};

use informer_core::{Object, ResourceVersion};

use super::super::RelistReason;
use crate::Change;
use crate::source::{ListPart, SourceError, VersionMatch, WatchEvent};

/// The next action of a driver.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Step {
    /// The action that the driver must perform.
    pub action: ReflectorAction,
    /// The time at which the driver passes [`Input::Timer`], unless another input arrives earlier.
    pub until: Option<Instant>,
}

/// An action that a driver performs for a [`Step`].
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum ReflectorAction {
    /// Drop the open request, if any, and send this list, unless it was already sent. Report the result as
    /// [`Input::Opened`] or [`Input::Failed`].
    List(ListPlan),
    /// Drop the open request, if any, and send this watch, unless it was already sent. Report the result as
    /// [`Input::Opened`] or [`Input::Failed`].
    Watch(WatchPlan),
    /// Continue to read from the open request.
    Read,
    /// Drop the open request, if any, and wait until the time of the step.
    Wait,
    /// Drop the open request. The run has ended.
    Done,
}

/// A list request.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListPlan {
    /// The requested version, as in [`ListRequest`](crate::source::ListRequest).
    pub version: ResourceVersion,
    /// The interpretation of the version.
    pub version_match: VersionMatch,
    /// The page limit.
    pub limit: Option<u32>,
    /// The continue token of the previous page.
    pub continue_token: Option<String>,
    /// False if the source must decode every object, instead of reusing cached ones.
    pub use_known: bool,
}

/// A watch request.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct WatchPlan {
    /// The requested version, as in [`WatchRequest`](crate::source::WatchRequest).
    pub version: ResourceVersion,
    /// True for a streaming list.
    pub send_initial_events: bool,
    /// The source should close the watch after this time.
    pub timeout: Duration,
    /// False if the source must decode every object, instead of reusing cached ones.
    pub use_known: bool,
}

/// An input of the state machine. The state machine ignores inputs that do not fit its current step.
#[derive(Debug)]
pub enum Input<O: Object> {
    /// The source has accepted the request.
    Opened,
    /// A part of the list has arrived.
    Part(ListPart<O>),
    /// Events of the watch, in order.
    Events(Vec<WatchEvent<O>>),
    /// The stream of the request has ended.
    Ended,
    /// The request was rejected, or the stream broke.
    Failed(SourceError),
    /// The time of the step has been reached. An input before that time has no effect.
    Timer,
    /// The consumer of the queue received an object that is older than the cached one.
    RelistRequested,
    /// The run of the reflector ends.
    Stop,
}

/// The effects of an input, which the driver applies.
#[derive(Debug)]
pub struct Effects<O: Object> {
    /// Changes for the queue, in order.
    pub changes: Vec<Change<O>>,
    /// The new versions for the hook `on_version`, in order.
    pub versions: Vec<ResourceVersion>,
    /// Notices for the log and the hooks, in order.
    pub notices: Vec<ReflectorNotice>,
}

/// An event for the log.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum ReflectorNotice {
    /// A list begins.
    Relist(RelistReason),
    /// An attempt failed, and the next one follows after a wait.
    #[non_exhaustive]
    Failed {
        /// The failure.
        error: Arc<SourceError>,
        /// The wait before the next attempt begins.
        retry_after: Duration,
    },
    /// The next request follows immediately: either a list or the initial events of a streaming list failed,
    /// and another variant is tried; or the connection of a working watch broke, and the watch is resumed
    /// from the last version.
    Recovering(Arc<SourceError>),
    /// A streaming list was rejected, or its final bookmark did not arrive. The driver notifies the source,
    /// which should remember the failure.
    StreamingListFailed,
    /// A list was older than the last version and was not applied.
    #[non_exhaustive]
    StaleList {
        /// The version of the list.
        version: ResourceVersion,
        /// The last version seen.
        seen: ResourceVersion,
    },
    /// A consistent list was older than the last version and was applied as authoritative.
    #[non_exhaustive]
    Rewound {
        /// The version of the list.
        version: ResourceVersion,
        /// The last version seen.
        seen: ResourceVersion,
    },
    /// A list had duplicate keys; the last state of each key was used.
    Duplicates(u64),
    /// A watch sent nothing for longer than its timeout and was closed.
    SilentWatch,
    /// An event of an unknown type was skipped.
    UnknownEvent(String),
    /// A resync is due: call `should_resync`, then queue [`Change::Resync`].
    ResyncDue,
}

impl<O: Object> Default for Effects<O> {
    fn default() -> Self {
        Self { changes: Vec::new(), versions: Vec::new(), notices: Vec::new() }
    }
}

use std::sync::Arc;
use std::time::{Duration, Instant};

use informer_core::{Object, ResourceVersion};

use super::super::RelistReason;
use crate::Change;
use crate::source::{ListPart, SourceError, VersionMatch, WatchEvent};

/// The next step of a driver (the code that runs a `ReflectorState`): an action and its time limit.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Step {
    /// The action that the driver of the state machine must perform.
    pub action: ReflectorAction,
    /// The time limit of the step: the driver passes [`Input::Timer`] at this time, unless another input
    /// arrives earlier.
    pub until: Option<Instant>,
}

/// An action that the driver of a `ReflectorState` performs in a [`Step`].
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum ReflectorAction {
    /// Drop the open request, if any, and send this list, unless it was already sent. Report the result as
    /// [`Input::Opened`] or [`Input::Failed`].
    List(ListPlan),
    /// Drop the open request, if any, and send this watch, unless it was already sent. Report the result as
    /// [`Input::Opened`] or [`Input::Failed`].
    Watch(WatchPlan),
    /// Continue to read from the stream of the open request.
    Read,
    /// Drop the open request, if any, and wait until the time limit of the step.
    Wait,
    /// Drop the open request. The run of the reflector has ended.
    Done,
}

/// A list request that the reflector sends.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListPlan {
    /// The requested resourceVersion of the list, as in [`ListRequest`](crate::source::ListRequest).
    pub version: ResourceVersion,
    /// The interpretation of the requested resourceVersion (`resourceVersionMatch`).
    pub version_match: VersionMatch,
    /// The maximum number of objects in one page of the list; `None` for a list without pages.
    pub limit: Option<u32>,
    /// The continue token that the previous page returned; `None` for the first page.
    pub continue_token: Option<String>,
    /// False if the source must decode every object, instead of reusing cached ones.
    pub use_known: bool,
}

/// A watch request that the reflector sends.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct WatchPlan {
    /// The resourceVersion from which the watch starts, as in [`WatchRequest`](crate::source::WatchRequest).
    pub version: ResourceVersion,
    /// True if the watch is a streaming list.
    pub send_initial_events: bool,
    /// The time after which the source should close the watch.
    pub timeout: Duration,
    /// False if the source must decode every object, instead of reusing cached ones.
    pub use_known: bool,
}

/// An input of the state machine. The state machine ignores inputs that do not fit its current step.
#[derive(Debug)]
pub enum Input<O: Object> {
    /// The source has accepted the request of the current step.
    Opened,
    /// A part of the list has arrived.
    Part(ListPart<O>),
    /// Events of the watch have arrived, in this order.
    Events(Vec<WatchEvent<O>>),
    /// The stream of the request has ended.
    Ended,
    /// The request was rejected, or the stream of the request broke.
    Failed(SourceError),
    /// The time limit of the step has been reached. An input before that time has no effect.
    Timer,
    /// The consumer of the queue received an object that is older than the cached one, and requests a relist.
    RelistRequested,
    /// The run of the reflector is to end.
    Stop,
}

/// The effects of an input of the state machine, which its driver applies to the queue, the log and the
/// hooks.
#[derive(Debug)]
pub struct Effects<O: Object> {
    /// Changes for the queue, in order.
    pub changes: Vec<Change<O>>,
    /// The new resource versions of lists, events and bookmarks, with which the driver calls the hook
    /// `on_version`, in order.
    pub versions: Vec<ResourceVersion>,
    /// Notices for the log and the hooks, in order.
    pub notices: Vec<ReflectorNotice>,
}

/// An event that the driver logs or reports to a hook.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum ReflectorNotice {
    /// The reflector begins a list for this reason.
    Relist(RelistReason),
    /// A request failed, and the next one follows after a wait.
    #[non_exhaustive]
    Failed {
        /// The failure of the request.
        error: Arc<SourceError>,
        /// The time to wait before the next attempt.
        retry_after: Duration,
    },
    /// A request failed, and the next one follows immediately. Either a list or the initial events of a
    /// streaming list failed, and another variant of the list is tried. Or the connection of a working watch
    /// broke, and the watch is resumed from the last version.
    Recovering(Arc<SourceError>),
    /// A streaming list was rejected, or its final bookmark did not arrive. The driver notifies the source,
    /// which should remember the failure.
    StreamingListFailed,
    /// A list was older than the last version and was not applied.
    #[non_exhaustive]
    StaleList {
        /// The resourceVersion of the list that was not applied.
        version: ResourceVersion,
        /// The last resourceVersion that the reflector has seen, which is newer than that of the list.
        seen: ResourceVersion,
    },
    /// A consistent list was older than the last version and was applied as authoritative.
    #[non_exhaustive]
    Rewound {
        /// The resourceVersion of the list that was applied, to which the cache goes back.
        version: ResourceVersion,
        /// The last resourceVersion that the reflector had seen before, which is newer than that of the list.
        seen: ResourceVersion,
    },
    /// A list had this number of duplicate keys; the last state of each key was used.
    Duplicates(u64),
    /// A watch sent nothing for longer than its timeout and was closed.
    SilentWatch,
    /// An event of an unknown type was skipped.
    UnknownEvent(String),
    /// A resync is due: the driver calls `should_resync`, then queues [`Change::Resync`] unless this hook
    /// skips the resync.
    ResyncDue,
}

impl<O: Object> Default for Effects<O> {
    fn default() -> Self {
        Self { changes: Vec::new(), versions: Vec::new(), notices: Vec::new() }
    }
}

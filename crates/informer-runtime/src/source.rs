//! Sources, which add requests to the queue of a controller.
//!
//! | source | enqueues requests for |
//! |---|---|
//! | [`kind`] | events of a kind, from the manager's cache |
//! | [`kind_in`] | events of a kind, from any cache |
//! | [`informer`] | events of another informer |
//! | [`channel`], [`stream`] | objects from elsewhere, as [`Trigger::Generic`](crate::Trigger::Generic) |
//! | [`function`] | anything, from an async function |
//!
//! A controller starts its sources together and reconciles no request before each source has delivered its
//! initial objects. The controller waits only for its own sources, up to a deadline; the error names the late
//! source and the reason. When the controller stops, its sources are detached: shared informers keep running,
//! and no event reaches the closed queue.
//!
//! Upstream: [`source`](https://pkg.go.dev/sigs.k8s.io/controller-runtime/pkg/source).

mod enqueuer;
mod function;
mod informer;
mod kind;
mod stream;

use futures_util::future::BoxFuture;

pub use enqueuer::Enqueuer;
pub use function::{Function, function};
pub use informer::{Informer, informer};
#[cfg(feature = "packed")]
pub use kind::watch_packed;
pub use kind::{Kind, Watch, kind, kind_in, watch, watch_metadata, watch_of, watch_typed};
pub use stream::{Stream, channel, stream};

pub(crate) use enqueuer::Route;

use crate::{BoxError, ReconcileRequest, Request, ResourceKind};

/// The maximum number of informers of a kind that the console names. A cache of several namespaces has an
/// informer for each.
const MAX_NAMED_INFORMERS: usize = 100;

/// The kind whose objects a source watches, for the [console](crate::Manager::console).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchedKind {
    pub(crate) kind: ResourceKind,
    pub(crate) role: WatchRole,
    pub(crate) informers: Vec<String>,
}

/// The relation of a watched kind to the reconciled one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum WatchRole {
    /// The kind is the reconciled one.
    For,
    /// The reconciled kind owns the objects.
    Owns,
    /// A handler determines the requests.
    #[default]
    Watches,
}

impl WatchedKind {
    /// Creates the description of a source that watches a kind.
    pub fn new(kind: impl Into<ResourceKind>) -> Self {
        Self { kind: kind.into(), role: WatchRole::default(), informers: Vec::new() }
    }
}

#[cfg(feature = "console")]
impl WatchRole {
    /// Returns the role as the method of the builder that sets it.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::For => "for",
            Self::Owns => "owns",
            Self::Watches => "watches",
        }
    }
}

/// A source of a controller: adds requests to the controller's queue, for example for the events of a watched
/// kind.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a source of `{R}`",
    label = "not a source of requests",
    note = "use `source::channel`, `source::stream` or `source::function`; for a kind, use \
            `watches` or `owns`"
)]
pub trait Source<R: ReconcileRequest = Request>: Send + Sync + 'static {
    /// Returns the name of the source in the controller's logs and errors.
    fn name(&self) -> String;

    /// Starts the source. The future resolves once all initial objects are in the queue; later events are
    /// enqueued by tasks of the [`Enqueuer`]. This method is called once.
    ///
    /// # Cancel safety
    ///
    /// The future is dropped if the controller stops or its sync timeout elapses first; then
    /// [`stop`](Self::stop) is called.
    ///
    /// # Errors
    ///
    /// Returns an error if the source cannot start. The controller ends with this error, and so does its
    /// manager.
    fn start(&self, enqueuer: Enqueuer<R>) -> BoxFuture<'_, Result<(), BoxError>>;

    /// Enqueues the current objects again. A [sharded](crate::ControllerBuilder::sharded) controller calls
    /// this method after it gained keys; the enqueuer then accepts only requests of those keys. A source
    /// without stored objects does nothing: the replica that owned the key before has reconciled the requests
    /// that were enqueued then.
    ///
    /// # Cancel safety
    ///
    /// The future is dropped if the controller stops.
    fn replay(&self, enqueuer: Enqueuer<R>) -> BoxFuture<'_, ()> {
        drop(enqueuer);
        Box::pin(std::future::ready(()))
    }

    /// Returns the kind that the source watches, for the [console](crate::Manager::console); `None` for a
    /// source of something else. It is called for each snapshot of the console, so it must neither block nor
    /// panic.
    fn watched(&self) -> Option<WatchedKind> {
        None
    }

    /// Stops the source, so that it adds no more requests. A controller calls this method when it stops,
    /// whether or not the source was started.
    fn stop(&self) {}
}

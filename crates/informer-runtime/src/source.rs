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

use crate::{BoxError, ReconcileRequest, Request};

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

    /// Stops the source, so that it adds no more requests. A controller calls this method when it stops,
    /// whether or not the source was started.
    fn stop(&self) {}
}

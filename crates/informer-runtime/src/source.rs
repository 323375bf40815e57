//! Where a controller's requests come from.
//!
//! | source | feeds |
//! |---|---|
//! | [`kind`] | the events of a kind, from the manager's cache |
//! | [`informer`] | the events of an informer of one's own |
//! | [`channel`], [`stream`] | objects that come from elsewhere, as [`Trigger::Generic`](crate::Trigger::Generic) |
//! | [`function`] | whatever a function puts into the queue |
//!
//! A controller starts its sources together and reconciles nothing before each of them has delivered what was there at the
//! beginning. It waits for no other source than its own, up to a deadline, and names the one that is late, with the reason. When
//! the controller stops, its sources are detached: informers go on for others, and no event reaches a queue that nobody reads.
//!
//! Upstream: [`source`](https://pkg.go.dev/sigs.k8s.io/controller-runtime/pkg/source).

mod feed;
mod function;
mod informer;
mod kind;
mod stream;

use futures_util::future::BoxFuture;

pub use feed::Feed;
pub use function::{Function, function};
pub use informer::{Informer, informer};
#[cfg(feature = "packed")]
pub use kind::watch_packed;
pub use kind::{Kind, Watch, kind, watch, watch_metadata, watch_of, watch_typed};
pub use stream::{Stream, channel, stream};

pub(crate) use feed::{Only, Route};

use crate::{BoxError, ReconcileRequest, Request};

/// Something that puts requests into the queue of a controller.
pub trait Source<R: ReconcileRequest = Request>: Send + Sync + 'static {
    /// The name in logs and errors.
    fn name(&self) -> String;

    /// Begins to feed. Resolves once everything that was there at the beginning is in the queue; what goes on after that runs in
    /// tasks of the [`Feed`]. Called once.
    ///
    /// # Cancel safety
    ///
    /// The future is dropped where the controller stops, or its deadline passes, before it resolves; [`stop`](Self::stop) follows.
    ///
    /// # Errors
    ///
    /// What keeps it from feeding; it ends the controller, and its manager with it.
    fn start(&self, feed: Feed<R>) -> BoxFuture<'_, Result<(), BoxError>>;

    /// Feeds again what is there now: a controller that [shares its keys](crate::ControllerBuilder::sharded) with other replicas asks
    /// for it when keys come to it. The feed lets only their requests through. A source that remembers nothing does nothing; what it
    /// fed is looked at by the replica that owned the key then.
    ///
    /// # Cancel safety
    ///
    /// The future is dropped where the controller stops.
    fn replay(&self, feed: Feed<R>) -> BoxFuture<'_, ()> {
        drop(feed);
        Box::pin(std::future::ready(()))
    }

    /// Feeds no more. Called once the controller stops, whether the source has started or not.
    fn stop(&self) {}
}

//! Queues between a reflector and a controller.
//!
//! | queue | keeps | order |
//! |---|---|---|
//! | [`InOrderQueue`] | every change | of arrival, over all keys; the default inside an informer |
//! | [`DeltaFifo`] | the deltas of each key | of the first change of each key |
//! | [`Fifo`] | the newest state of each key | of the first enqueue of each key |
//! | [`Heap`] | the newest item of each key | of a rank |
//!
//! All queues are cheap handles: clones share one queue. A queue never reads the clock, starts a task, or
//! runs user code (key functions, transforms, views of known objects) under its lock. After a queue is
//! closed, writers are rejected, and readers get the queued items, then [`QueueClosed`].

use std::error::Error;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use informer_core::Object;

use crate::Change;

mod backpressure;
mod delta_fifo;
mod fifo;
#[cfg(test)]
mod fixture;
mod heap;
pub(crate) mod in_order;
mod initial_sync;
mod keyed;
mod popped;
mod shared;
mod transform;

pub use delta_fifo::DeltaFifo;
pub use delta_fifo::config::DeltaFifoConfig;
pub use delta_fifo::delta::{Delta, Deltas};
pub use fifo::Fifo;
pub use heap::{Heap, NotQueued};
pub use in_order::{Batch, BatchReceipt, InOrderQueue};
pub use keyed::{EnqueueError, KeyFunction, Processed};
pub use popped::{Popped, Receipt, Taken};
pub use transform::TransformError;

/// The target to which a reflector writes: a queue of this module other than [`Heap`], or a user-defined
/// store.
pub trait ReflectorStore<O: Object>: Send + Sync + 'static {
    /// Adds changes to the queue, in order. This method never waits. Instead, the writer awaits
    /// [`ready`](Self::ready) before it reads more from the source.
    ///
    /// # Errors
    ///
    /// Returns an error if the queue is closed: the changes are dropped, and the reflector ends.
    fn push(&self, changes: Vec<Change<O>>) -> Result<(), QueueClosed>;

    /// Resolves when the queue is not full. A full queue applies backpressure to the source, so that the
    /// memory does not grow.
    fn ready(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(std::future::ready(()))
    }
}

/// The operations that a pump needs from a queue. All queues of this module to which a reflector can write
/// implement this trait.
///
/// ```
/// use informer_cache::queue::{Queue, QueueClosed};
///
/// /// Runs `process` on every popped item, until the queue is closed and drained.
/// async fn pump<Q: Queue>(queue: &Q, process: impl Fn(&Q::Popped) -> bool) {
///     while let Ok(popped) = queue.pop().await {
///         if !process(&popped) {
///             queue.requeue(popped);
///         }
///     }
/// }
/// ```
pub trait Queue: Send + Sync + 'static {
    /// An item that was popped from the queue. The item counts as processed when this value is dropped.
    type Popped: Send;

    /// Takes the next item; waits while the queue is empty. Only one task may pop items.
    ///
    /// Cancel safe: dropping the future before it resolves does not take an item.
    ///
    /// # Errors
    ///
    /// Returns an error if the queue is closed and drained.
    fn pop(&self) -> impl Future<Output = Result<Self::Popped, QueueClosed>> + Send;

    /// Returns a popped item to the queue because its processing failed. The item is popped again later.
    fn requeue(&self, popped: Self::Popped);

    /// Closes the queue: writers are rejected from now on, and queued items can still be popped.
    fn close(&self);

    /// Returns true once the queue was closed by [`close`](Self::close).
    fn is_closed(&self) -> bool;

    /// Returns true once the queue items of the first complete list are processed. In an [`InOrderQueue`], a
    /// [requeued](Self::requeue) item delays this, because the order is kept. In the keyed queues the first
    /// attempt to process an item counts, like in client-go.
    fn has_synced(&self) -> bool;

    /// Resolves when [`has_synced`](Self::has_synced) is true.
    ///
    /// # Errors
    ///
    /// Returns an error if the queue is closed before it is synced.
    fn synced(&self) -> impl Future<Output = Result<(), QueueClosed>> + Send;
}

/// The error for an operation on a closed queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the queue is closed")]
pub struct QueueClosed;

/// A function that changes an object before it is queued. It is called once for each decoded state, including
/// that of an observed deletion, and never for a state that is already cached.
///
/// If the function returns an error, the object is quarantined as [`Undecodable`](crate::Undecodable); other
/// objects are processed.
pub type Transform<O> =
    Arc<dyn Fn(Arc<O>) -> Result<Arc<O>, Box<dyn Error + Send + Sync>> + Send + Sync + 'static>;

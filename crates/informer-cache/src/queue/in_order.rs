//! The in-order queue: it holds every change in the order of arrival, over all keys. A list or a resync is a
//! single item.
//!
//! This is client-go's [`RealFIFO`](https://pkg.go.dev/k8s.io/client-go/tools/cache#RealFIFO) with atomic
//! events. Informers use this queue by default.
//!
//! # Invariants
//!
//! 1. Every pushed change is popped exactly once, in the order of `push`. Only adjacent bookmarks and
//!    adjacent resyncs are merged: the newest one stays.
//! 2. `has_synced` turns true after the last change of the initial list was *processed*, and not already when
//!    that change is popped.
//! 3. The queue never reads a store, and never drops a change because of its key.
//!
//! # Lock order
//!
//! The only lock is that of the `SharedQueue`. While it is held, no user code runs, not even the `drop` of an
//! object; the transform runs before the lock is taken.
//!
//! # Shutdown
//!
//! 1. `close` rejects writers and wakes all tasks that wait for an item.
//! 2. Readers get the queued items.
//! 3. When the queue is drained, readers get [`QueueClosed`].

pub(crate) mod state;

use std::fmt;
use std::future::Future;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::Arc;

use informer_core::Object;

use self::state::{InOrderState, PoppedBatch};
use super::backpressure::MAX_WEIGHT;
use super::shared::SharedQueue;
use super::transform::Transformer;
use super::{Queue, QueueClosed, ReflectorStore, Transform};
use crate::Change;

/// The maximum number of changes in one store transaction and one batch of notifications, as in client-go.
/// The number is large enough to amortize the fixed cost of a transaction, and small enough for readers to
/// see progress.
const MAX_BATCH: usize = 1000;

/// A queue of changes in order of arrival. A cheap handle; clones share one queue.
///
/// Only one task should pop. With several consumers, each gets changes in order, but they process their
/// batches concurrently.
///
/// ```
/// use informer_cache::Change;
/// use informer_cache::queue::{InOrderQueue, ReflectorStore};
/// use informer_core::{Header, ObjectKey};
/// use std::sync::Arc;
///
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let queue = InOrderQueue::new();
/// queue.push(vec![Change::Added(Arc::new(Header::new(ObjectKey::new("default", "web")?)))])?;
/// let batch = queue.pop_batch(InOrderQueue::<Header>::MAX_BATCH).await?;
/// assert_eq!(batch[0].key().unwrap(), "default/web");
/// batch.done();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct InOrderQueue<O> {
    shared: Arc<SharedQueue<InOrderState<O>>>,
    transform: Option<Arc<Transformer<O>>>,
}

impl<O: Object> InOrderQueue<O> {
    /// The maximum number of changes in one batch.
    pub const MAX_BATCH: usize = MAX_BATCH;

    /// The weight of the queued changes at which [`ready`](ReflectorStore::ready) starts to wait. It resolves
    /// when the weight has fallen to half of this value. A change weighs 1; a complete list weighs 1 plus the
    /// number of its objects.
    pub const MAX_WEIGHT: usize = MAX_WEIGHT;

    /// Creates an empty queue.
    pub fn new() -> Self {
        Self::with(None)
    }

    /// Creates an empty queue that transforms every pushed object once, including those of observed
    /// deletions, but not objects that are already cached. Errors of objects that the transform quarantines
    /// contain `kind`.
    pub fn with_transform(kind: impl Into<Arc<str>>, transform: Transform<O>) -> Self {
        Self::with(Some(Transformer::new(kind, transform)))
    }

    fn with(transform: Option<Transformer<O>>) -> Self {
        Self { shared: Arc::new(SharedQueue::new(InOrderState::new())), transform: transform.map(Arc::new) }
    }

    /// Takes the next changes: all queued ones, but at most `max` and [`MAX_BATCH`](Self::MAX_BATCH). Waits
    /// while the queue is empty.
    ///
    /// A [`Replaced`](Change::Replaced) or a [`Resync`](Change::Resync) is a batch by itself. A batch of
    /// other changes may contain all types of changes, and several changes of one key. No batch crosses the
    /// end of the initial list.
    ///
    /// # Errors
    ///
    /// Returns an error if the queue is closed and drained.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future before it resolves does not take a batch.
    pub async fn pop_batch(&self, max: usize) -> Result<Batch<O>, QueueClosed> {
        self.shared.take(|state| state.pop_batch(max)).await.map(|popped| self.batch(popped))
    }

    /// Takes the next changes like [`pop_batch`](Self::pop_batch), but returns `None` at once if the queue is
    /// empty.
    ///
    /// # Errors
    ///
    /// Returns an error if the queue is closed and drained.
    pub fn try_pop_batch(&self, max: usize) -> Result<Option<Batch<O>>, QueueClosed> {
        let popped = self.shared.try_take(|state| state.pop_batch(max))?;
        Ok(popped.map(|popped| self.batch(popped)))
    }

    fn batch(&self, popped: PoppedBatch<O>) -> Batch<O> {
        let PoppedBatch { changes, is_initial, initial } = popped;
        Batch { changes, receipt: BatchReceipt { shared: Arc::clone(&self.shared), initial, is_initial } }
    }

    /// Returns an unprocessed batch to the head of the queue. The batch must be the one that was popped last;
    /// otherwise the order of changes is lost. A closed queue also accepts the batch.
    pub fn requeue(&self, batch: Batch<O>) {
        let Batch { changes, mut receipt } = batch;
        let initial = std::mem::take(&mut receipt.initial);
        let popped = PoppedBatch { changes, is_initial: receipt.is_initial, initial };
        self.shared.update(|state| state.requeue(popped));
    }

    /// Closes the queue: [`push`](ReflectorStore::push) fails from now on, and queued changes can still be
    /// popped.
    pub fn close(&self) {
        self.shared.close();
    }

    /// Returns true once the queue was closed by [`close`](Self::close).
    pub fn is_closed(&self) -> bool {
        self.shared.is_closed()
    }

    /// Returns true once the first complete list, and all changes queued before it, are processed: popped,
    /// and their [`Batch`] done or dropped. An event that is queued before any list makes the result true
    /// immediately.
    pub fn has_synced(&self) -> bool {
        self.shared.has_synced()
    }

    /// Resolves when [`has_synced`](Self::has_synced) is true.
    ///
    /// # Errors
    ///
    /// Returns an error if the queue is closed before it is synced.
    pub async fn synced(&self) -> Result<(), QueueClosed> {
        self.shared.synced().await
    }

    /// Returns the number of queued changes. A complete list counts as one change.
    pub fn depth(&self) -> usize {
        self.shared.lock().depth()
    }
}

impl<O: Object> ReflectorStore<O> for InOrderQueue<O> {
    fn push(&self, changes: Vec<Change<O>>) -> Result<(), QueueClosed> {
        let changes: Vec<_> = match &self.transform {
            Some(transform) => changes.into_iter().map(|change| transform.change(change)).collect(),
            None => changes,
        };
        self.shared.write(|state| changes.into_iter().try_for_each(|change| state.push(change)))?
    }

    /// Resolves when the queue is not full, or is closed.
    fn ready(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(self.shared.ready())
    }
}

impl<O: Object> Queue for InOrderQueue<O> {
    type Popped = Batch<O>;

    /// Takes a batch of at most [`MAX_BATCH`](InOrderQueue::MAX_BATCH) changes.
    async fn pop(&self) -> Result<Batch<O>, QueueClosed> {
        self.pop_batch(MAX_BATCH).await
    }

    fn requeue(&self, popped: Batch<O>) {
        Self::requeue(self, popped);
    }

    fn close(&self) {
        Self::close(self);
    }

    fn is_closed(&self) -> bool {
        Self::is_closed(self)
    }

    fn has_synced(&self) -> bool {
        Self::has_synced(self)
    }

    async fn synced(&self) -> Result<(), QueueClosed> {
        Self::synced(self).await
    }
}

impl<O> Clone for InOrderQueue<O> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), transform: self.transform.clone() }
    }
}

impl<O: Object> Default for InOrderQueue<O> {
    fn default() -> Self {
        Self::new()
    }
}

impl<O> fmt::Debug for InOrderQueue<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("InOrderQueue").field(&*self.shared.lock()).finish()
    }
}

/// Changes that were popped together, in order. The changes count as processed when [`done`](Self::done) is
/// called or the batch is dropped.
#[must_use = "a batch that is dropped counts as processed"]
pub struct Batch<O> {
    changes: Vec<Change<O>>,
    receipt: BatchReceipt<O>,
}

/// A receipt for popped changes. The changes count as processed when [`done`](Self::done) is called or the
/// receipt is dropped.
#[must_use = "changes count as processed when their receipt is dropped"]
pub struct BatchReceipt<O> {
    shared: Arc<SharedQueue<InOrderState<O>>>,
    initial: usize,
    is_initial: bool,
}

impl<O> Batch<O> {
    /// Returns true if the changes belong to the initial list, or were queued before it.
    pub fn is_initial(&self) -> bool {
        self.receipt.is_initial
    }

    /// Returns the changes and a receipt for them. Keep the receipt until the changes are processed.
    pub fn into_changes(self) -> (Vec<Change<O>>, BatchReceipt<O>) {
        (self.changes, self.receipt)
    }

    /// Marks the changes of the batch as processed, like dropping the batch.
    pub fn done(self) {}
}

impl<O> BatchReceipt<O> {
    /// Returns true if the changes belong to the initial list, or were queued before it.
    pub fn is_initial(&self) -> bool {
        self.is_initial
    }

    /// Marks the changes as processed, like dropping the receipt.
    pub fn done(self) {}
}

impl<O> Drop for BatchReceipt<O> {
    fn drop(&mut self) {
        if self.initial > 0 {
            self.shared.update(|state| state.done(self.initial));
        }
    }
}

impl<O> Deref for Batch<O> {
    type Target = [Change<O>];

    fn deref(&self) -> &[Change<O>] {
        &self.changes
    }
}

impl<O: Object> fmt::Debug for Batch<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batch")
            .field("changes", &self.changes)
            .field("is_initial", &self.is_initial())
            .finish()
    }
}

impl<O> fmt::Debug for BatchReceipt<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BatchReceipt").field("is_initial", &self.is_initial).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;

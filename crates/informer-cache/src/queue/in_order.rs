//! The in-order queue: every change, in order of arrival over all keys; lists and resyncs as single items.
//!
//! Client-go's [`RealFIFO`](https://pkg.go.dev/k8s.io/client-go/tools/cache#RealFIFO) with atomic events, and
//! the default inside an informer.
//!
//! # Invariants
//!
//! 1. What was pushed is popped exactly once, in the order of `push`, but for neighbouring bookmarks and
//!    resyncs, of which the newest stays.
//! 2. Has-synced turns true only after the last change of the initial list was *processed*, not popped.
//! 3. The queue never reads a store, and never drops a change because of its key.
//!
//! # Lock order
//!
//! The one lock of the `SharedQueue` only, and nothing is awaited or dropped under it that could run foreign
//! code. The transform runs before it is taken.
//!
//! # Shutdown
//!
//! 1. `close` rejects writers and wakes all waiters. 2. Readers get the queued items. 3. Then they get
//!    [`QueueClosed`].

pub(super) mod state;

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

/// As many changes as one store transaction and one batch of notifications should hold: enough to pay their
/// fixed cost once, few enough that readers see progress (upstream's number).
const MAX_BATCH: usize = 1000;

/// A queue of changes in order of arrival. A cheap handle; clones share one queue.
///
/// One consumer is expected: with several, each gets changes in order, and what they do with them is not
/// ordered.
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
    /// The most changes that one batch holds.
    pub const MAX_BATCH: usize = MAX_BATCH;

    /// The weight from which on [`ready`](ReflectorStore::ready) waits; a change weighs 1, a complete list as
    /// much as its objects. It resolves again at half of it.
    pub const MAX_WEIGHT: usize = MAX_WEIGHT;

    /// An empty queue.
    pub fn new() -> Self {
        Self::with(None)
    }

    /// An empty queue that transforms what is pushed: every fresh object once, that of an observed deletion
    /// included, never a known one. `kind` is named in the errors of objects that the transform sets aside.
    pub fn with_transform(kind: impl Into<Arc<str>>, transform: Transform<O>) -> Self {
        Self::with(Some(Transformer::new(kind, transform)))
    }

    fn with(transform: Option<Transformer<O>>) -> Self {
        Self { shared: Arc::new(SharedQueue::new(InOrderState::new())), transform: transform.map(Arc::new) }
    }

    /// Takes the next changes: as many as are there, at most `max` and [`MAX_BATCH`](Self::MAX_BATCH). Waits
    /// while there is none.
    ///
    /// A [`Replaced`](Change::Replaced) and a [`Resync`](Change::Resync) come alone. All other kinds mix, and
    /// one key may occur several times. No batch crosses the end of the initial list.
    ///
    /// # Errors
    ///
    /// When the queue is closed and everything was taken.
    ///
    /// # Cancel safety
    ///
    /// A future that is dropped before it resolved took nothing.
    pub async fn pop_batch(&self, max: usize) -> Result<Batch<O>, QueueClosed> {
        self.shared.take(|state| state.pop_batch(max)).await.map(|popped| self.batch(popped))
    }

    /// As [`pop_batch`](Self::pop_batch), but `None` if nothing is queued.
    ///
    /// # Errors
    ///
    /// When the queue is closed and everything was taken.
    pub fn try_pop_batch(&self, max: usize) -> Result<Option<Batch<O>>, QueueClosed> {
        let popped = self.shared.try_take(|state| state.pop_batch(max))?;
        Ok(popped.map(|popped| self.batch(popped)))
    }

    fn batch(&self, popped: PoppedBatch<O>) -> Batch<O> {
        let PoppedBatch { changes, is_initial, initial } = popped;
        Batch { changes, receipt: BatchReceipt { shared: Arc::clone(&self.shared), initial, is_initial } }
    }

    /// Puts a batch back to the head of the queue, unprocessed. It must be the newest one that was popped, or
    /// the order is lost. A closed queue takes it back too.
    pub fn requeue(&self, batch: Batch<O>) {
        let Batch { changes, mut receipt } = batch;
        let initial = std::mem::take(&mut receipt.initial);
        let popped = PoppedBatch { changes, is_initial: receipt.is_initial, initial };
        self.shared.update(|state| state.requeue(popped));
    }

    /// Closes the queue: [`push`](ReflectorStore::push) fails from now on; queued items can still be popped.
    pub fn close(&self) {
        self.shared.close();
    }

    /// True after [`close`](Self::close).
    pub fn is_closed(&self) -> bool {
        self.shared.is_closed()
    }

    /// True once the first complete list, and whatever was queued before it, is processed: popped, and its
    /// [`Batch`] done. An event that is queued before any list makes it true at once.
    pub fn has_synced(&self) -> bool {
        self.shared.has_synced()
    }

    /// Resolves when [`has_synced`](Self::has_synced) is true.
    ///
    /// # Errors
    ///
    /// When the queue is closed before.
    pub async fn synced(&self) -> Result<(), QueueClosed> {
        self.shared.synced().await
    }

    /// How many changes are queued. A complete list is one.
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

    /// Resolves while the queue has room or is closed.
    fn ready(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(self.shared.ready())
    }
}

impl<O: Object> Queue for InOrderQueue<O> {
    type Popped = Batch<O>;

    /// A batch of at most [`MAX_BATCH`](InOrderQueue::MAX_BATCH) changes.
    async fn pop(&self) -> Result<Batch<O>, QueueClosed> {
        self.pop_batch(MAX_BATCH).await
    }

    /// Puts the batch back to the head.
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

/// Changes that were popped together, in order. They count as processed when this is [done](Self::done) or
/// dropped.
#[must_use = "a batch that is dropped counts as processed"]
pub struct Batch<O> {
    changes: Vec<Change<O>>,
    receipt: BatchReceipt<O>,
}

/// Stands for changes that are being processed; when it is [done](Self::done) or dropped, they are.
#[must_use = "a receipt that is dropped says that the changes are processed"]
pub struct BatchReceipt<O> {
    shared: Arc<SharedQueue<InOrderState<O>>>,
    initial: usize,
    is_initial: bool,
}

impl<O> Batch<O> {
    /// True if the changes belong to the initial list, or came before it.
    pub fn is_initial(&self) -> bool {
        self.receipt.is_initial
    }

    /// Takes the changes out. The receipt is to be kept until they are processed.
    pub fn into_changes(self) -> (Vec<Change<O>>, BatchReceipt<O>) {
        (self.changes, self.receipt)
    }

    /// The changes are processed. The same as dropping the batch.
    pub fn done(self) {}
}

impl<O> BatchReceipt<O> {
    /// True if the changes belong to the initial list, or came before it.
    pub fn is_initial(&self) -> bool {
        self.is_initial
    }

    /// The changes are processed. The same as dropping the receipt.
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

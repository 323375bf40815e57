//! The in-order queue: every change, in order of arrival over all keys; lists and resyncs as single items.
//!
//! Client-go's [`RealFIFO`](https://pkg.go.dev/k8s.io/client-go/tools/cache#RealFIFO) with atomic events, and the
//! default inside an informer.
//!
//! # Invariants
//!
//! 1. What was pushed is popped exactly once, in the order of `push`, but for neighbouring bookmarks and resyncs, of
//!    which the newest stays.
//! 2. Has-synced turns true only after the last change of the initial population was *processed*, not popped.
//! 3. The queue never reads a store, and never drops a change because of its key.
//!
//! # Lock order
//!
//! `state` only, and nothing is awaited, notified or dropped under it that could run foreign code. The transform runs
//! before the lock is taken.
//!
//! # Shutdown
//!
//! 1. `close` refuses writers and wakes everybody. 2. Readers get what is queued. 3. Then they get [`QueueClosed`].

pub(super) mod state;

use std::fmt;
use std::future::Future;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::Arc;

use informer_core::Object;
use parking_lot::Mutex;
use tokio::sync::Notify;

use self::state::{InOrderState, PoppedBatch};
use super::transform::Transformer;
use super::wait::wait_until;
use super::{QueueClosed, ReflectorStore, Transform};
use crate::Change;

/// As many changes as one store transaction and one batch of notifications should hold: enough to pay their fixed
/// cost once, few enough that readers see progress (upstream's number).
const BATCH_MAX: usize = 1000;

/// From this weight on the source has to wait: ten batches keep the pump busy while the source wakes up, and at some
/// 5 KB an object they are 50 MB.
const WEIGHT_MAX: usize = 10_000;

/// Down to this weight it waits: half, so that source and pump do not wake each other for every change.
const WEIGHT_RESUME: usize = WEIGHT_MAX / 2;

/// A queue of changes in order of arrival. A cheap handle; clones share one queue.
///
/// One consumer is expected: with several, each gets changes in order, and what they do with them is not ordered.
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
/// let batch = queue.pop_batch(InOrderQueue::<Header>::BATCH_MAX).await?;
/// assert_eq!(batch[0].key().unwrap(), "default/web");
/// batch.done();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct InOrderQueue<O> {
    shared: Arc<Shared<O>>,
}

struct Shared<O> {
    state: Mutex<InOrderState<O>>,
    transform: Option<Transformer<O>>,
    /// Something was queued, or the queue was closed.
    queued: Notify,
    /// There is room again, or the queue was closed.
    room: Notify,
    /// The initial population is processed, or the queue was closed.
    synced: Notify,
}

impl<O: Object> InOrderQueue<O> {
    /// The most changes that one batch holds.
    pub const BATCH_MAX: usize = BATCH_MAX;

    /// The weight from which on [`ready`](ReflectorStore::ready) waits; a change weighs 1, a complete list as much as
    /// its objects. It resolves again at half of it.
    pub const WEIGHT_MAX: usize = WEIGHT_MAX;

    /// An empty queue.
    pub fn new() -> Self {
        Self::with(None)
    }

    /// An empty queue that transforms what is pushed: every fresh object once, never a known one, never a tombstone.
    /// `kind` is named in the errors of objects that the transform sets aside.
    pub fn with_transform(kind: impl Into<Arc<str>>, transform: Transform<O>) -> Self {
        Self::with(Some(Transformer::new(kind, transform)))
    }

    fn with(transform: Option<Transformer<O>>) -> Self {
        let state = Mutex::new(InOrderState::new());
        let (queued, room, synced) = (Notify::new(), Notify::new(), Notify::new());
        Self { shared: Arc::new(Shared { state, transform, queued, room, synced }) }
    }

    /// Takes the next changes: as many as are there, at most `max` and [`BATCH_MAX`](Self::BATCH_MAX). Waits while
    /// there is none.
    ///
    /// A [`Replaced`](Change::Replaced) and a [`Resync`](Change::Resync) come alone. All other kinds mix, and one key
    /// may occur several times. No batch crosses the end of the initial population.
    ///
    /// # Errors
    ///
    /// When the queue is closed and everything was taken.
    ///
    /// # Cancel safety
    ///
    /// A future that is dropped before it resolved took nothing.
    pub async fn pop_batch(&self, max: usize) -> Result<Batch<O>, QueueClosed> {
        wait_until(&self.shared.queued, || self.try_pop_batch(max).transpose()).await
    }

    /// As [`pop_batch`](Self::pop_batch), but `None` where nothing is queued.
    ///
    /// # Errors
    ///
    /// When the queue is closed and everything was taken.
    pub fn try_pop_batch(&self, max: usize) -> Result<Option<Batch<O>>, QueueClosed> {
        let mut state = self.shared.state.lock();
        let had_room = state.has_room();
        let Some(popped) = state.pop_batch(max) else {
            return if state.is_closed() { Err(QueueClosed) } else { Ok(None) };
        };
        let has_room = state.has_room();
        drop(state);
        if has_room && !had_room {
            self.shared.room.notify_waiters();
        }
        Ok(Some(Batch::new(popped, Arc::clone(&self.shared))))
    }

    /// Puts a batch back to the head of the queue, unprocessed. It must be the newest one that was popped, or the
    /// order is lost. A closed queue takes it back too.
    pub fn requeue(&self, batch: Batch<O>) {
        let Batch { changes, mut receipt } = batch;
        let initial = std::mem::take(&mut receipt.initial);
        let popped = PoppedBatch { changes, is_initial: receipt.is_initial, initial };
        self.shared.state.lock().requeue(popped);
        self.shared.queued.notify_waiters();
    }

    /// Closes the queue: [`push`](ReflectorStore::push) fails from now on; what is queued can still be popped.
    pub fn close(&self) {
        self.shared.state.lock().close();
        for waiting in [&self.shared.queued, &self.shared.room, &self.shared.synced] {
            waiting.notify_waiters();
        }
    }

    /// True after [`close`](Self::close).
    pub fn is_closed(&self) -> bool {
        self.shared.state.lock().is_closed()
    }

    /// True once the first complete list, and whatever was queued before it, is processed: popped, and its
    /// [`Batch`] done. An event that is queued before any list makes it true at once.
    pub fn has_synced(&self) -> bool {
        self.shared.state.lock().has_synced()
    }

    /// Resolves when [`has_synced`](Self::has_synced) is true.
    ///
    /// # Errors
    ///
    /// When the queue is closed before.
    pub async fn synced(&self) -> Result<(), QueueClosed> {
        wait_until(&self.shared.synced, || {
            let state = self.shared.state.lock();
            match state.has_synced() {
                true => Some(Ok(())),
                false => state.is_closed().then_some(Err(QueueClosed)),
            }
        })
        .await
    }

    /// How many changes are queued. A complete list is one.
    pub fn depth(&self) -> usize {
        self.shared.state.lock().depth()
    }
}

impl<O: Object> ReflectorStore<O> for InOrderQueue<O> {
    fn push(&self, changes: Vec<Change<O>>) -> Result<(), QueueClosed> {
        let changes = match &self.shared.transform {
            Some(transform) => changes.into_iter().map(|change| transform.change(change)).collect(),
            None => changes,
        };
        self.shared.push(changes)
    }

    /// Resolves while the queue has room or is closed.
    fn ready(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        let shared = &self.shared;
        Box::pin(wait_until(&shared.room, || {
            let state = shared.state.lock();
            (state.has_room() || state.is_closed()).then_some(())
        }))
    }
}

impl<O> Shared<O> {
    fn push(&self, changes: Vec<Change<O>>) -> Result<(), QueueClosed> {
        let mut state = self.state.lock();
        if state.is_closed() {
            // The objects are dropped after the lock: their destructors are not ours.
            drop(state);
            return Err(QueueClosed);
        }
        let was_synced = state.has_synced();
        for change in changes {
            state.push(change)?;
        }
        let synced = state.has_synced() && !was_synced;
        drop(state);
        self.queued.notify_waiters();
        if synced {
            self.synced.notify_waiters();
        }
        Ok(())
    }

    fn done(&self, initial: usize) {
        let mut state = self.state.lock();
        state.done(initial);
        let synced = state.has_synced();
        drop(state);
        if synced {
            self.synced.notify_waiters();
        }
    }
}

impl<O> Clone for InOrderQueue<O> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<O: Object> Default for InOrderQueue<O> {
    fn default() -> Self {
        Self::new()
    }
}

impl<O> fmt::Debug for InOrderQueue<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("InOrderQueue").field(&*self.shared.state.lock()).finish()
    }
}

/// Changes that were popped together, in order. They count as processed when this is [done](Self::done) or dropped.
#[must_use = "a batch that is dropped counts as processed"]
pub struct Batch<O> {
    changes: Vec<Change<O>>,
    receipt: BatchReceipt<O>,
}

/// Stands for changes that are being processed; when it is [done](Self::done) or dropped, they are.
#[must_use = "a receipt that is dropped says that the changes are processed"]
pub struct BatchReceipt<O> {
    shared: Arc<Shared<O>>,
    initial: usize,
    is_initial: bool,
}

impl<O> Batch<O> {
    fn new(popped: PoppedBatch<O>, shared: Arc<Shared<O>>) -> Self {
        let PoppedBatch { changes, is_initial, initial } = popped;
        Self { changes, receipt: BatchReceipt { shared, initial, is_initial } }
    }

    /// True where the changes belong to the initial population, or came before it.
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
    /// True where the changes belong to the initial population, or came before it.
    pub fn is_initial(&self) -> bool {
        self.is_initial
    }

    /// The changes are processed. The same as dropping the receipt.
    pub fn done(self) {}
}

impl<O> Drop for BatchReceipt<O> {
    fn drop(&mut self) {
        if self.initial > 0 {
            self.shared.done(self.initial);
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

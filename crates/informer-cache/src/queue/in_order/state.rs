use std::collections::VecDeque;
use std::fmt;

use informer_core::Object;

use super::MAX_BATCH;
use crate::Change;
use crate::queue::QueueClosed;
use crate::queue::backpressure::Backpressure;
use crate::queue::initial_sync::InitialSync;
use crate::queue::shared::{SharedQueueState, Signals};

/// The pure state of an [`InOrderQueue`](super::InOrderQueue), without lock and clock. Its methods never
/// wait.
///
/// The state can be used without a queue, for example by a single-threaded simulator:
///
/// ```
/// use informer_cache::Change;
/// use informer_cache::proto::InOrderState;
/// use informer_core::{Header, ObjectKey};
/// use std::sync::Arc;
///
/// let mut queue = InOrderState::new();
/// queue.push(Change::Added(Arc::new(Header::new(ObjectKey::new("default", "web")?))))?;
/// let batch = queue.pop_batch(1000).expect("one change is queued");
/// assert_eq!(batch.changes.len(), 1);
/// queue.done(batch.initial);
/// assert!(queue.has_synced());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Invariants
///
/// 1. `backpressure` is the weight of the changes in `queue`.
/// 2. Changes that belong to the initial list precede all other changes.
/// 3. No two adjacent changes are bookmarks, and no two are resyncs.
pub struct InOrderState<O> {
    queue: VecDeque<Change<O>>,
    backpressure: Backpressure,
    initial_sync: InitialSync,
    closed: bool,
}

/// Changes that were popped together as one batch.
pub struct PoppedBatch<O> {
    /// The popped changes, in order of arrival. There is at least one change.
    pub changes: Vec<Change<O>>,
    /// True if the changes belong to the initial list, or were queued before it.
    pub is_initial: bool,
    /// The number of popped changes that belong to the initial list, for which `has_synced` waits. The caller
    /// passes this number to [`InOrderState::done`] once the changes are processed.
    pub initial: usize,
}

impl<O> InOrderState<O> {
    /// Creates an empty queue.
    pub fn new() -> Self {
        Self {
            queue: VecDeque::new(),
            backpressure: Backpressure::default(),
            initial_sync: InitialSync::default(),
            closed: false,
        }
    }

    /// Queues a change. If the last queued change is a bookmark and the new one too, the new one replaces it.
    /// The same holds for two resyncs.
    ///
    /// # Errors
    ///
    /// Returns an error if the queue is closed.
    pub fn push(&mut self, change: Change<O>) -> Result<(), QueueClosed> {
        if self.closed {
            return Err(QueueClosed);
        }
        let is_list = matches!(change, Change::Replaced(_));
        if matches!(change, Change::Added(_) | Change::Updated(_) | Change::Deleted(_)) {
            self.initial_sync.event();
        }
        match (self.queue.back_mut(), change) {
            (Some(last @ Change::Bookmark(_)), newer @ Change::Bookmark(_)) => *last = newer,
            (Some(Change::Resync), Change::Resync) => {}
            (_, change) => {
                self.backpressure.grow(weight(&change));
                self.queue.push_back(change);
            }
        }
        if is_list {
            self.initial_sync.list(self.queue.len());
        }
        Ok(())
    }

    /// Takes the next changes: at least one and at most `max`, and never more than
    /// [`MAX_BATCH`](super::InOrderQueue::MAX_BATCH). Returns `None` if the queue is empty.
    ///
    /// A complete list or a resync is a batch by itself, and no batch crosses the end of the initial list.
    pub fn pop_batch(&mut self, max: usize) -> Option<PoppedBatch<O>> {
        let first = self.queue.front()?;
        let limit = match self.initial_sync.queued() {
            0 => max.clamp(1, MAX_BATCH),
            initial => max.clamp(1, MAX_BATCH).min(initial),
        };
        let count = if goes_alone(first) {
            1
        } else {
            self.queue.iter().take(limit).take_while(|change| !goes_alone(change)).count()
        };
        let is_initial = self.initial_sync.is_initial();
        let changes: Vec<_> = self.queue.drain(..count).collect();
        self.backpressure.shrink(changes.iter().map(weight).sum());
        Some(PoppedBatch { changes, is_initial, initial: self.initial_sync.popped(count) })
    }

    /// Marks popped changes as processed. `initial` is the value of [`PoppedBatch::initial`] for them.
    pub fn done(&mut self, initial: usize) {
        self.initial_sync.processed(initial);
    }

    /// Returns a popped batch to the head of the queue, as if it had not been popped. The batch must be the
    /// one that was popped last; otherwise the order of changes is lost. A closed queue accepts the batch
    /// too, since it is not drained before all popped changes are processed.
    pub fn requeue(&mut self, batch: PoppedBatch<O>) {
        self.initial_sync.returned(batch.changes.len(), batch.initial);
        for change in batch.changes.into_iter().rev() {
            self.backpressure.grow(weight(&change));
            self.queue.push_front(change);
        }
    }

    /// Closes the queue: further changes are rejected, and queued changes can still be popped.
    pub fn close(&mut self) {
        self.closed = true;
    }

    /// Returns true once the queue was closed by [`close`](Self::close).
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// Returns true once the first complete list, and all changes queued before it, are processed. An event
    /// that is queued before any list makes the result true immediately, like in client-go.
    pub fn has_synced(&self) -> bool {
        self.initial_sync.has_synced()
    }

    /// Returns true if the writer need not wait. The result turns false when the queued weight reaches the
    /// limit, and true again when the weight has fallen to half of the limit.
    pub fn has_room(&self) -> bool {
        self.backpressure.has_room()
    }

    /// Returns the number of queued changes. A complete list counts as one change.
    pub fn depth(&self) -> usize {
        self.queue.len()
    }

    /// Returns the weight of the queued changes. A change weighs 1; a complete list weighs 1 plus the number
    /// of its objects.
    pub fn weight(&self) -> usize {
        self.backpressure.weight()
    }
}

impl<O> SharedQueueState for InOrderState<O> {
    fn signals(&self) -> Signals {
        Signals {
            poppable: !self.queue.is_empty(),
            empty: self.queue.is_empty(),
            has_room: self.has_room(),
            has_synced: self.has_synced(),
            closed: self.closed,
        }
    }

    fn close(&mut self) {
        self.closed = true;
    }
}

fn weight<O>(change: &Change<O>) -> usize {
    match change {
        Change::Replaced(replacement) => replacement.items.len() + 1,
        _ => 1,
    }
}

fn goes_alone<O>(change: &Change<O>) -> bool {
    matches!(change, Change::Replaced(_) | Change::Resync)
}

impl<O> Default for InOrderState<O> {
    fn default() -> Self {
        Self::new()
    }
}

impl<O> fmt::Debug for InOrderState<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InOrderState")
            .field("depth", &self.depth())
            .field("backpressure", &self.backpressure)
            .field("initial_sync", &self.initial_sync)
            .field("closed", &self.closed)
            .finish()
    }
}

impl<O: Object> fmt::Debug for PoppedBatch<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PoppedBatch")
            .field("changes", &self.changes)
            .field("is_initial", &self.is_initial)
            .field("initial", &self.initial)
            .finish()
    }
}

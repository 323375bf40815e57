//! The work queue: the handle, and what is done with single keys.
//!
//! Pure [`state`] sits behind one short lock in the [`driver`]; this file hashes keys, asks the rate limiter and
//! feeds metrics, all outside of that lock.

mod add;
mod builder;
mod delays;
mod driver;
mod error;
mod groups;
mod item;
mod order;
mod slots;
mod state;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;
use std::time::Duration;

use foldhash::fast::RandomState;
use tokio::time::Instant;

pub use self::add::{AddOptions, LOW_PRIORITY};
pub use self::builder::WorkQueueBuilder;
pub use self::error::DrainError;
pub use self::item::{Item, OnDrop};
pub use self::order::Ageing;

use self::driver::{Driver, Found};
use self::state::{Finished, Phase, Taken, Ticket, Wish};
use crate::metrics::{Observe, QueueDepth, QueueMetrics, QueueStats};
use crate::rate_limit::RateLimiter;

/// How many keys a queue holds at most: slots are numbered in 32 bits to halve the memory of a waiting key. The keys
/// themselves fill the memory of most machines first; an add beyond is refused.
pub const KEYS_MAX: u32 = u32::MAX - 1;

/// How many keys one call of [`WorkQueue::get_batch`] takes at most, because the lock is held for all of them.
const BATCH_MAX: usize = 256;

/// How many waiting keys are dropped in one hold of the lock.
const CANCELLED_AT_ONCE: usize = 64;

/// How many rows of [`QueueStats::depths`] there are at most. The rest is added up, as dashboards cannot show it.
const DEPTHS_MAX: usize = 100;

/// What a queue holds: anything that can be compared, hashed and cloned. Implemented for all such types.
///
/// Eq and Clone run under the lock of the queue and should be cheap; Hash runs before it is taken. If one of them
/// panics, the panic reaches the caller, and the queue stays usable: an add changes nothing, and a key that cannot
/// be cloned goes to the end of its line.
pub trait QueueKey: Eq + Hash + Clone + Send + 'static {}

impl<K: Eq + Hash + Clone + Send + 'static> QueueKey for K {}

/// A queue of keys on which work is to be done, each by one worker at a time.
///
/// A handle: clones are cheap and mean the same queue.
///
/// # Contract
///
/// - *Deduplication.* A key that was added several times before it is handed out is handed out once.
/// - *One at a time.* A key that is handed out is handed out again only after its outcome is known. An add in
///   between is not lost: the key comes again after [`Item::done`].
/// - *Order.* First in, first out. With [`priorities`](WorkQueueBuilder::priorities), higher ones first; with
///   [`fair_by`](WorkQueueBuilder::fair_by), groups in turn within a priority.
/// - *Delays.* A key waits for the earliest moment that was asked for, and an immediate add ends the wait. Among
///   keys that wait for the same moment the first added comes first. A deadline is met to the millisecond, late
///   rather than early.
/// - *Shutdown.* Nothing is added any more, what waits for a deadline is dropped, what is ready is still handed out.
///
/// # Runtime
///
/// No task is started. As long as no key waits for a deadline, every async runtime will do; the timer needs tokio,
/// on whatever flavour [`get`](Self::get) is awaited. All time is tokio's, so that paused time governs it.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// use informer_workqueue::WorkQueue;
///
/// let queue = WorkQueue::new();
/// queue.add("a");
/// queue.add("b");
/// queue.add("a");
///
/// let item = queue.get().await.expect("not shut down");
/// assert_eq!(*item, "a");
/// queue.add("a"); // While it is processed: it comes again after `done`.
/// item.done();
///
/// queue.shut_down();
/// let mut rest = Vec::new();
/// while let Some(item) = queue.get().await {
///     rest.push(*item);
///     item.done();
/// }
/// assert_eq!(rest, ["b", "a"]);
/// # }
/// ```
pub struct WorkQueue<K: QueueKey> {
    shared: Arc<Shared<K>>,
}

/// The name of a key's group.
type GroupOf<K> = dyn for<'k> Fn(&'k K) -> Cow<'k, str> + Send + Sync;

struct Shared<K: QueueKey> {
    driver: Driver<K>,
    hasher: RandomState,
    limiter: Box<dyn RateLimiter<K>>,
    group_of: Option<Box<GroupOf<K>>>,
    metrics: Option<Arc<dyn QueueMetrics>>,
    on_drop: OnDrop,
}

/// A key that waits for its deadline.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Waiting<K> {
    /// The key.
    pub key: K,
    /// When it becomes ready.
    pub due: Instant,
}

// === getting ===

impl<K: QueueKey> WorkQueue<K> {
    /// Waits for the next key. `None` means that the queue is shut down and will hand out nothing more: nothing is
    /// ready, and no key in process was added again.
    ///
    /// # Cancel safety
    ///
    /// A future that is dropped loses no key: a key is taken in its last step, and a wake-up it did not use goes to
    /// the next getter.
    ///
    /// # Panics
    ///
    /// If a key waits for a deadline and there is no tokio runtime with a time driver, and if Clone of a key panics.
    pub async fn get(&self) -> Option<Item<K>> {
        let mut item = None;
        let mut give = |taken| item = Some(Item::new(self, taken));
        self.shared.driver.wait(1, &mut give, &|keys| self.shared.count_added(keys)).await;
        self.shared.count_taken(item.as_slice());
        item
    }

    /// Waits until at least one key is ready, then takes up to `max` of them, at most 256. 0 counts as 1. The
    /// answer is empty when the queue is shut down and will hand out nothing more.
    ///
    /// Cancel safe, and panics, as [`get`](Self::get).
    pub async fn get_batch(&self, max: usize) -> Vec<Item<K>> {
        let mut items = Vec::new();
        let mut give = |taken| items.push(Item::new(self, taken));
        let max = max.clamp(1, BATCH_MAX);
        self.shared.driver.wait(max, &mut give, &|keys| self.shared.count_added(keys)).await;
        self.shared.count_taken(&items);
        items
    }

    /// The next key, if one is ready now.
    ///
    /// # Panics
    ///
    /// If Clone of the key panics.
    pub fn try_get(&self) -> Option<Item<K>> {
        let mut item = None;
        let (_, ready): (Found, usize) =
            self.shared.driver.take(1, &mut |taken| item = Some(Item::new(self, taken)));
        self.shared.count_added(ready);
        self.shared.count_taken(item.as_slice());
        item
    }

    /// Ends the hand-out of a key, for callers that [`detach`](Item::detach)ed it. Returns false, and does nothing,
    /// if the key is not in process.
    pub fn done(&self, key: &K) -> bool {
        let hash = self.shared.hasher.hash_one(key);
        let ticket = self.shared.driver.lock().state.ticket(hash, key);
        ticket.is_some_and(|ticket| self.shared.finish(ticket, None).is_some())
    }
}

// === looking ===

impl<K: QueueKey> WorkQueue<K> {
    /// How many keys are ready to be handed out. Keys that wait or are in process do not count.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shared.ready()
    }

    /// Whether no key is ready to be handed out.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many keys are in process.
    #[must_use]
    pub fn processing_len(&self) -> usize {
        self.shared.driver.lock().state.processing()
    }

    /// How many keys wait for a deadline.
    #[must_use]
    pub fn waiting_len(&self) -> usize {
        self.shared.ready();
        self.shared.driver.lock().state.delays.len()
    }

    /// The first `max` of the keys that wait, in the order in which they become ready. The lock is held while they
    /// are cloned.
    #[must_use]
    pub fn waiting(&self, max: usize) -> Vec<Waiting<K>> {
        let mut keys = Vec::new();
        let clock = self.shared.driver.clock();
        let inner = self.shared.driver.lock();
        for (slot, due) in inner.state.delays.first(max) {
            let key = inner.state.slots[slot].key.clone();
            keys.extend(key.map(|key| Waiting { key, due: clock.instant(due) }));
        }
        drop(inner);
        keys
    }

    /// When a key that waits becomes ready. `None` if it does not wait.
    #[must_use]
    pub fn due(&self, key: &K) -> Option<Instant> {
        let hash = self.shared.hasher.hash_one(key);
        let inner = self.shared.driver.lock();
        let due = inner.state.delays.due(inner.state.find(hash, key)?)?;
        drop(inner);
        Some(self.shared.driver.clock().instant(due))
    }

    /// Ends the wait of a key without handing it out. Returns whether it waited; a key that is ready stays so.
    pub fn cancel_waiting(&self, key: &K) -> bool {
        let hash = self.shared.hasher.hash_one(key);
        let mut inner = self.shared.driver.lock();
        let Some(id) = inner.state.find(hash, key) else { return false };
        let (waited, key) = inner.state.cancel_waiting(id);
        drop(inner);
        drop(key);
        waited
    }

    /// Ends the wait of all keys that wait now. Returns how many did.
    pub fn cancel_all_waiting(&self) -> usize {
        let wanted = self.shared.driver.lock().state.delays.len();
        let mut cancelled = 0;
        while cancelled < wanted {
            let mut keys = Vec::with_capacity(CANCELLED_AT_ONCE);
            let mut inner = self.shared.driver.lock();
            while keys.len() < CANCELLED_AT_ONCE
                && let Some(key) = inner.state.cancel_any()
            {
                keys.push(key);
            }
            drop(inner);
            if keys.is_empty() {
                break;
            }
            cancelled += keys.len();
        }
        cancelled
    }

    /// What the queue holds, for metrics and debug pages: by priority and by group where it has them.
    ///
    /// Looks at every priority and group that has a ready key, and at every key in process, under the lock: meant
    /// for a scrape, not for every add. Times in process are only kept in a queue with
    /// [`metrics`](WorkQueueBuilder::metrics).
    #[must_use]
    pub fn stats(&self) -> QueueStats {
        self.shared.stats()
    }

    /// Forgets the failures of a key, so that its next rate limited add starts anew. It stays where it is.
    pub fn forget(&self, key: &K) {
        self.shared.limiter.forget(key);
    }

    /// How often the key was added with the rate limit since it was last forgotten.
    #[must_use]
    pub fn retries(&self, key: &K) -> u32 {
        self.shared.limiter.retries(key)
    }
}

// === shutting down ===

impl<K: QueueKey> WorkQueue<K> {
    /// Takes no more keys and drops those that wait. What is ready is still handed out. A drain that waits is broken
    /// off.
    pub fn shut_down(&self) {
        self.close(Phase::Closed);
    }

    /// Shuts down, and waits until everything that is ready or in process is done. Somebody must still be getting
    /// keys, else this takes until the deadline.
    ///
    /// A key that was added again while it was processed is handed out once more.
    ///
    /// # Errors
    ///
    /// If the deadline passed, or [`shut_down`](Self::shut_down) was called meanwhile. Either way the queue stays
    /// shut down, and what is ready is still handed out.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped the queue stays shut down.
    pub async fn shut_down_with_drain(&self, deadline: Duration) -> Result<(), DrainError> {
        self.close(Phase::Draining);
        let driver = &self.shared.driver;
        let deadline = driver.clock().now().after(deadline);
        loop {
            let mut drained = std::pin::pin!(driver.drained.notified());
            drained.as_mut().enable();
            if let Some(end) = self.drain_end() {
                return end;
            }
            if tokio::time::timeout_at(driver.clock().instant(deadline), drained).await.is_err() {
                let inner = driver.lock();
                let (ready, processing) = (inner.state.ready(), inner.state.processing());
                return Err(DrainError::DeadlinePassed { ready, processing });
            }
        }
    }

    /// Whether the queue takes no more keys.
    #[must_use]
    pub fn is_shutting_down(&self) -> bool {
        self.shared.driver.lock().state.phase != Phase::Open
    }

    fn close(&self, phase: Phase) {
        // A key that is due is ready, even if nobody has looked yet.
        self.shared.ready();
        self.shared.driver.lock().state.phase = phase;
        self.shared.driver.wake_all();
        self.cancel_all_waiting();
    }

    fn drain_end(&self) -> Option<Result<(), DrainError>> {
        let inner = self.shared.driver.lock();
        let (ready, processing) = (inner.state.ready(), inner.state.processing());
        match inner.state.phase {
            _ if inner.state.is_drained() => Some(Ok(())),
            Phase::Closed => Some(Err(DrainError::BrokenOff { ready, processing })),
            Phase::Open | Phase::Draining => None,
        }
    }
}

// === impl Shared ===

impl<K: QueueKey> Shared<K> {
    /// How many keys are ready, after those that are due became so.
    fn ready(&self) -> usize {
        loop {
            let mut inner = self.driver.lock();
            let effect = self.driver.promote(&mut inner);
            let ready = inner.state.ready();
            self.driver.settle(inner, effect);
            if effect.added == 0 {
                return ready;
            }
            self.count_added(effect.added);
        }
    }

    /// Ends a hand-out. Tells whether the key is still to come; `None` if the hand-out had ended before.
    fn finish(&self, ticket: Ticket, again: Option<(Duration, i32)>) -> Option<bool> {
        let now = if again.is_some() { self.driver.clock().now() } else { self.driver.now() };
        let wish = again.map(|(delay, priority)| Wish { due: deadline(now.after(delay), delay), priority });
        let mut inner = self.driver.lock();
        let Finished { key, effect, kept, worked } = inner.state.finish(ticket, wish, now)?;
        self.driver.settle(inner, effect);
        drop(key);
        self.count_added(effect.added);
        if let (Some(metrics), Some(worked)) = (&self.metrics, worked) {
            metrics.worked_for(worked);
        }
        if let (Some(metrics), true) = (&self.metrics, again.is_some()) {
            metrics.retried();
        }
        Some(kept)
    }

    fn count_added(&self, keys: usize) {
        if let (Some(metrics), true) = (&self.metrics, keys > 0) {
            metrics.added(keys);
        }
    }

    fn count_taken(&self, items: &[Item<K>]) {
        if let Some(metrics) = &self.metrics {
            items.iter().for_each(|item| metrics.queued_for(item.waited()));
        }
    }
}

impl<K: QueueKey> Observe for Shared<K> {
    fn stats(&self) -> QueueStats {
        self.ready();
        let now = self.driver.clock().now();
        let inner = self.driver.lock();
        let (mut depths, mut others) = (Vec::new(), 0);
        inner.state.order.depths(&mut |priority, group, len| {
            if depths.len() < DEPTHS_MAX {
                let group = group.and_then(|group| inner.state.groups.name(group));
                depths.push(QueueDepth { priority, group, len });
            } else {
                others += len;
            }
        });
        let (unfinished, longest) = inner.state.in_process(now);
        QueueStats {
            ready: inner.state.ready(),
            waiting: inner.state.delays.len(),
            processing: inner.state.processing(),
            unfinished,
            longest,
            depths,
            others,
        }
    }
}

/// No deadline where there is no delay.
fn deadline(at: crate::clock::Nanos, delay: Duration) -> Option<crate::clock::Nanos> {
    (!delay.is_zero()).then_some(at)
}

impl<K: QueueKey> Clone for WorkQueue<K> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<K: QueueKey> fmt::Debug for WorkQueue<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = self.shared.driver.lock();
        f.debug_struct("WorkQueue")
            .field("phase", &inner.state.phase)
            .field("ready", &inner.state.ready())
            .field("waiting", &inner.state.delays.len())
            .field("processing", &inner.state.processing())
            .finish()
    }
}

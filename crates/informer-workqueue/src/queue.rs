//! The work queue: the handle and the operations on single keys.
//!
//! The pure [`state`] of a queue is protected by one lock in the [`driver`], which is held only briefly. This
//! file hashes keys, calls the rate limiter and reports metrics, all without holding that lock.

mod add;
mod builder;
mod delays;
mod driver;
mod error;
mod get;
mod groups;
mod index;
mod inspect;
mod item;
mod lock;
mod order;
mod shutdown;
mod slots;
mod state;
pub(crate) mod state_machine;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::fmt;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::time::Duration;

use foldhash::fast::RandomState;

pub use self::add::{AddOptions, LOW_PRIORITY};
pub use self::builder::WorkQueueBuilder;
pub use self::error::DrainError;
pub use self::inspect::Waiting;
pub use self::item::{Item, OnDrop};
pub use self::order::{Aging, Depths, Entries, EntryId, FairOrder, FifoOrder, Order, PriorityOrder};

use self::driver::Driver;
use self::index::KeyHash;
use self::state::{Finished, Schedule, Taken, Ticket};
use crate::key::QueueKey;
use crate::metrics::QueueMetrics;
use crate::rate_limit::RateLimiter;

/// Maximum number of keys in a queue. Keys are numbered in 32 bits to halve the memory of a waiting key; on
/// most machines memory runs out first. A full queue rejects further keys.
/// [`max_keys`](WorkQueueBuilder::max_keys) sets a lower limit.
pub const MAX_KEYS: u32 = u32::MAX - 1;

/// A queue of keys, each processed by one worker at a time.
///
/// It is a handle: clones are cheap and refer to the same queue.
///
/// # Contract
///
/// - *Deduplication.* A key that is added several times before it is handed out is handed out once.
/// - *Single processing.* A key in process is not handed out again until it is finished. An add in between is
///   not lost: the key becomes ready after [`Item::done`].
/// - *Order.* First in, first out. With [`priorities`](WorkQueueBuilder::priorities), higher ones first; with
///   [`fair_by`](WorkQueueBuilder::fair_by), round-robin over groups within a priority.
///   [`order`](WorkQueueBuilder::order) accepts any other [`Order`].
/// - *Delays.* A key waits for its earliest requested deadline, and an immediate add ends the wait. Keys with
///   the same deadline become ready in the order of their adds. Deadlines have a resolution of a millisecond,
///   and are met late rather than early.
/// - *Shutdown.* No key is added any more, waiting keys are dropped, and ready keys are still handed out.
///
/// # Runtime
///
/// No task is started. Every async runtime works as long as no key waits for a deadline. The timer needs a
/// tokio runtime of any flavor where [`get`](Self::get) is awaited. All times are tokio's, so paused time
/// controls them.
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
/// queue.add("a"); // While it is processed: handed out again after `done`.
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

type GroupOf<K> = dyn for<'k> Fn(&'k K) -> Cow<'k, str> + Send + Sync;

/// The function that computes the rank of a key, a number by which a user-defined order can sort.
type RankOf<K> = dyn Fn(&K) -> u64 + Send + Sync;

struct Shared<K: QueueKey> {
    driver: Driver<K>,
    hasher: RandomState,
    limiter: Box<dyn RateLimiter<K>>,
    group_of: Option<Box<GroupOf<K>>>,
    rank_of: Option<Box<RankOf<K>>>,
    metrics: Option<Arc<dyn QueueMetrics>>,
    on_drop: OnDrop,
}

impl<K: QueueKey> Shared<K> {
    /// Returns the hash of a key. Callers compute it before they take the lock of the queue.
    fn hash(&self, key: &K) -> KeyHash {
        KeyHash::new(self.hasher.hash_one(key))
    }

    /// Makes the waiting keys ready whose delay is over, then returns the number of ready keys.
    fn ready(&self) -> usize {
        loop {
            let mut inner = self.driver.lock();
            let effect = self.driver.promote(&mut inner, None);
            let ready = inner.state.ready();
            self.driver.settle(inner, effect);
            if effect.added == 0 {
                return ready;
            }
            self.count_added(effect.added as usize);
        }
    }

    /// Finishes the hand-out of a key. `again` requests another hand-out with a delay and a priority. Returns
    /// whether the key will be handed out again; `None` if the hand-out was already finished.
    fn finish(&self, ticket: Ticket, again: Option<(Duration, i32)>) -> Option<bool> {
        let now = if again.is_some() { Some(self.driver.clock().now()) } else { self.driver.now() };
        let moment = now.unwrap_or_default();
        let wish =
            again.map(|(delay, priority)| Schedule { due: deadline(moment.after(delay), delay), priority });
        let mut inner = self.driver.lock();
        let due_before = self.driver.promote(&mut inner, now);
        let finished = inner.state.finish(ticket, wish, moment);
        let Some(Finished { key, effect, kept, worked }) = finished else {
            self.driver.settle(inner, due_before);
            self.count_added(due_before.added as usize);
            return None;
        };
        let effect = effect.and(due_before);
        self.driver.settle(inner, effect);
        drop(key);
        self.count_added(effect.added as usize);
        self.count_worked(worked);
        if let (Some(metrics), true) = (&self.metrics, again.is_some()) {
            metrics.retried();
        }
        Some(kept)
    }

    fn count_worked(&self, worked: Option<Duration>) {
        if let (Some(metrics), Some(worked)) = (&self.metrics, worked) {
            metrics.worked_for(worked);
        }
    }

    fn count_added(&self, keys: usize) {
        if let (Some(metrics), true) = (&self.metrics, keys > 0) {
            metrics.added(keys);
        }
    }
}

/// Returns the deadline `at` of a key that is added with `delay`; `None` if the delay is zero.
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

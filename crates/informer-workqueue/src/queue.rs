//! The work queue: the handle, and what is done with single keys.
//!
//! Pure [`state`] sits behind one short lock in the [`driver`]; this file hashes keys, asks the rate limiter and
//! feeds metrics, all outside of that lock.

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
mod state_machine;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;
use std::time::Duration;

use foldhash::fast::RandomState;

pub use self::add::{AddOptions, LOW_PRIORITY};
pub use self::builder::WorkQueueBuilder;
pub use self::error::DrainError;
pub use self::inspect::Waiting;
pub use self::item::{Item, OnDrop};
pub use self::order::{Aging, Depths, Entries, EntryId, FairOrder, FifoOrder, Order, PriorityOrder};
pub use self::state_machine::{Handout, QueueEffect, QueueState};

use self::driver::Driver;
use self::index::KeyHash;
use self::state::{Finished, Taken, Ticket, Wish};
use crate::metrics::QueueMetrics;
use crate::rate_limit::RateLimiter;

/// How many keys a queue holds at most: they are numbered in 32 bits to halve the memory of a waiting key. The keys
/// themselves fill the memory of most machines first; an add beyond is refused. [`max_keys`](WorkQueueBuilder::max_keys)
/// sets a lower bound.
pub const MAX_KEYS: u32 = u32::MAX - 1;

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
///   [`fair_by`](WorkQueueBuilder::fair_by), groups in turn within a priority. [`order`](WorkQueueBuilder::order)
///   takes any other [`Order`].
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

/// What an order goes by.
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

// === impl Shared ===

impl<K: QueueKey> Shared<K> {
    /// Runs before the lock is taken.
    fn hash(&self, key: &K) -> KeyHash {
        KeyHash::new(self.hasher.hash_one(key))
    }

    /// How many keys are ready, after those that are due became so.
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

    /// Ends a hand-out. Tells whether the key is still to come; `None` if the hand-out had ended before.
    fn finish(&self, ticket: Ticket, again: Option<(Duration, i32)>) -> Option<bool> {
        let now = if again.is_some() { Some(self.driver.clock().now()) } else { self.driver.now() };
        let moment = now.unwrap_or_default();
        let wish =
            again.map(|(delay, priority)| Wish { due: deadline(moment.after(delay), delay), priority });
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

use std::hash::BuildHasher;
use std::time::Duration;

use tokio::time::Instant;

use super::groups::NO_GROUP;
use super::slots::NewKey;
use super::state::{Phase, Schedule};
use super::{QueueKey, Shared, WorkQueue, deadline};

/// The priority for work that should not delay new events, such as the initial list or a resync. The default
/// priority is 0.
pub const LOW_PRIORITY: i32 = -100;

/// Options of an add.
///
/// ```
/// use std::time::Duration;
/// use informer_workqueue::{AddOptions, Aging, LOW_PRIORITY, WorkQueue};
///
/// let queue = WorkQueue::builder().priorities(Aging::default()).build();
/// queue.add_with("old", AddOptions::new().priority(LOW_PRIORITY));
/// queue.add("new");
/// queue.add_with("later", AddOptions::new().priority(7).after(Duration::from_secs(5)));
/// assert_eq!(*queue.try_get().expect("two are ready"), "new");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct AddOptions {
    priority: i32,
    after: Option<Duration>,
    rate_limited: bool,
}

impl AddOptions {
    /// Creates options for an immediate add with priority 0.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the priority; in a queue with priorities, higher ones are handed out first. If a key is added
    /// several times before it is handed out, the highest priority counts. A key whose priority rises is
    /// handed out after the ready keys that already have the higher priority.
    pub fn priority(mut self, priority: i32) -> Self {
        self.priority = priority;
        self
    }

    /// Sets a delay after which the key becomes ready. With a zero delay the key is ready immediately; if the
    /// delay overflows, the key never becomes ready.
    pub fn after(mut self, delay: Duration) -> Self {
        self.after = Some(delay);
        self
    }

    /// Lets the rate limiter of the queue choose the delay. Together with [`after`](Self::after) the shorter
    /// delay counts.
    pub fn rate_limited(mut self) -> Self {
        self.rate_limited = true;
        self
    }
}

impl<K: QueueKey> WorkQueue<K> {
    /// Adds a key without a delay. A ready key keeps its position, a waiting key becomes ready, and a key in
    /// process becomes ready again when it is done.
    ///
    /// Returns false and does nothing if the queue is shut down, or if the key is new and the queue is full:
    /// see [`max_keys`](crate::WorkQueueBuilder::max_keys).
    ///
    /// # Panics
    ///
    /// If Hash or Eq of the key panics, or a function that computes its group or rank. The queue is then
    /// unchanged. Also if the [`Order`](crate::Order) panics. The key is added in this case.
    pub fn add(&self, key: K) -> bool {
        self.shared.put(key, None, 0)
    }

    /// Adds a key after a delay. With a zero delay the key is ready immediately. If the key is already ready,
    /// it stays ready; if it is already waiting, the earlier deadline counts.
    ///
    /// Return value and panics are those of [`add`](Self::add).
    pub fn add_after(&self, key: K, delay: Duration) -> bool {
        self.add_with(key, AddOptions::new().after(delay))
    }

    /// Adds a key after the delay of the rate limiter. Counts as a failure of the key until
    /// [`forget`](Self::forget).
    ///
    /// Return value and panics are those of [`add`](Self::add).
    pub fn add_rate_limited(&self, key: K) -> bool {
        self.add_with(key, AddOptions::new().rate_limited())
    }

    /// Adds a key with a priority, a delay, or both.
    ///
    /// Return value and panics are those of [`add`](Self::add).
    pub fn add_with(&self, key: K, options: AddOptions) -> bool {
        let AddOptions { priority, after, rate_limited } = options;
        let limit = rate_limited.then(|| self.shared.limiter.when(&key, Instant::now()));
        let delay = match (limit, after) {
            (Some(limit), Some(after)) => Some(limit.min(after)),
            (limit, after) => limit.or(after),
        };
        if let (Some(metrics), true) = (&self.shared.metrics, delay.is_some()) {
            metrics.retried();
        }
        self.shared.put(key, delay.filter(|delay| !delay.is_zero()), priority)
    }

    /// Adds many keys like [`add`](Self::add). Returns the number of accepted keys.
    pub fn add_all(&self, keys: impl IntoIterator<Item = K>) -> usize {
        keys.into_iter().map(|key| usize::from(self.add(key))).sum()
    }
}

impl<K: QueueKey> Shared<K> {
    fn put(&self, key: K, delay: Option<Duration>, priority: i32) -> bool {
        let hash = self.hash(&key);
        let group = self.group_of.as_ref().map(|group_of| {
            let name = group_of(&key);
            (self.hasher.hash_one(&*name), name)
        });
        let rank = self.rank_of.as_ref().map(|rank_of| rank_of(&key));
        let now = if delay.is_some() { Some(self.driver.clock().now()) } else { self.driver.now() };
        let due = delay.and_then(|delay| deadline(now?.after(delay), delay));

        // The remaining keys of the iterator are stored in a variable declared before the lock guard. They
        // are therefore dropped after the lock is released.
        let mut _rest = None;
        let mut inner = self.driver.lock_to_add();
        let state = &mut inner.state;
        if state.phase != Phase::Open {
            return false;
        }
        let id = match state.find(hash, &key) {
            Some(id) => {
                drop(group);
                _rest = Some(key);
                id
            }
            None => {
                let number = group.as_ref().map_or(NO_GROUP, |(hash, name)| state.groups.enter(name, *hash));
                drop(group);
                match state.insert(NewKey { key, hash: hash.0, group: number, rank }) {
                    Ok(id) => id,
                    Err(key) => {
                        state.groups.leave(number);
                        _rest = Some(key);
                        return false;
                    }
                }
            }
        };
        // Keys whose delay was over before this add are handed out before the added key.
        let due_before = self.driver.promote(&mut inner, now);
        let effect =
            inner.state.mark(id, Schedule { due, priority }, now.unwrap_or_default()).and(due_before);
        self.driver.settle(inner, effect);
        self.count_added(effect.added as usize);
        true
    }
}

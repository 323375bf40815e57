//! Inspecting a queue, and cancelling waiting keys.

use std::time::Duration;

use tokio::time::Instant;

use super::state::{Effect, State};
use super::{QueueKey, Shared, WorkQueue};
use crate::clock::Nanos;
use crate::metrics::{Observe, QueueDepth, QueueStats};

/// Maximum number of waiting keys that are cancelled while the lock is held once.
const CANCELLED_AT_ONCE: usize = 64;

/// Maximum number of rows in [`QueueStats::depths`]. The keys of further rows are summed up in one number,
/// because dashboards cannot show so many rows.
const MAX_DEPTHS: usize = 100;

/// A key that waits for its deadline.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Waiting<K> {
    /// The key that waits.
    pub key: K,
    /// The time at which the key becomes ready.
    pub due: Instant,
}

impl<K: QueueKey> WorkQueue<K> {
    /// Returns the number of ready keys. Waiting keys and keys in process do not count.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shared.ready()
    }

    /// Returns true if no key is ready.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of keys in process.
    #[must_use]
    pub fn processing_len(&self) -> usize {
        self.shared.driver.lock().state.processing()
    }

    /// Returns the number of keys that wait for a deadline.
    #[must_use]
    pub fn waiting_len(&self) -> usize {
        self.shared.ready();
        self.shared.driver.lock().state.delays.len()
    }

    /// Returns the first `max` waiting keys in the order of their deadlines. The lock is held while they are
    /// cloned.
    #[must_use]
    pub fn waiting(&self, max: usize) -> Vec<Waiting<K>> {
        let mut keys = Vec::new();
        let clock = self.shared.driver.clock();
        let inner = self.shared.driver.lock();
        for (slot, due) in inner.state.delays.first(max) {
            let key = inner.state.slots.key(slot).cloned();
            keys.extend(key.map(|key| Waiting { key, due: clock.instant(due) }));
        }
        drop(inner);
        keys
    }

    /// Returns when a waiting key becomes ready; `None` if it does not wait.
    #[must_use]
    pub fn due(&self, key: &K) -> Option<Instant> {
        let hash = self.shared.hash(key);
        let inner = self.shared.driver.lock();
        let due = inner.state.delays.due(inner.state.find(hash, key)?)?;
        drop(inner);
        Some(self.shared.driver.clock().instant(due))
    }

    /// Removes a waiting key without handing it out. Returns whether the key was waiting. A ready key stays
    /// ready.
    pub fn cancel_waiting(&self, key: &K) -> bool {
        let hash = self.shared.hash(key);
        let mut inner = self.shared.driver.lock();
        let Some(id) = inner.state.find(hash, key) else { return false };
        let (waited, key) = inner.state.cancel_waiting(id);
        self.shared.driver.settle(inner, Effect::default());
        drop(key);
        waited
    }

    /// Removes all waiting keys without handing them out. Returns the number of removed keys.
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
            self.shared.driver.settle(inner, Effect::default());
            if keys.is_empty() {
                break;
            }
            cancelled += keys.len();
        }
        cancelled
    }

    /// Returns the state of the queue for metrics and debug pages, by priority and by group if the queue has
    /// them.
    ///
    /// The call visits every priority and group with a ready key, and every key in process, under the lock:
    /// call it per scrape, not per add. The times for which keys have been ready or in process are measured
    /// only in a queue with [`metrics`](crate::WorkQueueBuilder::metrics). There, the call also visits every
    /// key of the queue to find the oldest ready one. It releases the lock in between.
    #[must_use]
    pub fn stats(&self) -> QueueStats {
        self.shared.stats()
    }

    /// Forgets the failures of a key, so that its backoff starts over. The state of the key does not change.
    pub fn forget(&self, key: &K) {
        self.shared.limiter.forget(key);
    }

    /// Returns how often the key was added with the rate limit since it was last forgotten.
    #[must_use]
    pub fn retries(&self, key: &K) -> u32 {
        self.shared.limiter.retries(key)
    }
}

impl<K: QueueKey> Observe for Shared<K> {
    fn stats(&self) -> QueueStats {
        self.ready();
        let now = self.driver.clock().now();
        let mut inner = self.driver.lock();
        let (mut depths, mut others) = (Vec::new(), 0);
        let State { order, slots, groups, .. } = &mut inner.state;
        order.depths(&mut slots.entries, &mut |priority, group, len| {
            if depths.len() < MAX_DEPTHS {
                let group = group.and_then(|group| groups.name(group));
                depths.push(QueueDepth { priority, group, len });
            } else {
                others += len;
            }
        });
        let (unfinished, longest) = inner.state.in_process(now);
        let mut stats = QueueStats {
            ready: inner.state.ready(),
            waiting: inner.state.delays.len(),
            processing: inner.state.processing(),
            unfinished,
            longest,
            oldest: Duration::ZERO,
            depths,
            others,
            order_failed: inner.state.order.has_failed(),
        };
        self.driver.settle(inner, Effect::default());
        if stats.ready > 0 {
            stats.oldest = self.oldest(now);
        }
        stats
    }
}

impl<K: QueueKey> Shared<K> {
    /// Returns the time for which the oldest ready key has been ready. The lock is released between parts of
    /// the search, so a key that is handed out meanwhile may count.
    fn oldest(&self, now: Nanos) -> Duration {
        let (mut oldest, mut next) = (None, Some(0));
        while let Some(begin) = next {
            let (found, rest) = self.driver.lock().state.search_oldest(begin);
            oldest = found.into_iter().chain(oldest).min();
            next = rest;
        }
        oldest.map_or(Duration::ZERO, |since| now.since(since))
    }
}

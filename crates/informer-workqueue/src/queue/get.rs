//! Getting ready keys from a queue, and finishing them.

use super::driver::TakeOutcome;
use super::{Item, QueueKey, Shared, WorkQueue};

/// Maximum number of keys that one [`WorkQueue::get_batch`] takes, because the lock is held until all of them
/// are taken.
const MAX_BATCH: usize = 256;

impl<K: QueueKey> WorkQueue<K> {
    /// Waits for the next key. Returns `None` if the queue is shut down and will hand out nothing more: no
    /// key is ready, and no key in process was added again.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses no key: taking a key is its last step, and an unused wake-up is passed to
    /// the next getter.
    ///
    /// # Panics
    ///
    /// If a key waits for a deadline and there is no tokio runtime with a time driver. If Clone of a key
    /// panics.
    pub async fn get(&self) -> Option<Item<K>> {
        let mut item = None;
        let mut give = |taken| item = Some(Item::new(self, taken));
        self.shared.driver.wait(1, &mut give, &|keys| self.shared.count_added(keys)).await;
        self.shared.count_taken(item.as_slice());
        item
    }

    /// Waits until at least one key is ready, then takes up to `max` keys, at most 256. A `max` of 0 counts
    /// as 1. Returns an empty vector if the queue is shut down and will hand out nothing more.
    ///
    /// Cancel safety and panics are those of [`get`](Self::get).
    pub async fn get_batch(&self, max: usize) -> Vec<Item<K>> {
        let mut items = Vec::new();
        let mut give = |taken| items.push(Item::new(self, taken));
        let max = max.clamp(1, MAX_BATCH);
        self.shared.driver.wait(max, &mut give, &|keys| self.shared.count_added(keys)).await;
        self.shared.count_taken(&items);
        items
    }

    /// Returns the next key if one is ready.
    ///
    /// # Panics
    ///
    /// If Clone of the key panics.
    pub fn try_get(&self) -> Option<Item<K>> {
        let mut item = None;
        let (_, ready): (TakeOutcome, usize) =
            self.shared.driver.take(1, &mut |taken| item = Some(Item::new(self, taken)));
        self.shared.count_added(ready);
        self.shared.count_taken(item.as_slice());
        item
    }

    /// Finishes the processing of a key whose item was [detached](Item::detach). Returns false and does
    /// nothing if the key is not in process.
    pub fn done(&self, key: &K) -> bool {
        let hash = self.shared.hash(key);
        let ticket = self.shared.driver.lock().state.ticket(hash, key);
        ticket.is_some_and(|ticket| self.shared.finish(ticket, None).is_some())
    }
}

impl<K: QueueKey> Shared<K> {
    pub(super) fn count_taken(&self, items: &[Item<K>]) {
        if let Some(metrics) = &self.metrics {
            items.iter().for_each(|item| metrics.queued_for(item.waited()));
        }
    }
}

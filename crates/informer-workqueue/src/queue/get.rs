//! Getting keys.

use super::driver::Found;
use super::{Item, QueueKey, Shared, WorkQueue};

/// How many keys one call of [`WorkQueue::get_batch`] takes at most, because the lock is held for all of them.
const MAX_BATCH: usize = 256;

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
        let max = max.clamp(1, MAX_BATCH);
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

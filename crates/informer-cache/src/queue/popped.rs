use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use informer_core::ObjectKey;

use super::Processed;

/// The queue from which an item was popped. The popped item or its receipt calls it once: to record that the
/// item was processed, or to queue the item again.
pub(super) trait Origin<T>: Send + Sync {
    fn done(&self, key: &ObjectKey, initial: usize);
    fn requeue(&self, key: &ObjectKey, item: T, initial: usize);
}

/// An item that the pure state of a keyed queue has popped, with the data that its `done` and `requeue` need.
#[derive(Debug)]
pub struct Taken<T> {
    /// The key of the popped item.
    pub key: ObjectKey,
    /// The item that was queued for the key.
    pub item: T,
    /// True if the item belongs to the initial list.
    pub is_initial: bool,
    /// 1 if `has_synced` waits for the item because it is part of the initial list, otherwise 0. The caller
    /// passes the number to the `done` of the state once the item is processed.
    pub initial: usize,
}

/// The popped item of one key. The item counts as processed when [`done`](Self::done) is called or this value
/// is dropped.
#[must_use = "an item that is dropped counts as processed"]
pub struct Popped<T> {
    item: T,
    receipt: Receipt<T>,
}

/// A receipt for a popped item. The item counts as processed when [`done`](Self::done) is called or the
/// receipt is dropped.
#[must_use = "an item counts as processed when its receipt is dropped"]
pub struct Receipt<T> {
    /// The queue from which the item was popped. It is `None` once the item was reported as processed or was
    /// queued again, so that dropping the receipt does not report the item a second time.
    origin: Option<Arc<dyn Origin<T>>>,
    key: ObjectKey,
    is_initial: bool,
    initial: usize,
}

impl<T> Popped<T> {
    pub(super) fn new(taken: Taken<T>, origin: Arc<dyn Origin<T>>) -> Self {
        let Taken { key, item, is_initial, initial } = taken;
        Self { item, receipt: Receipt { origin: Some(origin), key, is_initial, initial } }
    }

    /// Returns the key of the popped item.
    pub fn key(&self) -> &ObjectKey {
        &self.receipt.key
    }

    /// Returns true if the item belongs to the initial list.
    pub fn is_initial(&self) -> bool {
        self.receipt.is_initial
    }

    /// Returns the item and a receipt for it. The caller keeps the receipt until the item is processed.
    pub fn into_parts(self) -> (T, Receipt<T>) {
        (self.item, self.receipt)
    }

    /// Marks the item as processed, like dropping this value.
    pub fn done(self) {}

    /// Queues the item again, behind the queued items. If a newer item was queued for the key in the
    /// meantime, the newer item stays and this one is dropped. A closed queue also accepts the item, because
    /// readers get the end of the queue only after all popped items are processed.
    pub fn requeue(self) {
        let Self { item, mut receipt } = self;
        if let Some(origin) = receipt.origin.take() {
            origin.requeue(&receipt.key, item, receipt.initial);
        }
    }

    /// Calls `process` with the item and with the result of [`is_initial`](Self::is_initial). Then marks the
    /// item as processed or queues it again, depending on the returned [`Processed`]. No lock is held during
    /// the call.
    pub fn process<R>(self, process: impl FnOnce(&T, bool) -> Processed<R>) -> R {
        match process(&self.item, self.receipt.is_initial) {
            Processed::Done(result) => result,
            Processed::Requeue(result) => {
                self.requeue();
                result
            }
        }
    }
}

impl<T> Receipt<T> {
    /// Marks the item as processed, like dropping the receipt.
    pub fn done(self) {}
}

impl<T> Drop for Receipt<T> {
    fn drop(&mut self) {
        if let Some(origin) = self.origin.take() {
            origin.done(&self.key, self.initial);
        }
    }
}

impl<T> Deref for Popped<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.item
    }
}

impl<T> fmt::Debug for Popped<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (key, is_initial) = (self.key(), self.is_initial());
        f.debug_struct("Popped").field("key", key).field("is_initial", &is_initial).finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for Receipt<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receipt").field("key", &self.key).finish_non_exhaustive()
    }
}

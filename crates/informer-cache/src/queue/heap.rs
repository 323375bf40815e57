//! A priority queue: client-go's [`Heap`](https://pkg.go.dev/k8s.io/client-go/tools/cache#Heap).
//!
//! # Invariants
//!
//! 1. A key is in the heap once, with its newest item.
//! 2. The item with the lowest rank is popped first. Among equal ranks the one that was added first is popped
//!    first.
//! 3. The heap has no limit except one item for each key: the task that fills it decides which items to add.
//!
//! # Lock order
//!
//! The only lock is that of the `SharedQueue`. The key function and the rank function run while it is not
//! held. Ranks are compared while the lock is held, so a rank should be plain data whose comparison takes no
//! lock.
//!
//! # Shutdown
//!
//! 1. `close` rejects writers and wakes all tasks that wait for an item.
//! 2. Readers get the queued items.
//! 3. When the heap is drained, readers get [`QueueClosed`].

pub(super) mod state;

use std::fmt;
use std::sync::Arc;

use informer_core::{Object, ObjectKey};

use self::state::HeapState;
use super::keyed::object_key;
use super::shared::SharedQueue;
use super::{EnqueueError, KeyFunction, QueueClosed};

type RankFunction<T, R> = Arc<dyn Fn(&T) -> R + Send + Sync>;

/// A queue whose items are popped by rank, lowest first. The value is a cheap handle; clones share one heap.
///
/// ```
/// use informer_cache::queue::Heap;
/// use informer_core::{Header, Object, ObjectKey};
///
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let heap = Heap::new(|header: &Header| header.resource_version().as_u64());
/// heap.add(Header::new(ObjectKey::new("default", "late")?).with_version("7"))?;
/// heap.add(Header::new(ObjectKey::new("default", "early")?).with_version("3"))?;
/// assert_eq!(heap.pop().await?.key().name(), "early");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Heap<T, R> {
    shared: Arc<SharedQueue<HeapState<T, R>>>,
    key: KeyFunction<T>,
    rank: RankFunction<T, R>,
}

/// An item with the results of the key function and the rank function. Both are user code, so they are called
/// before the lock of the heap is taken.
struct RankedItem<T, R> {
    key: ObjectKey,
    rank: R,
    item: Arc<T>,
}

impl<T: Object, R: Ord + Clone> Heap<T, R> {
    /// Creates an empty heap of objects; the lowest `rank` is popped first.
    pub fn new(rank: impl Fn(&T) -> R + Send + Sync + 'static) -> Self {
        Self::with_key_function(object_key(), rank)
    }
}

impl<T, R: Ord + Clone> Heap<T, R> {
    /// Creates an empty heap of items whose keys are computed by `key`; the lowest `rank` is popped first.
    pub fn with_key_function(key: KeyFunction<T>, rank: impl Fn(&T) -> R + Send + Sync + 'static) -> Self {
        Self { shared: Arc::new(SharedQueue::new(HeapState::new())), key, rank: Arc::new(rank) }
    }

    /// Adds an item at the position of its rank. If the heap contains an item with the same key, the new item
    /// replaces that one.
    ///
    /// # Errors
    ///
    /// Returns an error if the heap is closed or the key function fails.
    pub fn add(&self, item: impl Into<Arc<T>>) -> Result<(), EnqueueError> {
        let RankedItem { key, rank, item } = self.ranked(item.into())?;
        self.shared.write(|state| state.add(key, rank, item))?;
        Ok(())
    }

    /// The same as [`add`](Self::add); client-go has both methods.
    ///
    /// # Errors
    ///
    /// Returns an error if the heap is closed or the key function fails.
    pub fn update(&self, item: impl Into<Arc<T>>) -> Result<(), EnqueueError> {
        self.add(item)
    }

    /// Adds items atomically: no pop happens before all are added.
    ///
    /// # Errors
    ///
    /// Returns an error if the heap is closed or the key function fails; then no item is added.
    pub fn bulk_add(&self, items: impl IntoIterator<Item = Arc<T>>) -> Result<(), EnqueueError> {
        let items = items.into_iter().map(|item| self.ranked(item)).collect::<Result<Vec<_>, _>>()?;
        let add = |state: &mut HeapState<T, R>| {
            let added = items.into_iter();
            added.map(|RankedItem { key, rank, item }| state.add(key, rank, item)).collect::<Vec<_>>()
        };
        self.shared.write(add)?;
        Ok(())
    }

    /// Adds an item, unless the heap contains an item with its key. Returns true if the item was added.
    ///
    /// # Errors
    ///
    /// Returns an error if the heap is closed or the key function fails.
    pub fn add_if_not_present(&self, item: impl Into<Arc<T>>) -> Result<bool, EnqueueError> {
        let RankedItem { key, rank, item } = self.ranked(item.into())?;
        Ok(self.shared.write(|state| state.add_if_not_present(key, rank, item))?.is_none())
    }

    fn ranked(&self, item: Arc<T>) -> Result<RankedItem<T, R>, EnqueueError> {
        Ok(RankedItem { key: (self.key)(&item)?, rank: (self.rank)(&item), item })
    }

    /// Removes an item at any position, even from a closed heap.
    ///
    /// # Errors
    ///
    /// Returns an error if the heap contains no item with this key.
    pub fn delete(&self, key: &str) -> Result<Arc<T>, NotQueued> {
        self.shared.update(|state| state.delete(key)).ok_or_else(|| NotQueued { key: key.into() })
    }

    /// Takes the item with the lowest rank; waits while the heap is empty.
    ///
    /// # Errors
    ///
    /// Returns an error if the heap is closed and drained.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future before it resolves does not take an item.
    pub async fn pop(&self) -> Result<Arc<T>, QueueClosed> {
        self.shared.take(HeapState::pop).await
    }

    /// Takes the item with the lowest rank like [`pop`](Self::pop), but returns `None` at once if the heap is
    /// empty.
    ///
    /// # Errors
    ///
    /// Returns an error if the heap is closed and drained.
    pub fn try_pop(&self) -> Result<Option<Arc<T>>, QueueClosed> {
        self.shared.try_take(HeapState::pop)
    }

    /// Closes the heap: additions are rejected, and the remaining items can still be popped.
    pub fn close(&self) {
        self.shared.close();
    }

    /// Returns true once the heap was closed by [`close`](Self::close).
    pub fn is_closed(&self) -> bool {
        self.shared.is_closed()
    }

    /// Returns the item that the heap contains for a key.
    pub fn get(&self, key: &str) -> Option<Arc<T>> {
        self.shared.lock().get(key).cloned()
    }

    /// Returns the items of the heap, lowest rank first.
    pub fn list(&self) -> Vec<Arc<T>> {
        self.shared.lock().iter().map(|(_, item)| Arc::clone(item)).collect()
    }

    /// Returns the keys of the heap, lowest rank first.
    pub fn list_keys(&self) -> Vec<ObjectKey> {
        self.shared.lock().iter().map(|(key, _)| key.clone()).collect()
    }

    /// Returns the number of items in the heap.
    pub fn depth(&self) -> usize {
        self.shared.lock().len()
    }
}

/// The error of [`Heap::delete`]: the heap contains no item with this key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the heap contains no item with the key {key:?}")]
pub struct NotQueued {
    key: Box<str>,
}

impl<T, R> Clone for Heap<T, R> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), key: Arc::clone(&self.key), rank: Arc::clone(&self.rank) }
    }
}

impl<T, R: Ord + Clone> fmt::Debug for Heap<T, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Heap").field(&*self.shared.lock()).finish()
    }
}

#[cfg(test)]
mod tests;

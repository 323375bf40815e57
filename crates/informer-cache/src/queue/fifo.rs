//! A queue of the newest state per key: client-go's
//! [`FIFO`](https://pkg.go.dev/k8s.io/client-go/tools/cache#FIFO).
//!
//! # Invariants
//!
//! 1. A key is queued once, at the position of its first enqueue. A pop returns its newest state.
//! 2. A deleted object is not popped. If it is added again, it gets its old position in the queue, as long as
//!    other objects are queued.
//! 3. The queue contains at most one object for each key, so it is never larger than a store of its objects
//!    and needs no other limit.
//!
//! # Lock order
//!
//! The only lock is that of the `SharedQueue`. The key function and the process function run while it is not
//! held.
//!
//! # Shutdown
//!
//! 1. `close` rejects writers and wakes all tasks that wait for an item.
//! 2. Readers get the queued items, and may requeue them.
//! 3. When the queue is drained, readers get [`QueueClosed`].

pub(super) mod state;

use std::fmt;
use std::sync::Arc;

use informer_core::{Object, ObjectKey};

use self::state::FifoState;
use super::keyed::object_key;
use super::popped::{Origin, Popped};
use super::shared::SharedQueue;
use super::{EnqueueError, KeyFunction, Processed, Queue, QueueClosed, ReflectorStore};
use crate::Change;

/// A queue of the newest state per key. A cheap handle; clones share one queue.
///
/// A consumer receives the newest state of each key. It receives no intermediate states and no deletions.
///
/// ```
/// use informer_cache::queue::Fifo;
/// use informer_core::{Header, Object, ObjectKey};
/// use std::sync::Arc;
///
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let queue = Fifo::new();
/// let key = ObjectKey::new("default", "web")?;
/// queue.add(Arc::new(Header::new(key.clone()).with_version("1")))?;
/// queue.add(Arc::new(Header::new(key).with_version("2")))?;
/// assert_eq!(*queue.pop().await?.resource_version(), "2");
/// assert_eq!(queue.depth(), 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Fifo<O> {
    shared: Arc<SharedQueue<FifoState<O>>>,
    key: KeyFunction<O>,
}

impl<O: Object> Fifo<O> {
    /// Creates an empty queue.
    pub fn new() -> Self {
        Self::with_key_function(object_key())
    }

    /// Creates an empty queue that keys objects by this function instead of by [`Object::key`].
    pub fn with_key_function(key: KeyFunction<O>) -> Self {
        Self { shared: Arc::new(SharedQueue::new(FifoState::new())), key }
    }

    /// Queues an object at the position of its key, or at the end if the key is not queued. An older queued
    /// state of the object is dropped.
    ///
    /// # Errors
    ///
    /// Returns an error if the queue is closed or the key function fails.
    pub fn add(&self, object: Arc<O>) -> Result<(), EnqueueError> {
        let key = (self.key)(&object)?;
        self.shared.write(|state| state.add(key, object))?;
        Ok(())
    }

    /// The same as [`add`](Self::add); client-go has both methods.
    ///
    /// # Errors
    ///
    /// Returns an error if the queue is closed or the key function fails.
    pub fn update(&self, object: Arc<O>) -> Result<(), EnqueueError> {
        self.add(object)
    }

    /// Queues an object, unless an object with its key is already queued. Returns true if the object was
    /// queued.
    ///
    /// # Errors
    ///
    /// Returns an error if the queue is closed or the key function fails.
    pub fn add_if_not_present(&self, object: Arc<O>) -> Result<bool, EnqueueError> {
        let key = (self.key)(&object)?;
        Ok(self.shared.write(|state| state.add_if_not_present(key, object))?.is_none())
    }

    /// Removes an object from the queue and returns it.
    ///
    /// # Errors
    ///
    /// Returns an error if the queue is closed.
    pub fn delete(&self, key: &str) -> Result<Option<Arc<O>>, EnqueueError> {
        Ok(self.shared.write(|state| state.delete(key))?)
    }

    /// Replaces the content of the queue by the given objects, in the given order.
    ///
    /// # Errors
    ///
    /// Returns an error if the queue is closed or the key function fails; the queue is then unchanged.
    pub fn replace(&self, objects: impl IntoIterator<Item = Arc<O>>) -> Result<(), EnqueueError> {
        let named = |object: Arc<O>| Ok::<_, EnqueueError>(((self.key)(&object)?, object));
        let list = objects.into_iter().map(named).collect::<Result<Vec<_>, _>>()?;
        self.shared.write(|state| state.replace(list))?;
        Ok(())
    }

    /// Takes the next object; waits while the queue is empty. The object counts as processed when `done` is
    /// called on the returned value or it is dropped.
    ///
    /// # Errors
    ///
    /// Returns an error if the queue is closed and drained.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future before it resolves does not take an item.
    pub async fn pop(&self) -> Result<Popped<Arc<O>>, QueueClosed> {
        let taken = self.shared.take(FifoState::pop).await?;
        Ok(Popped::new(taken, Arc::clone(&self.shared) as _))
    }

    /// Takes the next object like [`pop`](Self::pop), but returns `None` at once if the queue is empty.
    ///
    /// # Errors
    ///
    /// Returns an error if the queue is closed and drained.
    pub fn try_pop(&self) -> Result<Option<Popped<Arc<O>>>, QueueClosed> {
        let taken = self.shared.try_take(FifoState::pop)?;
        Ok(taken.map(|taken| Popped::new(taken, Arc::clone(&self.shared) as _)))
    }

    /// Pops the next object and calls `process` with the object and a flag, which is true if the object
    /// belongs to the initial list. No lock is held during the call.
    ///
    /// # Errors
    ///
    /// Returns an error if the queue is closed and drained.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe like [`pop`](Self::pop), since nothing is awaited between pop and `process`.
    pub async fn pop_with<R>(
        &self,
        process: impl FnOnce(&Arc<O>, bool) -> Processed<R>,
    ) -> Result<R, QueueClosed> {
        Ok(self.pop().await?.process(process))
    }

    /// Closes the queue: writers are rejected, and queued items can still be popped.
    pub fn close(&self) {
        self.shared.close();
    }

    /// Returns true once the queue was closed by [`close`](Self::close).
    pub fn is_closed(&self) -> bool {
        self.shared.is_closed()
    }

    /// Returns true once all items of the first list are processed or deleted. If an object is written before
    /// any list, the queue counts as synced immediately.
    pub fn has_synced(&self) -> bool {
        self.shared.has_synced()
    }

    /// Resolves when [`has_synced`](Self::has_synced) is true.
    ///
    /// # Errors
    ///
    /// Returns an error if the queue is closed before it is synced.
    pub async fn synced(&self) -> Result<(), QueueClosed> {
        self.shared.synced().await
    }

    /// Returns the queued objects, in the order in which they will be popped.
    pub fn list(&self) -> Vec<Arc<O>> {
        self.shared.lock().iter().map(|(_, object)| Arc::clone(object)).collect()
    }

    /// Returns the queued keys, in the order in which they will be popped.
    pub fn list_keys(&self) -> Vec<ObjectKey> {
        self.shared.lock().iter().map(|(key, _)| key.clone()).collect()
    }

    /// Returns the object queued for a key.
    pub fn get(&self, key: &str) -> Option<Arc<O>> {
        self.shared.lock().get(key).cloned()
    }

    /// Returns the number of queued objects.
    pub fn depth(&self) -> usize {
        self.shared.lock().depth()
    }
}

impl<O: Object> Origin<Arc<O>> for SharedQueue<FifoState<O>> {
    fn done(&self, _: &ObjectKey, initial: usize) {
        self.update(|state| state.done(initial));
    }

    fn requeue(&self, key: &ObjectKey, item: Arc<O>, initial: usize) {
        self.update(|state| state.requeue(key.clone(), item, initial));
    }
}

impl<O: Object> ReflectorStore<O> for Fifo<O> {
    /// Queues the newest states of changed objects. Resyncs and bookmarks are ignored, and so are undecodable
    /// objects and objects without a key, since a consumer could not process them.
    fn push(&self, changes: Vec<Change<O>>) -> Result<(), QueueClosed> {
        for change in changes {
            let outcome = match change {
                Change::Added(object) | Change::Updated(object) => self.add(object),
                Change::Deleted(tombstone) => self.delete(tombstone.key().as_str()).map(drop),
                Change::Replaced(replacement) => {
                    let objects = replacement.items.into_iter().map(crate::source::Listed::into_object);
                    self.replace(objects.filter(|object| (self.key)(object).is_ok()))
                }
                Change::Resync | Change::Bookmark(_) | Change::Undecodable(_) => Ok(()),
            };
            if let Err(EnqueueError::Closed(closed)) = outcome {
                return Err(closed);
            }
        }
        if self.is_closed() { Err(QueueClosed) } else { Ok(()) }
    }
}

impl<O: Object> Queue for Fifo<O> {
    type Popped = Popped<Arc<O>>;

    async fn pop(&self) -> Result<Self::Popped, QueueClosed> {
        Self::pop(self).await
    }

    fn requeue(&self, popped: Self::Popped) {
        popped.requeue();
    }

    fn close(&self) {
        Self::close(self);
    }

    fn is_closed(&self) -> bool {
        Self::is_closed(self)
    }

    fn has_synced(&self) -> bool {
        Self::has_synced(self)
    }

    async fn synced(&self) -> Result<(), QueueClosed> {
        Self::synced(self).await
    }
}

impl<O> Clone for Fifo<O> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), key: Arc::clone(&self.key) }
    }
}

impl<O: Object> Default for Fifo<O> {
    fn default() -> Self {
        Self::new()
    }
}

impl<O> fmt::Debug for Fifo<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Fifo").field(&*self.shared.lock()).finish()
    }
}

#[cfg(test)]
mod tests;

//! A queue of deltas per key: client-go's
//! [`DeltaFIFO`](https://pkg.go.dev/k8s.io/client-go/tools/cache#DeltaFIFO).
//!
//! # Invariants
//!
//! 1. A key is queued once, at the position of its first delta. A pop takes all deltas of the key, in order.
//! 2. No state of a key is lost. Only two consecutive deletions are merged.
//! 3. For the deletions that a list reveals, popped deltas count as processed. A list that is queued while
//!    they are being processed is compared with the state that the store will have after them, instead of its
//!    current state.
//!
//! # Lock order
//!
//! The only lock is that of the `SharedQueue`. The key function, the transform, the known-objects view (of
//! the consumer's store) and the process function run while it is not held. Pops wait while the view is read,
//! so that queue and view are consistent.
//!
//! # Shutdown
//!
//! 1. `close` rejects writers and wakes all tasks that wait for an item.
//! 2. Readers get the queued items, and may requeue them.
//! 3. When the queue is drained, readers get [`QueueClosed`].

pub(super) mod config;
pub(super) mod delta;
pub(super) mod state;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use informer_core::{Object, ObjectKey, Tombstone};

use self::config::DeltaFifoConfig;
use self::delta::{Delta, Deltas};
use self::state::{DeltaState, KnownObject};
use super::popped::{Origin, Popped};
use super::shared::SharedQueue;
use super::{EnqueueError, Processed, Queue, QueueClosed, ReflectorStore};
use crate::source::{KnownObjects, Listed};
use crate::{Change, Replacement, Undecodable};

/// A queue of deltas per key. A cheap handle; clones share one queue.
///
/// At most one task should write and one task should pop. Then the deltas of a key are popped and processed
/// in the order in which they were queued, although no lock is held while they are processed. With several
/// consumers, two batches of deltas of one key can be in process at once.
///
/// ```
/// use informer_cache::queue::{Delta, DeltaFifo, DeltaFifoConfig, Processed};
/// use informer_core::{Header, ObjectKey};
/// use std::sync::Arc;
///
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let queue = DeltaFifo::new(DeltaFifoConfig::default());
/// let key = ObjectKey::new("default", "web")?;
/// queue.add(Arc::new(Header::new(key.clone()).with_version("1")))?;
/// queue.update(Arc::new(Header::new(key).with_version("2")))?;
/// let newest = queue
///     .pop_with(|deltas, _initial| {
///         assert!(matches!(deltas[..], [Delta::Added(_), Delta::Updated(_)]));
///         Processed::Done(deltas.newest().clone())
///     })
///     .await?;
/// assert_eq!(format!("{newest:?}"), "Updated(default/web @2)");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct DeltaFifo<O> {
    shared: Arc<SharedQueue<DeltaState<O>>>,
    config: Arc<DeltaFifoConfig<O>>,
}

impl<O: Object> DeltaFifo<O> {
    /// Creates an empty queue with this configuration.
    pub fn new(config: DeltaFifoConfig<O>) -> Self {
        let state =
            if config.sync_on_replace { DeltaState::with_sync_on_replace() } else { DeltaState::new() };
        Self { shared: Arc::new(SharedQueue::new(state)), config: Arc::new(config) }
    }

    /// Queues [`Delta::Added`].
    ///
    /// # Errors
    ///
    /// Returns an error if the queue is closed, or if the key function or the transform fails.
    pub fn add(&self, object: Arc<O>) -> Result<(), EnqueueError> {
        self.enqueue(object, Delta::Added)
    }

    /// Queues [`Delta::Updated`].
    ///
    /// # Errors
    ///
    /// Returns an error if the queue is closed, or if the key function or the transform fails.
    pub fn update(&self, object: Arc<O>) -> Result<(), EnqueueError> {
        self.enqueue(object, Delta::Updated)
    }

    fn enqueue(&self, object: Arc<O>, delta: fn(Arc<O>) -> Delta<O>) -> Result<(), EnqueueError> {
        let object = match &self.config.transform {
            Some(transform) => {
                let key = object.key().clone();
                let transformed = transform.run(object, &key);
                transformed.map_err(|source| EnqueueError::Transform { key, source })?
            }
            None => object,
        };
        let key = (self.config.key)(&object)?;
        self.shared.write(|state| state.enqueue(key, delta(object)))?;
        Ok(())
    }

    /// Queues [`Delta::Deleted`]. If the object is neither queued nor in the known-objects view, nothing is
    /// queued, because a relist has already reported the deletion.
    ///
    /// # Errors
    ///
    /// Returns an error if the queue is closed, or if the key function fails.
    pub fn delete(&self, tombstone: Tombstone<O>) -> Result<(), EnqueueError> {
        let (key, tombstone) = self.named(tombstone)?;
        let (hold, known) = self.look(|known| known.get(key.as_str()).is_some());
        self.shared.write(|state| state.delete(key, tombstone, known))?;
        drop(hold);
        Ok(())
    }

    /// Transforms the object of a tombstone and applies the key function to it. If the watch missed the
    /// deletion, the tombstone is returned unchanged: its object comes from the consumer's store and is
    /// already transformed. If the transform fails, the deletion counts as missed, so that it is not lost.
    fn named(&self, tombstone: Tombstone<O>) -> Result<(ObjectKey, Tombstone<O>), EnqueueError> {
        match tombstone.last() {
            Some(last) if !tombstone.stale() => {
                let shown = match &self.config.transform {
                    Some(transform) => transform.object(Arc::clone(last)).ok(),
                    None => Some(Arc::clone(last)),
                };
                let key = (self.config.key)(shown.as_ref().unwrap_or(last))?;
                Ok(match shown {
                    Some(last) => (key.clone(), Tombstone::observed(key, last)),
                    None => (key.clone(), Tombstone::missed(key, None)),
                })
            }
            _ => Ok((tombstone.key().clone(), tombstone)),
        }
    }

    /// Queues popped deltas again, unless newer deltas of their key are already queued. Returns true if the
    /// deltas were queued.
    ///
    /// # Errors
    ///
    /// Returns an error if the queue is closed.
    pub fn add_if_not_present(&self, deltas: Deltas<O>) -> Result<bool, EnqueueError> {
        Ok(self.shared.write(|state| state.add_if_not_present(deltas))?.is_none())
    }

    /// Queues a complete list: [`Delta::Replaced`] for each object, then a missed deletion for every queued
    /// or known key that is not in the list.
    ///
    /// Objects whose transform or key function fails are reported to the log of undecodable objects. Their
    /// keys count as present, like those of undecodable objects in the list.
    ///
    /// # Errors
    ///
    /// Returns an error if the queue is closed.
    pub fn replace(&self, replacement: Replacement<O>) -> Result<(), EnqueueError> {
        let mut seen: Vec<_> = replacement.undecodable.iter().filter_map(|one| one.key().cloned()).collect();
        let mut items = Vec::with_capacity(replacement.items.len());
        for item in replacement.items {
            let original = Arc::clone(item.object());
            match self.listed(item) {
                Ok(item) => items.push(item),
                Err(undecodable) => {
                    seen.push((self.config.key)(&original).unwrap_or_else(|_| original.key().clone()));
                    self.config.undecodable.report(undecodable);
                }
            }
        }
        for undecodable in replacement.undecodable {
            self.config.undecodable.report(undecodable);
        }
        let (hold, known) = self.look(all);
        let discarded = self.shared.write(|state| state.replace(items, &seen, known.as_deref()))?;
        drop((hold, discarded));
        Ok(())
    }

    fn listed(&self, item: Listed<O>) -> Result<(ObjectKey, Arc<O>), Undecodable> {
        let object = match (item, &self.config.transform) {
            (Listed::Fresh(object), Some(transform)) => transform.object(object)?,
            (Listed::Fresh(object), None) | (Listed::Known(object), _) => object,
        };
        match (self.config.key)(&object) {
            Ok(key) => Ok((key, object)),
            Err(error) => Err(set_aside(Some(&*object), error.into())),
        }
    }

    /// Queues a [`Delta::Sync`] for every known object without queued deltas. Without a known-objects view it
    /// does nothing.
    ///
    /// # Errors
    ///
    /// Returns an error if the queue is closed.
    pub fn resync(&self) -> Result<(), EnqueueError> {
        let (hold, known) = self.look(all);
        if let Some(known) = &known {
            self.shared.write(|state| state.resync(known))?;
        }
        drop(hold);
        Ok(())
    }

    /// Calls `read` with the known-objects view while the queue's lock is not held, because the view is user
    /// code. Pops wait until the returned `Hold` is dropped, so that the queue stays consistent with the
    /// view. Returns nothing if the queue has no view.
    fn look<T>(&self, read: impl FnOnce(&dyn KnownObjects<O>) -> T) -> (Option<Hold<'_, O>>, Option<T>) {
        let Some(known) = &self.config.known else { return (None, None) };
        self.shared.update(DeltaState::hold);
        let hold = Hold(&self.shared);
        let seen = read(&**known);
        (Some(hold), Some(seen))
    }

    /// Takes the deltas of the next key; waits while the queue is empty. The deltas count as processed when
    /// `done` is called on the returned value or it is dropped.
    ///
    /// # Errors
    ///
    /// Returns an error if the queue is closed and drained.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future before it resolves does not take an item.
    pub async fn pop(&self) -> Result<Popped<Deltas<O>>, QueueClosed> {
        let taken = self.shared.take(DeltaState::pop).await?;
        Ok(Popped::new(taken, Arc::clone(&self.shared) as _))
    }

    /// Takes the deltas of the next key like [`pop`](Self::pop), but returns `None` at once if there are no
    /// deltas to take.
    ///
    /// # Errors
    ///
    /// Returns an error if the queue is closed and drained.
    pub fn try_pop(&self) -> Result<Option<Popped<Deltas<O>>>, QueueClosed> {
        let taken = self.shared.try_take(DeltaState::pop)?;
        Ok(taken.map(|taken| Popped::new(taken, Arc::clone(&self.shared) as _)))
    }

    /// Pops the deltas of the next key and calls `process` with the deltas and a flag, which is true if they
    /// belong to the initial list. No lock is held during the call, so other tasks and `process` itself can
    /// write to the queue.
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
        process: impl FnOnce(&Deltas<O>, bool) -> Processed<R>,
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

    /// Returns true once all items of the first list are processed. A requeued item counts as processed from
    /// its first attempt. An addition, update or deletion before any list makes the result true immediately.
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

    /// Returns the newest object of each queued key, in the order in which the keys will be popped. If the
    /// newest delta is a deletion, this is the last known state.
    pub fn list(&self) -> Vec<Arc<O>> {
        self.shared.lock().iter().filter_map(|deltas| deltas.newest().object().cloned()).collect()
    }

    /// Returns the queued keys, in the order in which they will be popped.
    pub fn list_keys(&self) -> Vec<ObjectKey> {
        self.shared.lock().iter().map(|deltas| deltas.key().clone()).collect()
    }

    /// Returns the deltas that are queued for a key.
    pub fn get(&self, key: &str) -> Option<Deltas<O>> {
        self.shared.lock().get(key).cloned()
    }

    /// Returns the number of queued keys.
    pub fn depth(&self) -> usize {
        self.shared.lock().depth()
    }

    fn take(&self, change: Change<O>) -> Result<(), EnqueueError> {
        let about = match &change {
            Change::Added(object) | Change::Updated(object) => Some(Arc::clone(object)),
            Change::Deleted(tombstone) => tombstone.last().cloned(),
            _ => None,
        };
        let outcome = match change {
            Change::Added(object) => self.add(object),
            Change::Updated(object) => self.update(object),
            Change::Deleted(tombstone) => self.delete(tombstone),
            Change::Replaced(replacement) => self.replace(replacement),
            Change::Resync => self.resync(),
            Change::Bookmark(_) => Ok(()),
            Change::Undecodable(undecodable) => {
                self.config.undecodable.report(undecodable);
                Ok(())
            }
        };
        match outcome {
            Err(error @ (EnqueueError::Key(_) | EnqueueError::Transform { .. })) => {
                self.config.undecodable.report(set_aside(about.as_deref(), error));
                Ok(())
            }
            other => other,
        }
    }
}

fn set_aside<O: Object>(about: Option<&O>, error: EnqueueError) -> Undecodable {
    let undecodable = Undecodable::new(about.map(|object| object.key().clone()), error);
    match about {
        Some(object) => undecodable.with_version(object.uid(), object.resource_version().clone()),
        None => undecodable,
    }
}

fn all<O: Object>(known: &dyn KnownObjects<O>) -> Vec<KnownObject<O>> {
    let keys = known.keys().into_iter();
    keys.map(|key| (key.clone(), known.get(key.as_str()))).collect()
}

/// A guard that blocks pops of the queue while the known-objects view is read. If the view panics, the guard
/// is dropped too, so that pops continue.
struct Hold<'a, O>(&'a SharedQueue<DeltaState<O>>);

impl<O> Drop for Hold<'_, O> {
    fn drop(&mut self) {
        self.0.update(DeltaState::release);
    }
}

impl<O: Object> Origin<Deltas<O>> for SharedQueue<DeltaState<O>> {
    fn done(&self, key: &ObjectKey, initial: usize) {
        self.update(|state| state.done(key.as_str(), initial));
    }

    fn requeue(&self, _: &ObjectKey, item: Deltas<O>, initial: usize) {
        self.update(|state| state.requeue(item, initial));
    }
}

impl<O: Object> ReflectorStore<O> for DeltaFifo<O> {
    /// Queues changes as deltas. Bookmarks are ignored. An object that cannot be queued is reported to the
    /// log of undecodable objects.
    fn push(&self, changes: Vec<Change<O>>) -> Result<(), QueueClosed> {
        for change in changes {
            if let Err(EnqueueError::Closed(closed)) = self.take(change) {
                return Err(closed);
            }
        }
        if self.is_closed() { Err(QueueClosed) } else { Ok(()) }
    }

    /// Resolves when fewer deltas are queued than
    /// [`InOrderQueue::MAX_WEIGHT`](super::InOrderQueue::MAX_WEIGHT), or when the queue is closed. Once that
    /// limit was reached, resolves only when the number has fallen to half of it.
    fn ready(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(self.shared.ready())
    }
}

impl<O: Object> Queue for DeltaFifo<O> {
    type Popped = Popped<Deltas<O>>;

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

impl<O> Clone for DeltaFifo<O> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), config: Arc::clone(&self.config) }
    }
}

impl<O> fmt::Debug for DeltaFifo<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("DeltaFifo").field(&*self.shared.lock()).finish()
    }
}

#[cfg(test)]
mod tests;

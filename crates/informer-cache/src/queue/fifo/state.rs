use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use hashbrown::HashMap;
use informer_core::ObjectKey;

use crate::queue::initial_sync::InitialSync;
use crate::queue::popped::Taken;
use crate::queue::shared::{SharedQueueState, Signals};

/// The pure state of a [`Fifo`](super::Fifo), without lock and clock. Its methods neither wait nor run user
/// code.
///
/// Methods return the objects that the queue no longer needs, so that the caller can drop them outside its
/// lock. The caller, not this type, checks whether the queue is closed.
///
/// # Invariants
///
/// 1. `order` and `items` contain the same keys, each once.
/// 2. `live` is the number of objects in `items`. The other entries of `items` are positions of deleted
///    objects.
/// 3. `order` is empty if `live` is 0.
pub(crate) struct FifoState<O> {
    /// The queued object of each key. `None` keeps the position of a deleted object.
    items: HashMap<ObjectKey, Option<Arc<O>>>,
    order: VecDeque<ObjectKey>,
    live: usize,
    initial_sync: InitialSync,
    closed: bool,
}

impl<O> FifoState<O> {
    /// Creates an empty queue.
    pub(crate) fn new() -> Self {
        let (items, order, initial_sync) = (HashMap::new(), VecDeque::new(), InitialSync::default());
        Self { items, order, live: 0, initial_sync, closed: false }
    }

    /// Queues an object at the position of its key, or at the end if the key is not queued. Returns the older
    /// state of the object if there was one.
    pub(crate) fn add(&mut self, key: ObjectKey, object: Arc<O>) -> Option<Arc<O>> {
        self.initial_sync.event();
        let superseded = if let Some(place) = self.items.get_mut(&key) {
            place.replace(object)
        } else {
            self.order.push_back(key.clone());
            self.items.insert(key, Some(object)).flatten()
        };
        self.live += usize::from(superseded.is_none());
        superseded
    }

    /// Queues an object. If its key is already queued, returns the object instead.
    pub(crate) fn add_if_not_present(&mut self, key: ObjectKey, object: Arc<O>) -> Option<Arc<O>> {
        self.initial_sync.event();
        match self.items.get(&key) {
            Some(Some(_)) => Some(object),
            _ => self.add(key, object),
        }
    }

    /// Removes an object from the queue. The position of its key is kept as long as other objects are queued.
    pub(crate) fn delete(&mut self, key: &str) -> Option<Arc<O>> {
        self.initial_sync.event();
        let deleted = self.items.get_mut(key)?.take()?;
        self.live -= 1;
        self.clear_places();
        Some(deleted)
    }

    /// Replaces the content of the queue by the objects of `list`, in the order of the list. If a key occurs
    /// several times, its last object is used. The first call defines the initial list.
    pub(crate) fn replace(&mut self, list: Vec<(ObjectKey, Arc<O>)>) -> Vec<Arc<O>> {
        self.order.clear();
        let mut discarded: Vec<_> = self.items.drain().filter_map(|(_, object)| object).collect();
        for (key, object) in list {
            match self.items.insert(key.clone(), Some(object)) {
                None => self.order.push_back(key),
                Some(superseded) => discarded.extend(superseded),
            }
        }
        self.live = self.order.len();
        self.initial_sync.relisted(self.live);
        discarded
    }

    /// Removes the next object from the queue and returns it; `None` if no object is queued.
    pub(crate) fn pop(&mut self) -> Option<Taken<Arc<O>>> {
        if self.live == 0 {
            return None;
        }
        loop {
            let key = self.order.pop_front()?;
            let is_initial = self.initial_sync.is_initial();
            let initial = self.initial_sync.popped(1);
            match self.items.remove(&key)? {
                None => self.initial_sync.processed(initial),
                Some(item) => {
                    self.live -= 1;
                    self.clear_places();
                    return Some(Taken { key, item, is_initial, initial });
                }
            }
        }
    }

    /// Marks a popped object as processed. `initial` is the value of [`Taken::initial`] for that object.
    pub(crate) fn done(&mut self, initial: usize) {
        self.initial_sync.processed(initial);
    }

    /// Queues a popped object again because it could not be processed. If a newer object of its key is
    /// already queued, returns the popped object instead.
    pub(crate) fn requeue(&mut self, key: ObjectKey, object: Arc<O>, initial: usize) -> Option<Arc<O>> {
        self.initial_sync.processed(initial);
        self.add_if_not_present(key, object)
    }

    /// Drops the positions of deleted objects if no other object is queued. No pop would remove these
    /// positions, so `has_synced` would never become true.
    fn clear_places(&mut self) {
        if self.live == 0 {
            let initial = self.initial_sync.popped(self.order.len());
            self.initial_sync.processed(initial);
            self.order.clear();
            self.items.clear();
        }
    }

    /// Returns the object that is queued for a key.
    pub(crate) fn get(&self, key: &str) -> Option<&Arc<O>> {
        self.items.get(key)?.as_ref()
    }

    /// Returns the queued objects, in the order in which they will be popped.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&ObjectKey, &Arc<O>)> {
        self.order.iter().filter_map(|key| Some((key, self.items.get(key)?.as_ref()?)))
    }

    /// Returns the number of queued objects.
    pub(crate) fn depth(&self) -> usize {
        self.live
    }

    /// Returns true once the initial list was queued and processed.
    pub(crate) fn has_synced(&self) -> bool {
        self.initial_sync.has_synced()
    }
}

impl<O> SharedQueueState for FifoState<O> {
    fn signals(&self) -> Signals {
        Signals {
            poppable: self.live > 0,
            empty: self.live == 0,
            // The queue never applies backpressure: it has at most one object for each key, like a store of
            // these objects.
            has_room: true,
            has_synced: self.has_synced(),
            closed: self.closed,
        }
    }

    fn close(&mut self) {
        self.closed = true;
    }
}

impl<O> Default for FifoState<O> {
    fn default() -> Self {
        Self::new()
    }
}

impl<O> fmt::Debug for FifoState<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FifoState")
            .field("depth", &self.live)
            .field("initial_sync", &self.initial_sync)
            .field("closed", &self.closed)
            .finish()
    }
}

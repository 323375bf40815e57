use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use hashbrown::HashMap;
use informer_core::ObjectKey;

use crate::queue::shared::{SharedQueueState, Signals};

/// The pure state of a [`Heap`](super::Heap), without lock and clock. Its methods never wait.
///
/// Methods return the objects that the heap no longer needs, so that the caller can drop them outside its
/// lock.
///
/// # Invariants
///
/// `order` and `items` contain the same keys, each once, with the same ranks and tickets.
pub(crate) struct HeapState<T, R> {
    items: HashMap<ObjectKey, HeapEntry<T, R>>,
    order: BTreeMap<(R, u64), ObjectKey>,
    /// The ticket of the next added item. Tickets increase, so that among equal ranks the item that was added
    /// first is popped first.
    next_ticket: u64,
    closed: bool,
}

struct HeapEntry<T, R> {
    item: Arc<T>,
    place: (R, u64),
}

impl<T, R: Ord + Clone> HeapState<T, R> {
    /// Creates an empty heap.
    pub(crate) fn new() -> Self {
        Self { items: HashMap::new(), order: BTreeMap::new(), next_ticket: 0, closed: false }
    }

    /// Adds an item, or replaces the item with the same key and moves it to the position of the new rank.
    /// Returns the replaced item.
    pub(crate) fn add(&mut self, key: ObjectKey, rank: R, item: Arc<T>) -> Option<Arc<T>> {
        let superseded = self.delete(key.as_str());
        let place = (rank, self.next_ticket);
        self.next_ticket += 1;
        self.order.insert(place.clone(), key.clone());
        self.items.insert(key, HeapEntry { item, place });
        superseded
    }

    /// Adds an item. If the heap already contains an item with the key, returns the new item instead.
    pub(crate) fn add_if_not_present(&mut self, key: ObjectKey, rank: R, item: Arc<T>) -> Option<Arc<T>> {
        if self.items.contains_key(&key) { Some(item) } else { self.add(key, rank, item) }
    }

    /// Removes an item from any position of the heap.
    pub(crate) fn delete(&mut self, key: &str) -> Option<Arc<T>> {
        let entry = self.items.remove(key)?;
        self.order.remove(&entry.place);
        Some(entry.item)
    }

    /// Removes the item with the lowest rank and returns it.
    pub(crate) fn pop(&mut self) -> Option<Arc<T>> {
        let (_, key) = self.order.pop_first()?;
        Some(self.items.remove(&key)?.item)
    }

    /// Returns the item that the heap contains for a key.
    pub(crate) fn get(&self, key: &str) -> Option<&Arc<T>> {
        Some(&self.items.get(key)?.item)
    }

    /// Returns the keys and items of the heap, lowest rank first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&ObjectKey, &Arc<T>)> {
        self.order.values().filter_map(|key| Some((key, self.get(key.as_str())?)))
    }

    /// Returns the number of items in the heap.
    pub(crate) fn len(&self) -> usize {
        self.items.len()
    }

    /// Returns true if the heap contains no items.
    pub(crate) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }
}

impl<T, R: Ord + Clone> SharedQueueState for HeapState<T, R> {
    fn signals(&self) -> Signals {
        let empty = self.is_empty();
        Signals { poppable: !empty, empty, has_room: true, has_synced: true, closed: self.closed }
    }

    fn close(&mut self) {
        self.closed = true;
    }
}

impl<T, R: Ord + Clone> Default for HeapState<T, R> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T, R> fmt::Debug for HeapState<T, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HeapState")
            .field("len", &self.items.len())
            .field("closed", &self.closed)
            .finish_non_exhaustive()
    }
}

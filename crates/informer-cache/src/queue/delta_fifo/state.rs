use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::Arc;

use hashbrown::{HashMap, HashSet};
use informer_core::{ObjectKey, Tombstone};

use super::delta::{Delta, Deltas};
use crate::queue::backpressure::Backpressure;
use crate::queue::initial_sync::InitialSync;
use crate::queue::popped::Taken;
use crate::queue::shared::{SharedQueueState, Signals};

/// An object of the known-objects view: its key, and its state, which is `None` if the object was removed
/// while the view was read.
pub(crate) type KnownObject<O> = (ObjectKey, Option<Arc<O>>);

/// The pure state of a [`DeltaFifo`](super::DeltaFifo), without lock and clock. Its methods neither wait nor
/// run user code.
///
/// Methods return the objects that the queue no longer needs, so that the caller can drop them outside its
/// lock. The caller, not this type, checks whether the queue is closed.
///
/// # Invariants
///
/// 1. `order` contains each key of `items` once, and no other key.
/// 2. `backpressure` is the number of the deltas in `items`.
/// 3. A key is in `in_process` from its pop until its deltas are done or requeued. While pops are held (see
///    [`hold`](Self::hold)), the key also stays after that.
/// 4. No deltas are popped while pops are held.
pub(crate) struct DeltaState<O> {
    items: HashMap<ObjectKey, Deltas<O>>,
    order: VecDeque<ObjectKey>,
    pub(super) in_process: BTreeMap<ObjectKey, InProcess<O>>,
    holds: usize,
    pub(super) backpressure: Backpressure,
    initial_sync: InitialSync,
    sync_on_replace: bool,
    closed: bool,
}

/// The state that the known-objects view will show for a key once the popped deltas of the key are processed.
pub(super) struct InProcess<O> {
    /// Number of pops of the key whose deltas are neither done nor requeued. With one consumer it is at most
    /// 1.
    running: usize,
    /// The state of the object after the newest popped delta; `None` for a deletion.
    newest: Option<Arc<O>>,
}

impl<O> DeltaState<O> {
    /// Creates an empty queue.
    pub(crate) fn new() -> Self {
        Self {
            items: HashMap::new(),
            order: VecDeque::new(),
            in_process: BTreeMap::new(),
            holds: 0,
            backpressure: Backpressure::default(),
            initial_sync: InitialSync::default(),
            sync_on_replace: false,
            closed: false,
        }
    }

    /// Creates an empty queue whose [`replace`](Self::replace) queues [`Delta::Sync`] instead of
    /// [`Delta::Replaced`].
    pub(crate) fn with_sync_on_replace() -> Self {
        Self { sync_on_replace: true, ..Self::new() }
    }

    /// Appends an [`Added`](Delta::Added) or [`Updated`](Delta::Updated) to the queued deltas of a key, which
    /// is queued if it has none.
    pub(crate) fn enqueue(&mut self, key: ObjectKey, delta: Delta<O>) -> Option<Delta<O>> {
        self.initial_sync.event();
        self.append(key, delta)
    }

    /// Queues a deletion, unless the object is neither queued nor in the known-objects view. `known` is true
    /// if the view contains the object; `None` if there is no view.
    ///
    /// For a key in process, the state after its popped deltas decides, not the state that the view shows.
    pub(crate) fn delete(
        &mut self,
        key: ObjectKey,
        tombstone: Tombstone<O>,
        known: Option<bool>,
    ) -> Option<Delta<O>> {
        self.initial_sync.event();
        let known = known.is_some_and(|known| {
            self.in_process.get(&key).map_or(known, |in_process| in_process.newest.is_some())
        });
        if known || self.items.contains_key(&key) {
            self.append(key, Delta::Deleted(tombstone))
        } else {
            Some(Delta::Deleted(tombstone))
        }
    }

    /// Queues popped deltas again. If newer deltas of the key are already queued, returns the popped ones
    /// instead.
    pub(crate) fn add_if_not_present(&mut self, deltas: Deltas<O>) -> Option<Deltas<O>> {
        self.initial_sync.event();
        if self.items.contains_key(deltas.key()) {
            return Some(deltas);
        }
        self.insert(deltas);
        None
    }

    /// Queues a complete list: a delta for each of `items`, then a missed deletion for each queued or known
    /// key that is not in `items`. Keys in `seen` are in the list but undecodable, so they are not queued as
    /// deleted.
    ///
    /// The deletion of a queued key contains its newest queued object; that of a known key contains the known
    /// object. The first list defines the initial list: all keys that it lists or deletes.
    pub(crate) fn replace(
        &mut self,
        items: Vec<(ObjectKey, Arc<O>)>,
        seen: &[ObjectKey],
        known: Option<&[KnownObject<O>]>,
    ) -> Vec<Delta<O>> {
        let mut present: HashSet<ObjectKey> = items.iter().map(|(key, _)| key.clone()).collect();
        let listed = present.len();
        present.extend(seen.iter().cloned());
        let mut discarded = Vec::new();
        for (key, object) in items {
            let delta = if self.sync_on_replace { Delta::Sync(object) } else { Delta::Replaced(object) };
            discarded.extend(self.append(key, delta));
        }
        let queued = self.order.iter().filter(|key| !present.contains(*key));
        let queued = queued.map(|key| (key.clone(), self.items[key].newest().object().cloned()));
        let unqueued = known.map(|known| self.settled(known)).unwrap_or_default().into_iter();
        let unqueued = unqueued.filter(|(key, _)| !present.contains(key) && !self.items.contains_key(key));
        let gone: Vec<_> = queued.chain(unqueued).collect();
        self.initial_sync.list(listed + gone.len());
        for (key, last) in gone {
            discarded.extend(self.append(key.clone(), Delta::Deleted(Tombstone::missed(key, last))));
        }
        discarded
    }

    /// Queues a [`Sync`](Delta::Sync) for every known object that has no queued deltas.
    pub(crate) fn resync(&mut self, known: &[KnownObject<O>]) {
        for (key, object) in self.settled(known) {
            if let Some(object) = object
                && !self.items.contains_key(&key)
            {
                self.append(key, Delta::Sync(object));
            }
        }
    }

    /// Takes the deltas of the next key. Returns `None` if no deltas are queued or pops are held.
    pub(crate) fn pop(&mut self) -> Option<Taken<Deltas<O>>> {
        if self.holds > 0 {
            return None;
        }
        let key = self.order.pop_front()?;
        let item = self.items.remove(&key).expect("a key in order has deltas");
        self.backpressure.shrink(item.len());
        let is_initial = self.initial_sync.is_initial();
        let initial = self.initial_sync.popped(1);
        let newest = item.newest();
        let newest = if newest.is_deleted() { None } else { newest.object().cloned() };
        let running = self.in_process.get(&key).map_or(0, |in_process| in_process.running) + 1;
        self.in_process.insert(key.clone(), InProcess { running, newest });
        Some(Taken { key, item, is_initial, initial })
    }

    /// Marks the popped deltas of a key as processed: from now on the known-objects view shows their result.
    /// `initial` is the value of [`Taken::initial`] for these deltas.
    pub(crate) fn done(&mut self, key: &str, initial: usize) -> Option<Arc<O>> {
        self.initial_sync.processed(initial);
        let in_process = self.in_process.get_mut(key)?;
        in_process.running = in_process.running.saturating_sub(1);
        let through = in_process.running == 0 && self.holds == 0;
        if through { self.in_process.remove(key)?.newest } else { None }
    }

    /// Queues popped deltas again because they could not be processed. They precede newer deltas of the key.
    /// Consecutive deletions are merged; returns the deltas that this drops.
    pub(crate) fn requeue(&mut self, deltas: Deltas<O>, initial: usize) -> Vec<Delta<O>> {
        let _held_by_the_deltas = self.done(deltas.key().as_str(), initial);
        let Some(newer) = self.items.get_mut(deltas.key()) else {
            self.insert(deltas);
            return Vec::new();
        };
        let newer = std::mem::replace(newer, deltas);
        let older = self.items.get_mut(newer.key()).expect("the key was looked up above");
        let weight = older.len();
        let discarded: Vec<_> = newer.into_iter().filter_map(|delta| older.push(delta)).collect();
        self.backpressure.grow(weight);
        self.backpressure.shrink(discarded.len());
        discarded
    }

    /// Blocks pops, so that the queue and the known-objects view can be read consistently.
    pub(crate) fn hold(&mut self) {
        self.holds += 1;
    }

    /// Ends one [`hold`](Self::hold). After the last hold, deltas can be popped again, and the states of keys
    /// whose deltas were processed meanwhile are no longer needed. Returns these states; the caller drops
    /// them outside of the lock.
    pub(crate) fn release(&mut self) -> Vec<Arc<O>> {
        self.holds -= 1;
        let mut through = Vec::new();
        if self.holds == 0 {
            self.in_process.retain(|_, in_process| {
                if in_process.running == 0 {
                    through.extend(in_process.newest.take());
                }
                in_process.running > 0
            });
        }
        through
    }

    /// Returns the deltas that are queued for a key.
    pub(crate) fn get(&self, key: &str) -> Option<&Deltas<O>> {
        self.items.get(key)
    }

    /// Returns the queued deltas of each key, in the order in which the keys will be popped.
    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = &Deltas<O>> {
        self.order.iter().map(|key| &self.items[key])
    }

    /// Returns the number of queued keys.
    pub(crate) fn depth(&self) -> usize {
        self.order.len()
    }

    /// Returns true once the initial list was queued and processed.
    pub(crate) fn has_synced(&self) -> bool {
        self.initial_sync.has_synced()
    }

    fn append(&mut self, key: ObjectKey, delta: Delta<O>) -> Option<Delta<O>> {
        let Some(deltas) = self.items.get_mut(&key) else {
            self.insert(Deltas::new(key, delta));
            return None;
        };
        let discarded = deltas.push(delta);
        self.backpressure.grow(usize::from(discarded.is_none()));
        discarded
    }

    fn insert(&mut self, deltas: Deltas<O>) {
        self.backpressure.grow(deltas.len());
        self.order.push_back(deltas.key().clone());
        self.items.insert(deltas.key().clone(), deltas);
    }

    /// Returns the objects that the known-objects view will show once all popped deltas are processed. Lists
    /// and resyncs are compared with these objects, because the view does not show popped deltas yet.
    fn settled(&self, known: &[KnownObject<O>]) -> Vec<KnownObject<O>> {
        let settled = known.iter().filter(|(key, _)| !self.in_process.contains_key(key));
        let soon = self.in_process.iter().filter_map(|(key, in_process)| {
            let newest = in_process.newest.clone()?;
            Some((key.clone(), Some(newest)))
        });
        settled.cloned().chain(soon).collect()
    }
}

impl<O> SharedQueueState for DeltaState<O> {
    fn signals(&self) -> Signals {
        Signals {
            poppable: !self.order.is_empty() && self.holds == 0,
            empty: self.order.is_empty(),
            has_room: self.backpressure.has_room(),
            has_synced: self.has_synced(),
            closed: self.closed,
        }
    }

    fn close(&mut self) {
        self.closed = true;
    }
}

impl<O> Default for DeltaState<O> {
    fn default() -> Self {
        Self::new()
    }
}

impl<O> fmt::Debug for DeltaState<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeltaState")
            .field("depth", &self.depth())
            .field("in_process", &self.in_process.len())
            .field("holds", &self.holds)
            .field("backpressure", &self.backpressure)
            .field("initial_sync", &self.initial_sync)
            .field("closed", &self.closed)
            .finish()
    }
}

//! Two copies of a store's state: readers use one while the writer changes the other (left-right), in safe
//! Rust. Each side is a [`RwLock`], and `active` names the side to read.
//!
//! A transaction is applied to the inactive side, which then becomes active, and is replayed on the other
//! side. A reader therefore never waits for a transaction: its side is locked only when the *next* state can
//! already be read on the other one.
//!
//! # Invariants
//!
//! 1. Between transactions both copies of the state (sides) are equal.
//! 2. `active` changes only under the ledger's lock and while the new active side is locked for writing.
//!    Readers therefore see whole transactions, and a reader that saw a version never sees an older one
//!    later.
//! 3. No user code runs under any of these locks: no key function, no index function and no `Drop` of an
//!    object. Objects that a transaction replaced are returned to the caller; a replaced state is dropped
//!    after the locks are released.
//!
//! # Lock order
//!
//! Locks are taken in the order `ledger`, then one side at a time. A reader locks one side and nothing else,
//! for one lookup, for at most [`MAX_DIRECT_READ`] references, or for the clone of a state, which increments
//! one reference count per page and shard (below 100 us for 100,000 objects).
//!
//! # Shutdown
//!
//! A store needs no shutdown: it has no task and no thread. The state is dropped with the last handle, and
//! the content of a snapshot with the snapshot.
//!
//! # Trade-offs
//!
//! - Slots, keys and postings exist in two copies, about 40 bytes per object and side; the objects themselves
//!   exist once. A replacement of the whole store is built once, and both sides share its pages until a write
//!   changes them.
//! - Each transaction is applied to both copies. The replay on the second one computes no hashes, calls no
//!   functions and makes no decisions.
//! - After a snapshot, the first write to each page or shard copies that page or shard, once per snapshot and
//!   side.
//! - Slots of deleted objects are reused, but pages are freed only when the whole store is replaced.

use std::hash::BuildHasher;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use foldhash::fast::RandomState;
use informer_core::{Object, ObjectKey, ResourceVersion};
use parking_lot::{Mutex, MutexGuard, RwLock};

use crate::error::AddIndexersError;
use crate::index::Indexers;
use crate::ledger::{Edit, Ledger};
use crate::state::State;
use crate::values::{Computed, Definition, IndexFailure};

/// The maximum number of references that a reader copies while it holds the lock of a side. For more
/// references it clones the state, which is as fast and delays the writer less, but makes the writer copy
/// pages. 4096 references take about 50 us.
pub(crate) const MAX_DIRECT_READ: usize = 4096;

/// The number of optimistic attempts of a reader to find an unlocked side. A failed attempt means that the
/// writer published a version meanwhile. After the last attempt the reader blocks on the lock.
const READ_ATTEMPTS: usize = 16;

pub(crate) struct Shared<O> {
    sides: [Side<O>; 2],
    active: Padded<AtomicUsize>,
    ledger: Padded<Mutex<Ledger<O>>>,
    hasher: RandomState,
    /// The resource name of the objects in errors, such as `pods`.
    pub(crate) resource: Arc<str>,
}

type Side<O> = Padded<RwLock<State<O>>>;

/// A value aligned to two cache lines, because processors fetch them in pairs: writes to one side must not
/// slow down the readers of the other side.
#[repr(align(128))]
struct Padded<T>(T);

impl<O: Object> Shared<O> {
    pub(crate) fn new(resource: Arc<str>, indexers: Indexers<O>) -> Self {
        let hasher = RandomState::default();
        let shared = Self {
            sides: [(); 2].map(|()| Padded(RwLock::new(State::new(hasher.clone())))),
            active: Padded(AtomicUsize::new(0)),
            ledger: Padded(Mutex::new(Ledger::new())),
            hasher,
            resource,
        };
        shared.add_indexers(indexers).expect("names in `Indexers` are unique, and the store has none yet");
        shared
    }

    /// Reads the newest state. `look` must be short code of this crate, because it runs under a lock; see the
    /// lock order of the module.
    pub(crate) fn read<R>(&self, look: impl FnOnce(&State<O>) -> R) -> R {
        for _ in 0..READ_ATTEMPTS {
            if let Some(side) = self.sides[self.active.load(Ordering::Acquire)].try_read() {
                return look(&side);
            }
            // The side is locked because the writer has made the other side active since `active` was read.
            // The other side is newer and unlocked, so the next attempt reads that side.
        }
        look(&self.sides[self.active.load(Ordering::Acquire)].read())
    }

    pub(crate) fn get(&self, key: &str) -> Option<Arc<O>> {
        let hash = self.hasher.hash_one(key);
        self.read(|state| Some(state.find(hash, key)?.1.object.clone()))
    }

    pub(crate) fn snapshot(&self) -> State<O> {
        self.read(State::clone)
    }

    /// Applies edits as one transaction and returns the previous object of each key. `version`, if any,
    /// becomes the resource version of the store.
    pub(crate) fn apply(
        &self,
        edits: Vec<Edit<O>>,
        version: Option<&ResourceVersion>,
    ) -> Vec<Option<Arc<O>>> {
        if edits.is_empty() {
            if let Some(version) = version {
                self.bookmark(version);
            }
            return Vec::new();
        }
        let (mut ledger, computed) = self.compute(|| {
            edits.iter().filter_map(|edit| match edit {
                Edit::Put(key, object) => Some((key, &**object)),
                Edit::Remove(_) => None,
            })
        });
        let mut previous = Vec::new();
        let first = |ledger: &mut Ledger<O>, state: &mut State<O>| {
            previous = ledger.apply(state, edits, &computed);
            if let Some(version) = version {
                state.resource_version = version.clone();
            }
        };
        self.publish(&mut ledger, first, Ledger::replay);
        previous
    }

    pub(crate) fn bookmark(&self, version: &ResourceVersion) {
        let set = |_: &mut Ledger<O>, state: &mut State<O>| state.resource_version = version.clone();
        self.publish(&mut self.ledger.lock(), set, |_, _| {});
    }

    /// Replaces the whole content of the store with `items`. If two items have the same key, the later one is
    /// stored.
    pub(crate) fn replace(&self, items: Vec<(ObjectKey, Arc<O>)>, version: &ResourceVersion) {
        let (mut ledger, computed) = self.compute(|| items.iter().map(|(key, object)| (key, &**object)));
        let mut new = State::new(self.hasher.clone());
        let displaced = ledger.rebuild(&mut new, items, &computed);
        new.resource_version = version.clone();
        let copy = new.clone();
        let mut old = (None, None);
        let swap = |state: &mut State<O>, mut new: State<O>| {
            new.version = state.version;
            Some(std::mem::replace(state, new))
        };
        self.publish(&mut ledger, |_, state| old.0 = swap(state, new), |_, state| old.1 = swap(state, copy));
        drop(ledger);
        // Drop the last references to the replaced objects after the locks are released, because dropping an
        // object runs user code.
        drop((old, displaced));
    }

    /// Adds all of the given indexes to the store, or none of them if one of their names is in use.
    pub(crate) fn add_indexers(&self, indexers: Indexers<O>) -> Result<(), AddIndexersError> {
        let claimed = self.claim(indexers)?;
        self.install(claimed);
        Ok(())
    }

    /// Reserves the names of all of the given indexes, or none of them if one name is in use. The caller must
    /// install the indexes or release the names.
    pub(crate) fn claim(&self, indexers: Indexers<O>) -> Result<Vec<Arc<Definition<O>>>, AddIndexersError> {
        // Definitions are created before the ledger is locked, because `IndexFn::kind` is user code.
        let definitions = indexers.into_functions().into_iter();
        let definitions: Vec<_> =
            definitions.map(|(name, function)| Arc::new(Definition::new(name, function))).collect();
        let mut ledger = self.ledger.lock();
        let names = || definitions.iter().map(|definition| &definition.name);
        let taken: Vec<Arc<str>> = names().filter(|name| ledger.has_name(name)).cloned().collect();
        if !taken.is_empty() {
            return Err(AddIndexersError::new(taken));
        }
        ledger.claimed.extend(names().cloned());
        drop(ledger);
        Ok(definitions)
    }

    pub(crate) fn release(&self, claimed: &[Arc<Definition<O>>]) {
        let mut ledger = self.ledger.lock();
        for definition in claimed {
            ledger.claimed.remove(&definition.name);
        }
    }

    /// Adds the indexes whose names were reserved.
    ///
    /// The index functions run under no lock, over a snapshot. Concurrent transactions record their values in
    /// the [`Ledger`], which only writers use. Those take precedence over the values from the snapshot.
    /// Readers see an index once it is complete.
    pub(crate) fn install(&self, claimed: Vec<Arc<Definition<O>>>) {
        if claimed.is_empty() {
            return;
        }
        let (snapshot, positions) = {
            let mut ledger = self.ledger.lock();
            let positions: Vec<usize> = claimed.into_iter().map(|new| ledger.register(new)).collect();
            (self.snapshot(), positions)
        };
        for position in positions {
            self.fill(position, &snapshot);
        }
    }

    pub(crate) fn index_failures(&self) -> Vec<IndexFailure> {
        let definitions = self.ledger.lock().definitions.clone();
        definitions.iter().filter_map(|definition| definition.failure()).collect()
    }

    /// Builds the registered index at `position` from `snapshot`, and makes it visible to readers.
    fn fill(&self, position: usize, snapshot: &State<O>) {
        let definition = self.ledger.lock().definitions[position].clone();
        let (mut slots, mut computed) = (Vec::with_capacity(snapshot.len()), Computed::default());
        for (slot, entry) in snapshot.slots() {
            computed.add(std::slice::from_ref(&definition), &entry.key, &*entry.object);
            slots.push(slot);
        }
        let mut ledger = self.ledger.lock();
        let index = ledger.fill(position, &self.hasher, &slots, &computed);
        let set = |state: &mut State<O>| state.set_index(position, Some(index.clone()));
        self.publish(&mut ledger, |_, state| drop(set(state)), |_, state| drop(set(state)));
    }

    /// Calls the index functions for objects, under no lock, and returns the locked ledger with the results.
    /// If an index was added meanwhile, the functions are called again, because the results lack the values
    /// of that index.
    fn compute<'o, I>(&self, objects: impl Fn() -> I) -> (MutexGuard<'_, Ledger<O>>, Computed)
    where
        I: Iterator<Item = (&'o ObjectKey, &'o O)>,
    {
        loop {
            let definitions = self.ledger.lock().definitions.clone();
            let mut computed = Computed::default();
            objects().for_each(|(key, object)| computed.add(&definitions, key, object));
            let ledger = self.ledger.lock();
            if Arc::ptr_eq(&ledger.definitions, &definitions) {
                return (ledger, computed);
            }
        }
    }

    /// Publishes a new version of the state: `first` changes the copy that readers do not use, which then
    /// becomes the active one. Then `second` changes the other copy.
    fn publish(
        &self,
        ledger: &mut Ledger<O>,
        first: impl FnOnce(&mut Ledger<O>, &mut State<O>),
        second: impl FnOnce(&mut Ledger<O>, &mut State<O>),
    ) {
        let active = self.active.load(Ordering::Acquire);
        let version = {
            let mut side = self.sides[1 - active].write();
            first(ledger, &mut side);
            side.version += 1;
            self.active.store(1 - active, Ordering::Release);
            side.resource_version.clone()
        };
        let mut side = self.sides[active].write();
        second(ledger, &mut side);
        side.version += 1;
        side.resource_version = version;
    }
}

impl<T> Deref for Padded<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

#[cfg(test)]
mod tests;

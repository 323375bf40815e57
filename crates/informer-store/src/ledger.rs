//! The state that only the writer of a store uses: the free slots (numbered places for objects), and the
//! index values of each object.
//!
//! # Invariants
//!
//! 1. `values[i][slot]` contains the values of the object in `slot` in index `i`. An old object is removed
//!    from an index by these recorded values, and the index function is not called again for it. A function
//!    whose result changes therefore leaves no stale index entry.
//! 2. Every slot with a number below `next` is either occupied or in `free`.
//! 3. Changes are computed on one of the store's two copies of the state and logged. Replaying the log brings
//!    the other copy to the same version.

use std::collections::BTreeSet;
use std::sync::Arc;

use foldhash::fast::RandomState;
use informer_core::ObjectKey;

use crate::state::{Index, Op, Slot, State};
use crate::values::{Computed, Definition, Values};

/// The maximum number of operations for which the log keeps memory between transactions. A longer log comes
/// from a rare, large transaction, so its memory is released after the replay.
const MAX_LOG_ENTRIES: usize = 16_384;

pub(crate) struct Ledger<O> {
    /// The definitions of the installed indexes and of the indexes under construction. Adding or installing
    /// an index replaces this `Arc`. A transaction computes its index values without holding the lock, and
    /// computes them again if the `Arc` was replaced meanwhile.
    pub(crate) definitions: Arc<[Arc<Definition<O>>]>,
    /// For each index in `definitions`, true if readers see the index.
    pub(crate) installed: Vec<bool>,
    /// The names that are reserved for indexes that are not yet registered.
    pub(crate) claimed: BTreeSet<Arc<str>>,
    values: Vec<Vec<Values>>,
    free: Vec<u32>,
    next: u32,
    log: Vec<Op<O>>,
    /// True if operations are logged, to be replayed on the other copy of the state. False while `rebuild`
    /// creates a state that both copies will share.
    logging: bool,
}

/// A requested change of the object with one key: [`Ledger::apply`] inserts, replaces or removes the object.
pub(crate) enum Edit<O> {
    Put(ObjectKey, Arc<O>),
    Remove(ObjectKey),
}

impl<O> Ledger<O> {
    pub(crate) fn new() -> Self {
        Self {
            definitions: Arc::new([]),
            installed: Vec::new(),
            claimed: BTreeSet::new(),
            values: Vec::new(),
            free: Vec::new(),
            next: 0,
            log: Vec::new(),
            logging: true,
        }
    }

    /// Applies edits to `state` in order, logs the operations, and returns the previous object of each key.
    /// `computed` contains the index values of each [`Edit::Put`]: one group per index.
    pub(crate) fn apply(
        &mut self,
        state: &mut State<O>,
        edits: Vec<Edit<O>>,
        computed: &Computed,
    ) -> Vec<Option<Arc<O>>> {
        let mut group = 0;
        let apply_one = |edit| match edit {
            Edit::Put(key, object) => {
                let first = group;
                group += self.definitions.len();
                self.put(state, Slot { key, object }, computed, first)
            }
            Edit::Remove(key) => self.remove(state, &key),
        };
        edits.into_iter().map(apply_one).collect()
    }

    pub(crate) fn replay(&mut self, state: &mut State<O>) {
        for op in self.log.drain(..) {
            // The transaction has already replaced the same objects in the other copy of the state, and its
            // caller still refers to them. Dropping these references therefore runs no `drop` of an object.
            drop(state.perform(op));
        }
        self.log.shrink_to(MAX_LOG_ENTRIES);
    }

    /// Returns true if an index of the store has this name, or if the name is reserved for an index that is
    /// not yet added.
    pub(crate) fn has_name(&self, name: &str) -> bool {
        self.claimed.contains(name) || self.definitions.iter().any(|held| *held.name == *name)
    }

    /// Registers an index under its reserved name, and returns its position in `definitions`. Later
    /// transactions compute values for the index and record them in the ledger, but readers do not see the
    /// index until it is filled.
    pub(crate) fn register(&mut self, definition: Arc<Definition<O>>) -> usize {
        self.claimed.remove(&definition.name);
        let position = self.definitions.len();
        self.definitions = self.definitions.iter().cloned().chain([definition]).collect();
        self.installed.push(false);
        self.values.push(vec![Values::Unknown; self.next as usize]);
        position
    }

    /// Builds the registered index at `position` of `definitions`. Slots that no transaction has changed
    /// since the index was registered get their values from `computed`, which has one group of index values
    /// for each of `slots`. All other slots keep the values that transactions have recorded.
    pub(crate) fn fill(
        &mut self,
        position: usize,
        hasher: &RandomState,
        slots: &[u32],
        computed: &Computed,
    ) -> Index<O> {
        let mut index = Index::new(self.definitions[position].clone());
        let held = &mut self.values[position];
        for (group, slot) in slots.iter().enumerate() {
            // The index values of the snapshot were computed without the lock. If the whole content of the
            // store was replaced in that time, the store may have fewer slots than the snapshot. Values for
            // missing slots are dropped, because the replacement has computed those of its own objects.
            if let Some(held) = held.get_mut(*slot as usize).filter(|held| held.is_unknown()) {
                let values =
                    computed.group(group).map(|value| index.intern(hasher, value)).collect::<Values>();
                values.as_slice().iter().for_each(|text| index.link(hasher, text.clone(), *slot));
                *held = values;
            }
        }
        for (slot, values) in (0..).zip(held) {
            // Add the values that transactions have recorded since the index was registered. Values that were
            // taken from the snapshot are added a second time, which has no effect.
            values.as_slice().iter().for_each(|text| index.link(hasher, text.clone(), slot));
        }
        self.installed[position] = true;
        self.definitions = self.definitions.iter().cloned().collect();
        index
    }

    /// Fills an empty state with `items` and all installed indexes, and resets the ledger to describe it. If
    /// two items have the same key, the later one is stored and the earlier one is returned.
    pub(crate) fn rebuild(
        &mut self,
        state: &mut State<O>,
        items: Vec<(ObjectKey, Arc<O>)>,
        computed: &Computed,
    ) -> Vec<Arc<O>> {
        let mut displaced = Vec::new();
        self.free.clear();
        self.next = 0;
        self.values.iter_mut().for_each(Vec::clear);
        for (position, definition) in self.definitions.iter().enumerate() {
            let index = self.installed[position].then(|| Index::new(definition.clone()));
            state.set_index(position, index);
        }
        self.logging = false;
        for (item, (key, object)) in items.into_iter().enumerate() {
            displaced.extend(self.put(state, Slot { key, object }, computed, item * self.definitions.len()));
        }
        self.logging = true;
        displaced
    }

    fn put(
        &mut self,
        state: &mut State<O>,
        entry: Slot<O>,
        computed: &Computed,
        first_group: usize,
    ) -> Option<Arc<O>> {
        let hash = state.hash(entry.key.as_str());
        let found = state.find(hash, entry.key.as_str()).map(|(slot, _)| slot);
        let slot = found.unwrap_or_else(|| self.take_slot());
        let displaced = self.perform(state, Op::Put { slot, hash, entry, fresh: found.is_none() });
        for index in 0..self.definitions.len() {
            self.set_values(state, index, slot, computed.group(first_group + index));
        }
        Some(displaced?.object)
    }

    fn remove(&mut self, state: &mut State<O>, key: &ObjectKey) -> Option<Arc<O>> {
        let hash = state.hash(key.as_str());
        let slot = state.find(hash, key.as_str())?.0;
        for index in 0..self.definitions.len() {
            self.set_values(state, index, slot, std::iter::empty());
        }
        self.free.push(slot);
        Some(self.perform(state, Op::Take { slot, hash })?.object)
    }

    fn set_values<'a>(
        &mut self,
        state: &mut State<O>,
        index: usize,
        slot: u32,
        now: impl ExactSizeIterator<Item = &'a str> + Clone,
    ) {
        let held = &mut self.values[index];
        if held.len() <= slot as usize {
            held.resize(slot as usize + 1, Values::None);
        }
        let held = &mut held[slot as usize];
        if held.equal(now.clone()) && !held.is_unknown() {
            return;
        }
        let before = std::mem::take(held);
        let after: Values = now.map(|value| state.intern(index, value)).collect();
        *held = after.clone();
        for text in before.as_slice().iter().filter(|text| !after.as_slice().contains(text)) {
            self.perform(state, Op::Unlink { index, text: text.clone(), slot });
        }
        for text in after.as_slice().iter().filter(|text| !before.as_slice().contains(text)) {
            self.perform(state, Op::Link { index, text: text.clone(), slot });
        }
    }

    fn perform(&mut self, state: &mut State<O>, op: Op<O>) -> Option<Slot<O>> {
        if self.logging {
            self.log.push(op.clone());
        }
        state.perform(op)
    }

    fn take_slot(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            let slot = self.next;
            self.next = slot
                .checked_add(1)
                .expect("objects of a store are fewer than 2^32: their keys alone need 100 GB");
            slot
        })
    }
}

#[cfg(test)]
mod tests;

//! What only the writing side of a store knows: which slots are free, and which values each object was indexed under.
//!
//! # Invariants
//!
//! 1. `values[i][slot]` is what index `i` holds for the object in `slot`; the index function is never asked about an
//!    old object again, so a function that changes its mind leaves no stale posting.
//! 2. Every slot below `next` is either occupied or in `free`.
//! 3. Changes are found on one side and logged; the log brings the other side to the same version.

use std::collections::BTreeSet;
use std::sync::Arc;

use foldhash::fast::RandomState;
use informer_core::ObjectKey;

use crate::state::{Index, Op, Slot, State};
use crate::values::{Computed, Definition, Values};

/// Log entries whose memory is kept between transactions; more are the mark of a rare, large transaction.
const MAX_LOG_ENTRIES: usize = 16_384;

pub(crate) struct Ledger<O> {
    /// Installed and pending indexes. A new list whenever one is added or installed, so that values computed outside
    /// the lock can be told to be out of date.
    pub(crate) definitions: Arc<[Arc<Definition<O>>]>,
    /// Which of them readers see.
    pub(crate) installed: Vec<bool>,
    /// Names that are taken for indexes which are not registered yet.
    pub(crate) claimed: BTreeSet<Arc<str>>,
    values: Vec<Vec<Values>>,
    free: Vec<u32>,
    next: u32,
    log: Vec<Op<O>>,
    /// False while a state is built that both sides will share: there is nothing to replay.
    logging: bool,
}

/// One change of one key, ready to be applied.
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

    /// Applies edits to `state` in their order, logs what was done, and returns what each key held before. `computed`
    /// has one group for each `Put` and index.
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

    /// Brings the other side to the version of the first.
    pub(crate) fn replay(&mut self, state: &mut State<O>) {
        for op in self.log.drain(..) {
            // What is displaced here was displaced on the first side too, and its objects are held by the caller.
            drop(state.perform(op));
        }
        self.log.shrink_to(MAX_LOG_ENTRIES);
    }

    /// Whether an index has a name, or is to have it.
    pub(crate) fn has_name(&self, name: &str) -> bool {
        self.claimed.contains(name) || self.definitions.iter().any(|held| *held.name == *name)
    }

    /// Registers an index that readers do not see yet under the name that was taken for it, and returns its position.
    pub(crate) fn register(&mut self, definition: Arc<Definition<O>>) -> usize {
        self.claimed.remove(&definition.name);
        let position = self.definitions.len();
        self.definitions = self.definitions.iter().cloned().chain([definition]).collect();
        self.installed.push(false);
        self.values.push(vec![Values::Unknown; self.next as usize]);
        position
    }

    /// The finished index at `position`: the slots that no transaction touched since it was registered get their
    /// values from `computed`, which has one group for each of `slots`.
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
            // A replaced store has fewer slots, perhaps, and its values are all known.
            if let Some(held) = held.get_mut(*slot as usize).filter(|held| held.is_unknown()) {
                let values =
                    computed.group(group).map(|value| index.intern(hasher, value)).collect::<Values>();
                values.as_slice().iter().for_each(|text| index.link(hasher, text.clone(), *slot));
                *held = values;
            }
        }
        for (slot, values) in (0..).zip(held) {
            // Links those that transactions left; a second link of the others changes nothing.
            values.as_slice().iter().for_each(|text| index.link(hasher, text.clone(), slot));
        }
        self.installed[position] = true;
        self.definitions = self.definitions.iter().cloned().collect();
        index
    }

    /// Fills an empty state with `items` and every installed index; the ledger then describes it. Of two items with
    /// one key the later stays, and the earlier is handed back.
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

    /// Moves the object in `slot` from the values it had in an index to those it has now.
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

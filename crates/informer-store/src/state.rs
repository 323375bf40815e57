//! One version of a store: objects in slots, a map from keys to slots, and for each index a map from values
//! to slots. The state has no lock and no clock, and runs no user code.
//!
//! # Invariants
//!
//! 1. `keys` contains exactly the occupied slots of `slots`, each under the hash of its key. Keys are unique.
//! 2. A posting contains only occupied slots, and is never empty.
//! 3. A clone is a snapshot: it shares pages and shards, which later changes of the store copy before they
//!    write.

use std::hash::BuildHasher;
use std::sync::Arc;

use foldhash::fast::RandomState;
use informer_core::{LabelOperator, LabelSelector, ObjectKey, ResourceVersion};

use crate::index::IndexKind;
use crate::paged::Paged;
use crate::posting::Posting;
use crate::sharded::Sharded;
use crate::values::Definition;

mod query;

pub(crate) use query::is_chosen;

pub(crate) struct State<O> {
    slots: Paged<Slot<O>>,
    keys: Sharded<u32>,
    /// The indexes in the order of the ledger's definitions. An entry is `None` or missing while its index is
    /// being built.
    indexes: Vec<Option<Index<O>>>,
    hasher: RandomState,
    pub(crate) version: u64,
    pub(crate) resource_version: ResourceVersion,
}

pub(crate) struct Slot<O> {
    pub(crate) key: ObjectKey,
    pub(crate) object: Arc<O>,
}

pub(crate) struct Index<O> {
    pub(crate) definition: Arc<Definition<O>>,
    values: Sharded<Value>,
}

/// The candidates for a list: the objects that an index has selected. The list still has to filter them by
/// its selector and, if `namespace` is set, by the namespace.
pub(crate) struct Narrowed<'a> {
    postings: Vec<&'a Posting>,
    /// The namespace for which the objects must still be filtered. `None` if a namespace index has already
    /// selected them.
    pub(crate) namespace: Option<&'a str>,
}

impl Narrowed<'_> {
    pub(crate) fn len(&self) -> usize {
        self.postings.iter().map(|posting| posting.len()).sum()
    }

    pub(crate) fn slots(&self) -> impl Iterator<Item = u32> {
        self.postings.iter().flat_map(|posting| posting.iter())
    }
}

#[derive(Clone)]
struct Value {
    text: Arc<str>,
    posting: Posting,
}

/// One change of a state. A store keeps two copies of its state, one for readers and one for the writer
/// (left-right). Applying the same operations brings both copies to the same version.
pub(crate) enum Op<O> {
    /// Stores an object in a slot. If `fresh` is true, the slot was empty, so the key must be added to
    /// `keys`.
    Put { slot: u32, hash: u64, entry: Slot<O>, fresh: bool },
    /// Removes the object from a slot.
    Take { slot: u32, hash: u64 },
    /// Adds a value of the object in the slot to an index.
    Link { index: usize, text: Arc<str>, slot: u32 },
    /// Removes a value of the object in the slot from an index.
    Unlink { index: usize, text: Arc<str>, slot: u32 },
}

impl<O> State<O> {
    pub(crate) fn new(hasher: RandomState) -> Self {
        Self {
            slots: Paged::default(),
            keys: Sharded::default(),
            indexes: Vec::new(),
            hasher,
            version: 0,
            resource_version: ResourceVersion::unset(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.keys.len()
    }

    pub(crate) fn hash(&self, text: &str) -> u64 {
        self.hasher.hash_one(text)
    }

    pub(crate) fn find(&self, hash: u64, key: &str) -> Option<(u32, &Slot<O>)> {
        // The closure that compares keys also keeps the slot that it has read, so that the slot need not be
        // read a second time after a match.
        let mut found = None;
        self.keys.find(hash, |slot| {
            found = self.slot(*slot).filter(|entry| entry.is_of(key)).map(|entry| (*slot, entry));
            found.is_some()
        })?;
        found
    }

    pub(crate) fn get(&self, key: &str) -> Option<&Arc<O>> {
        Some(&self.find(self.hash(key), key)?.1.object)
    }

    pub(crate) fn slot(&self, slot: u32) -> Option<&Slot<O>> {
        self.slots.get(slot)
    }

    pub(crate) fn slots(&self) -> impl Iterator<Item = (u32, &Slot<O>)> {
        self.slots.iter()
    }

    pub(crate) fn objects_of(&self, slots: impl Iterator<Item = u32>) -> impl Iterator<Item = &Slot<O>> {
        slots.filter_map(|slot| self.slot(slot))
    }

    pub(crate) fn indexes(&self) -> impl Iterator<Item = &Index<O>> {
        self.indexes.iter().flatten()
    }

    pub(crate) fn index(&self, name: &str) -> Option<&Index<O>> {
        self.indexes().find(|index| *index.definition.name == *name)
    }

    fn index_of(&self, wanted: impl Fn(&IndexKind) -> bool) -> Option<&Index<O>> {
        self.indexes().find(|index| wanted(&index.definition.kind))
    }

    pub(crate) fn posting<'a>(&self, index: &'a Index<O>, value: &str) -> Option<&'a Posting> {
        let found = index.values.find(self.hash(value), |entry| *entry.text == *value)?;
        Some(&found.posting)
    }

    /// Returns the smallest set of candidates for a list that an index provides, or `None` if no index helps.
    /// The candidates include all requested objects and possibly others. Their postings have no slot in
    /// common, so the list contains no object twice.
    pub(crate) fn narrow<'a>(
        &'a self,
        namespace: Option<&'a str>,
        selector: &LabelSelector,
    ) -> Option<Narrowed<'a>> {
        let by_namespace = namespace.and_then(|namespace| {
            let index = self.index_of(|kind| *kind == IndexKind::Namespace)?;
            let postings = self.posting(index, namespace).into_iter().collect();
            Some(Narrowed { postings, namespace: None })
        });
        let by_label = selector.requirements().iter().filter_map(|requirement| {
            if !matches!(requirement.operator(), LabelOperator::Equals | LabelOperator::In) {
                return None;
            }
            let same =
                |kind: &IndexKind| matches!(kind, IndexKind::Label(key) if **key == *requirement.key());
            let index = self.index_of(same)?;
            let postings = requirement.values().filter_map(|value| self.posting(index, value)).collect();
            Some(Narrowed { postings, namespace })
        });
        by_namespace.into_iter().chain(by_label).min_by_key(Narrowed::len)
    }

    /// Applies one change. Returns the replaced slot, so that the caller can drop the object outside of the
    /// locks.
    pub(crate) fn perform(&mut self, op: Op<O>) -> Option<Slot<O>> {
        match op {
            Op::Put { slot, hash, entry, fresh } => {
                let displaced = self.slots.set(slot, Some(entry));
                if fresh {
                    let (slots, hasher) = (&self.slots, &self.hasher);
                    self.keys.insert(hash, slot, |slot| {
                        let entry = slots.get(*slot).expect("a slot in `keys` is occupied");
                        hasher.hash_one(entry.key.as_str())
                    });
                }
                displaced
            }
            Op::Take { slot, hash } => {
                self.keys.remove(hash, |candidate| *candidate == slot);
                self.slots.set(slot, None)
            }
            Op::Link { index, text, slot } => {
                if let Some(Some(index)) = self.indexes.get_mut(index) {
                    index.link(&self.hasher, text, slot);
                }
                None
            }
            Op::Unlink { index, text, slot } => {
                if let Some(Some(index)) = self.indexes.get_mut(index) {
                    index.unlink(&self.hasher, &text, slot);
                }
                None
            }
        }
    }

    pub(crate) fn set_index(&mut self, position: usize, index: Option<Index<O>>) -> Option<Index<O>> {
        if self.indexes.len() <= position {
            self.indexes.resize_with(position + 1, || None);
        }
        std::mem::replace(&mut self.indexes[position], index)
    }

    /// Returns the string that the index already contains for a value, or else a new one. Equal values thus
    /// share one allocation.
    pub(crate) fn intern(&self, index: usize, value: &str) -> Arc<str> {
        match self.indexes.get(index) {
            Some(Some(index)) => index.intern(&self.hasher, value),
            _ => value.into(),
        }
    }
}

impl<O> Slot<O> {
    /// Returns true if this slot contains the object with the given key.
    ///
    /// After a match the caller increments the reference count of the object, and neither the count nor the
    /// key string is usually in a CPU cache. Loading the count before comparing the strings overlaps the two
    /// cache misses.
    fn is_of(&self, key: &str) -> bool {
        Arc::strong_count(&self.object) > 0 && self.key == *key
    }
}

impl<O> Index<O> {
    pub(crate) fn new(definition: Arc<Definition<O>>) -> Self {
        Self { definition, values: Sharded::default() }
    }

    /// Returns the values of this index that at least one object has.
    pub(crate) fn values(&self) -> impl Iterator<Item = &Arc<str>> {
        self.values.iter().map(|value| &value.text)
    }

    pub(crate) fn value_count(&self) -> usize {
        self.values.len()
    }

    pub(crate) fn intern(&self, hasher: &RandomState, value: &str) -> Arc<str> {
        let held = self.values.find(hasher.hash_one(value), |entry| *entry.text == *value);
        held.map_or_else(|| value.into(), |entry| entry.text.clone())
    }

    pub(crate) fn link(&mut self, hasher: &RandomState, text: Arc<str>, slot: u32) {
        let hash = hasher.hash_one(&*text);
        match self.values.find_mut(hash, |value| value.text == text) {
            Some(value) => value.posting.insert(slot),
            None => {
                let value = Value { text, posting: Posting::One(slot) };
                self.values.insert(hash, value, |value| hasher.hash_one(&*value.text));
            }
        }
    }

    fn unlink(&mut self, hasher: &RandomState, text: &str, slot: u32) {
        let hash = hasher.hash_one(text);
        if let Some(value) = self.values.find_mut(hash, |value| *value.text == *text)
            && value.posting.remove(slot)
        {
            // Values without objects must be removed; otherwise short-lived values would accumulate
            // (kubernetes #84959).
            self.values.remove(hash, |value| *value.text == *text);
        }
    }
}

impl<O> Clone for State<O> {
    fn clone(&self) -> Self {
        Self {
            slots: self.slots.clone(),
            keys: self.keys.clone(),
            indexes: self.indexes.clone(),
            hasher: self.hasher.clone(),
            version: self.version,
            resource_version: self.resource_version.clone(),
        }
    }
}

impl<O> Clone for Slot<O> {
    fn clone(&self) -> Self {
        Self { key: self.key.clone(), object: self.object.clone() }
    }
}

impl<O> Clone for Index<O> {
    fn clone(&self) -> Self {
        Self { definition: self.definition.clone(), values: self.values.clone() }
    }
}

impl<O> Clone for Op<O> {
    fn clone(&self) -> Self {
        match self {
            Self::Put { slot, hash, entry, fresh } => {
                Self::Put { slot: *slot, hash: *hash, entry: entry.clone(), fresh: *fresh }
            }
            Self::Take { slot, hash } => Self::Take { slot: *slot, hash: *hash },
            Self::Link { index, text, slot } => Self::Link { index: *index, text: text.clone(), slot: *slot },
            Self::Unlink { index, text, slot } => {
                Self::Unlink { index: *index, text: text.clone(), slot: *slot }
            }
        }
    }
}

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::hash::BuildHasher;

use hashbrown::hash_table::Entry;
use hashbrown::{DefaultHashBuilder, HashTable};
use informer_core::{Object, ObjectKey, ResourceVersion};

use crate::source::Listed;
use crate::{Replacement, Undecodable};

/// A list under construction: its objects in order, one for each key.
///
/// # Invariants
///
/// 1. `by_key` contains the index of each slot that is `Some`, under the hash of its key, and no other index.
/// 2. If a decodable state of an object was added after its last undecodable state, `undecodable` does not
///    contain the object.
pub(super) struct ListBuilder<O> {
    /// The objects of the list. A slot is `None` if a streaming list deleted an object that it had added.
    slots: Vec<Option<Listed<O>>>,
    by_key: HashTable<u32>,
    hasher: DefaultHashBuilder,
    undecodable: BTreeMap<ObjectKey, Undecodable>,
    nameless: Vec<Undecodable>,
    max_objects: u32,
    duplicates: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Inserted {
    New,
    Replaced,
    /// The object was not added, because the list under construction already contains `max_objects` objects,
    /// or as many undecodable ones. This is an error: the caller must make the whole list fail.
    Full,
}

impl<O: Object> ListBuilder<O> {
    pub(super) fn new(max_objects: u32) -> Self {
        Self {
            slots: Vec::new(),
            by_key: HashTable::new(),
            hasher: DefaultHashBuilder::default(),
            undecodable: BTreeMap::new(),
            nameless: Vec::new(),
            max_objects,
            duplicates: 0,
        }
    }

    /// Adds an object to the list under construction. If an object with its key was added before, the new
    /// state replaces the earlier one.
    pub(super) fn put(&mut self, listed: Listed<O>) -> Inserted {
        self.undecodable.remove(listed.object().key());
        let (slots, hasher) = (&mut self.slots, &self.hasher);
        let key = listed.object().key();
        let hash = hasher.hash_one(key.as_str());
        let same = |&index: &u32| key_at(slots, index) == Some(key);
        let rehash = |&index: &u32| hasher.hash_one(key_at(slots, index).map_or("", ObjectKey::as_str));
        match self.by_key.entry(hash, same, rehash) {
            Entry::Occupied(entry) => {
                let index = *entry.get();
                slots[index as usize] = Some(listed);
                self.duplicates += 1;
                Inserted::Replaced
            }
            Entry::Vacant(entry) => match u32::try_from(slots.len()) {
                Ok(index) if index < self.max_objects => {
                    entry.insert(index);
                    slots.push(Some(listed));
                    Inserted::New
                }
                _ => Inserted::Full,
            },
        }
    }

    /// Adds an undecodable object to the list. If the list has an earlier state of the object, that state
    /// stays as the last decoded one.
    pub(super) fn set_aside(&mut self, undecodable: Undecodable) -> Inserted {
        if self.undecodable.len() + self.nameless.len() >= self.max_objects as usize {
            return Inserted::Full;
        }
        match undecodable.key().cloned() {
            Some(key) => match self.undecodable.insert(key, undecodable) {
                None => Inserted::New,
                Some(_) => Inserted::Replaced,
            },
            None => {
                self.nameless.push(undecodable);
                Inserted::New
            }
        }
    }

    pub(super) fn remove(&mut self, key: &ObjectKey) {
        self.undecodable.remove(key);
        let hash = self.hasher.hash_one(key.as_str());
        let slots = &self.slots;
        if let Ok(entry) = self.by_key.find_entry(hash, |&index| key_at(slots, index) == Some(key)) {
            let (index, _) = entry.remove();
            self.slots[index as usize] = None;
        }
    }

    pub(super) fn duplicates(&self) -> u64 {
        self.duplicates
    }

    pub(super) fn finish(self, version: ResourceVersion, rewound: bool, reread: bool) -> Replacement<O> {
        let items = self.slots.into_iter().flatten().collect();
        let undecodable = self.undecodable.into_values().chain(self.nameless).collect();
        Replacement { items, undecodable, version, rewound, reread }
    }
}

fn key_at<O: Object>(slots: &[Option<Listed<O>>], index: u32) -> Option<&ObjectKey> {
    slots.get(index as usize)?.as_ref().map(|listed| listed.object().key())
}

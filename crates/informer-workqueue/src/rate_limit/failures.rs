//! Failure counts per key.
//!
//! # Invariants
//! A key is in the table iff it failed since it was last forgotten. Their number is not bounded: a caller
//! that gives up a key must forget it, as in client-go.
//!
//! # Lock order
//! There is one lock. Eq and Clone of the key run under it, before anything changes; Hash runs before it is
//! taken.
//!
//! # Shutdown
//! Nothing to stop.

use std::hash::{BuildHasher, Hash};

use foldhash::fast::RandomState;
use hashbrown::HashTable;
use parking_lot::Mutex;

#[derive(Debug)]
struct Entry<K> {
    hash: u64,
    key: K,
    failures: u32,
}

pub(super) struct Failures<K> {
    table: Mutex<HashTable<Entry<K>>>,
    hasher: RandomState,
}

impl<K> Failures<K> {
    pub(super) fn new() -> Self {
        Self { table: Mutex::new(HashTable::new()), hasher: RandomState::default() }
    }
}

impl<K: Eq + Hash + Clone> Failures<K> {
    /// Adds one failure and returns the previous count. Saturates.
    pub(super) fn count(&self, key: &K) -> u32 {
        let hash = self.hasher.hash_one(key);
        let mut table = self.table.lock();
        if let Some(entry) = table.find_mut(hash, |entry| entry.key == *key) {
            let before = entry.failures;
            entry.failures = before.saturating_add(1);
            return before;
        }
        let entry = Entry { hash, key: key.clone(), failures: 1 };
        table.insert_unique(hash, entry, |entry| entry.hash);
        0
    }

    pub(super) fn forget(&self, key: &K) {
        let hash = self.hasher.hash_one(key);
        let mut table = self.table.lock();
        let Ok(entry) = table.find_entry(hash, |entry| entry.key == *key) else { return };
        let (removed, _) = entry.remove();
        drop(table);
        drop(removed);
    }

    pub(super) fn get(&self, key: &K) -> u32 {
        let hash = self.hasher.hash_one(key);
        self.table.lock().find(hash, |entry| entry.key == *key).map_or(0, |entry| entry.failures)
    }

    pub(super) fn len(&self) -> usize {
        self.table.lock().len()
    }
}

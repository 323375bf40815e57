//! A table of failure counts per key, for rate limiters.
//!
//! # Invariants
//! A key is in the table iff it failed since it was last forgotten. The number of keys in the table is not
//! bounded: a caller that gives up a key must forget it, as in client-go.
//!
//! # Lock order
//! The table has one lock. Eq and Clone of the key run under it, before the table changes; Hash runs before
//! the lock is taken.
//!
//! # Shutdown
//! The table starts no task, so it has nothing to stop.

use std::hash::{BuildHasher, Hash};

use foldhash::fast::RandomState;
use hashbrown::HashTable;
use parking_lot::Mutex;

#[derive(Debug)]
struct FailureEntry<K> {
    hash: u64,
    key: K,
    failures: u32,
}

pub(super) struct Failures<K> {
    table: Mutex<HashTable<FailureEntry<K>>>,
    hasher: RandomState,
}

impl<K> Failures<K> {
    pub(super) fn new() -> Self {
        Self { table: Mutex::new(HashTable::new()), hasher: RandomState::default() }
    }
}

impl<K: Eq + Hash + Clone> Failures<K> {
    /// Counts one more failure of the key and returns the previous count. The count saturates at its maximum.
    pub(super) fn count(&self, key: &K) -> u32 {
        let hash = self.hasher.hash_one(key);
        let mut table = self.table.lock();
        if let Some(entry) = table.find_mut(hash, |entry| entry.key == *key) {
            let before = entry.failures;
            entry.failures = before.saturating_add(1);
            return before;
        }
        let entry = FailureEntry { hash, key: key.clone(), failures: 1 };
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

//! A hash table in copy-on-write shards. A clone shares every shard, and a change copies one shard.
//!
//! # Invariants
//!
//! 1. The number of shards is a power of two. Bits 32 and up of the hash select the shard of an entry,
//!    because the hash table inside a shard uses the lowest and the highest bits.
//! 2. A shard that a clone refers to is never changed: [`Arc::make_mut`] copies it first.

use std::sync::Arc;

use hashbrown::HashTable;

/// The mean number of entries per shard at which the number of shards doubles. A clone of the table costs one
/// reference count per shard; the first change after a clone copies one shard. At 100,000 objects a clone
/// costs 100 counts, and the copy a few microseconds.
const SHARD_ENTRIES: usize = 1024;

pub(crate) struct Sharded<T> {
    shards: Vec<Arc<HashTable<T>>>,
    len: usize,
}

impl<T: Clone> Sharded<T> {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn find(&self, hash: u64, eq: impl FnMut(&T) -> bool) -> Option<&T> {
        self.shards[self.shard(hash)].find(hash, eq)
    }

    /// Like [`find`](Self::find), but returns a mutable reference to the entry. If no entry is found, no
    /// shard is copied.
    pub(crate) fn find_mut(&mut self, hash: u64, mut eq: impl FnMut(&T) -> bool) -> Option<&mut T> {
        let shard = self.shard(hash);
        self.shards[shard].find(hash, &mut eq)?;
        Arc::make_mut(&mut self.shards[shard]).find_mut(hash, eq)
    }

    /// Inserts an entry that the table does not contain yet. `hasher` returns the hash of an entry; it is
    /// called for existing entries when the table or a shard grows.
    pub(crate) fn insert(&mut self, hash: u64, entry: T, hasher: impl Fn(&T) -> u64) {
        if self.len >= self.shards.len() * SHARD_ENTRIES {
            self.double(&hasher);
        }
        let shard = self.shard(hash);
        Arc::make_mut(&mut self.shards[shard]).insert_unique(hash, entry, hasher);
        self.len += 1;
    }

    pub(crate) fn remove(&mut self, hash: u64, mut eq: impl FnMut(&T) -> bool) -> Option<T> {
        let shard = self.shard(hash);
        self.shards[shard].find(hash, &mut eq)?;
        let entry = Arc::make_mut(&mut self.shards[shard]).find_entry(hash, eq).ok()?;
        self.len -= 1;
        Some(entry.remove().0)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.shards.iter().flat_map(|shard| shard.iter())
    }

    fn shard(&self, hash: u64) -> usize {
        (hash >> 32) as usize & (self.shards.len() - 1)
    }

    fn double(&mut self, hasher: &impl Fn(&T) -> u64) {
        let mut doubled = vec![HashTable::with_capacity(SHARD_ENTRIES); self.shards.len() * 2];
        let mask = doubled.len() - 1;
        for entry in self.iter() {
            let hash = hasher(entry);
            doubled[(hash >> 32) as usize & mask].insert_unique(hash, entry.clone(), hasher);
        }
        self.shards = doubled.into_iter().map(Arc::new).collect();
    }
}

impl<T> Default for Sharded<T> {
    fn default() -> Self {
        Self { shards: vec![Arc::default()], len: 0 }
    }
}

impl<T> Clone for Sharded<T> {
    fn clone(&self) -> Self {
        Self { shards: self.shards.clone(), len: self.len }
    }
}

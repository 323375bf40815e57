//! Maps the hash of a key to its slot: a hash table with entries of eight bytes, which never reads the keys.
//!
//! An entry has 32 bits of the hash and the number of the slot. A lookup reads only slots whose 32 bits of
//! the hash are equal. When most keys have been removed, the table shrinks: a table that kept the size of its
//! largest burst would miss the processor's cache at every later add.

use hashbrown::HashTable;

use super::slots::SlotId;

/// The capacity of the hash table below which it does not shrink.
const MIN_SHRUNK: usize = 64;

/// If fewer than one in this many places of the hash table are used, the table shrinks to a quarter. After
/// shrinking it is far from having to grow again.
const SHRINK_BELOW: usize = 16;

/// The 32 bits of a key's hash that the index stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KeyHash(pub(super) u32);

impl KeyHash {
    pub(super) const fn new(hash: u64) -> Self {
        let [a, b, c, d, e, f, g, h] = hash.to_le_bytes();
        Self(u32::from_le_bytes([a ^ e, b ^ f, c ^ g, d ^ h]))
    }

    /// Extends the 32 bits to the 64 bits that the hash table expects. The table uses the highest and the
    /// lowest of them.
    const fn wide(self) -> u64 {
        (self.0 as u64) << 32 | self.0 as u64
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct IndexEntry {
    hash: KeyHash,
    slot: SlotId,
}

#[derive(Debug, Default)]
pub(super) struct Index(HashTable<IndexEntry>);

impl Index {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the slot with this hash for which `same` returns true. If `same` panics, the index is
    /// unchanged.
    #[inline]
    pub(super) fn find(&self, hash: KeyHash, same: impl Fn(SlotId) -> bool) -> Option<SlotId> {
        self.0.find(hash.wide(), |entry| entry.hash == hash && same(entry.slot)).map(|entry| entry.slot)
    }

    /// Inserts a slot that is not in the index yet.
    #[inline]
    pub(super) fn insert(&mut self, hash: KeyHash, slot: SlotId) {
        self.0.insert_unique(hash.wide(), IndexEntry { hash, slot }, |entry| entry.hash.wide());
    }

    pub(super) fn remove(&mut self, hash: KeyHash, slot: SlotId) {
        let removed = IndexEntry { hash, slot };
        let Ok(entry) = self.0.find_entry(hash.wide(), |entry| *entry == removed) else { return };
        entry.remove();
        let capacity = self.0.capacity();
        if capacity > MIN_SHRUNK && self.0.len() < capacity / SHRINK_BELOW {
            self.0.shrink_to(capacity / 4, |entry| entry.hash.wide());
        }
    }

    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.0.capacity()
    }
}

//! Maps the hash of a key to its slot: a hash table of eight bytes an entry that never reads the keys.
//!
//! An entry has 32 bits of the hash and the number of the slot. Slots with another hash are never read. When
//! most keys have been removed, the table shrinks: a table that kept the size of its largest burst would miss
//! the processor's cache at every later add.

use hashbrown::HashTable;

use super::slots::SlotId;

/// The capacity below which the table does not shrink.
const MIN_SHRUNK: usize = 64;

/// If fewer than one in this many places is taken, the table shrinks to a quarter. At that size it is far
/// from growing again.
const SHRINK_BELOW: usize = 16;

/// 32 bits of a hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KeyHash(pub(super) u32);

impl KeyHash {
    pub(super) const fn new(hash: u64) -> Self {
        let [a, b, c, d, e, f, g, h] = hash.to_le_bytes();
        Self(u32::from_le_bytes([a ^ e, b ^ f, c ^ g, d ^ h]))
    }

    /// Returns the hash for the table, which uses its highest and its lowest bits.
    const fn wide(self) -> u64 {
        (self.0 as u64) << 32 | self.0 as u64
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    hash: KeyHash,
    slot: SlotId,
}

#[derive(Debug, Default)]
pub(super) struct Index(HashTable<Entry>);

impl Index {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the slot with this hash for which `same` returns true. A panic of `same` changes nothing.
    #[inline]
    pub(super) fn find(&self, hash: KeyHash, same: impl Fn(SlotId) -> bool) -> Option<SlotId> {
        self.0.find(hash.wide(), |entry| entry.hash == hash && same(entry.slot)).map(|entry| entry.slot)
    }

    /// Inserts a slot that the index does not contain.
    #[inline]
    pub(super) fn insert(&mut self, hash: KeyHash, slot: SlotId) {
        self.0.insert_unique(hash.wide(), Entry { hash, slot }, |entry| entry.hash.wide());
    }

    pub(super) fn remove(&mut self, hash: KeyHash, slot: SlotId) {
        let removed = Entry { hash, slot };
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

//! From a key's hash to its slot: one table with open addressing, made for queues that fill and empty again and again.
//!
//! An entry is eight bytes, a hash and a slot, so that a look-up mostly touches one cache line and never a slot whose
//! hash differs. Places are taken in the order of hashes: a table that doubles is read and written from front to
//! back. Where many keys have gone, the table shrinks: one that stayed as large as its largest burst would miss the
//! cache at every add of the quiet time after.
//!
//! # Invariants
//! 1. Between the home of an entry and its place there is no free place.
//! 2. At least a fifth of the places is free. At that mark a key that is not there is missed after some thirteen
//!    entries, two cache lines.

use super::slots::SlotId;

/// The least number of places.
const PLACES_MIN: usize = 64;

/// A table with fewer entries than a sixteenth of its places gets a quarter of the places: far from growing again.
const SHRINK_BELOW: usize = 16;

/// 32 bits of a hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KeyHash(pub(super) u32);

impl KeyHash {
    pub(super) const fn new(hash: u64) -> Self {
        let [a, b, c, d, e, f, g, h] = hash.to_le_bytes();
        Self(u32::from_le_bytes([a ^ e, b ^ f, c ^ g, d ^ h]))
    }
}

/// A hash above a slot's number plus one; all zero is a free place, so that a new table is memory as it comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry(u64);

impl Entry {
    /// Numbers of slots end below [`KEYS_MAX`](super::KEYS_MAX).
    const fn new(hash: KeyHash, slot: SlotId) -> Self {
        Self((hash.0 as u64) << 32 | (slot as u64 + 1))
    }

    const fn hash(self) -> KeyHash {
        let [_, _, _, _, a, b, c, d] = self.0.to_le_bytes();
        KeyHash(u32::from_le_bytes([a, b, c, d]))
    }

    const fn slot(self) -> SlotId {
        let [a, b, c, d, ..] = self.0.to_le_bytes();
        SlotId::from_le_bytes([a, b, c, d]) - 1
    }
}

/// Where a key that was not found belongs, until the index changes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place(usize);

#[derive(Debug, Default)]
pub(super) struct Index {
    /// As many as a power of two, or none.
    entries: Vec<u64>,
    len: usize,
}

impl Index {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The slot with this hash that is the `same`, or the place for a new one. A panic of `same` changes nothing.
    #[inline]
    pub(super) fn find(&self, hash: KeyHash, same: impl Fn(SlotId) -> bool) -> Result<SlotId, Place> {
        if self.entries.is_empty() {
            return Err(Place(0));
        }
        let mut at = home(hash, self.entries.len());
        loop {
            let entry = Entry(self.entries[at]);
            if entry.0 == 0 {
                return Err(Place(at));
            }
            if entry.hash() == hash && same(entry.slot()) {
                return Ok(entry.slot());
            }
            at = self.next(at);
        }
    }

    /// Puts a slot where `find` did not find it.
    #[inline]
    pub(super) fn insert(&mut self, place: Place, hash: KeyHash, slot: SlotId) {
        self.len += 1;
        if self.len > self.entries.len() / 5 * 4 {
            self.resize((self.entries.len() * 2).max(PLACES_MIN));
            self.place(Entry::new(hash, slot));
        } else {
            self.entries[place.0] = Entry::new(hash, slot).0;
        }
    }

    /// Takes a slot out, and moves what would no longer be found.
    pub(super) fn remove(&mut self, hash: KeyHash, slot: SlotId) {
        let entry = Entry::new(hash, slot);
        if self.len == 0 {
            return;
        }
        let mut free = home(hash, self.entries.len());
        while self.entries[free] != entry.0 {
            if self.entries[free] == 0 {
                return;
            }
            free = self.next(free);
        }
        let (mask, mut at) = (self.entries.len() - 1, free);
        loop {
            at = self.next(at);
            let entry = Entry(self.entries[at]);
            if entry.0 == 0 {
                break;
            }
            let from_home = at.wrapping_sub(home(entry.hash(), self.entries.len())) & mask;
            if from_home >= at.wrapping_sub(free) & mask {
                self.entries[free] = entry.0;
                free = at;
            }
        }
        self.entries[free] = 0;
        self.len -= 1;
        if self.len < self.entries.len() / SHRINK_BELOW && self.entries.len() > PLACES_MIN {
            self.resize((self.entries.len() / 4).max(PLACES_MIN));
        }
    }

    fn next(&self, at: usize) -> usize {
        (at + 1) & (self.entries.len() - 1)
    }

    fn place(&mut self, entry: Entry) {
        let mut at = home(entry.hash(), self.entries.len());
        while self.entries[at] != 0 {
            at = self.next(at);
        }
        self.entries[at] = entry.0;
    }

    fn resize(&mut self, places: usize) {
        let old = std::mem::replace(&mut self.entries, vec![0; places]);
        old.into_iter().filter(|&entry| entry != 0).for_each(|entry| self.place(Entry(entry)));
    }

    #[cfg(test)]
    pub(super) fn assert_invariants(&self) {
        let taken: Vec<_> = (0..self.entries.len()).filter(|&at| self.entries[at] != 0).collect();
        assert_eq!(taken.len(), self.len);
        assert!(self.len <= self.entries.len() / 5 * 4, "a fifth is free");
        for at in taken {
            let mut passed = home(Entry(self.entries[at]).hash(), self.entries.len());
            while passed != at {
                assert_ne!(self.entries[passed], 0, "no free place before {at}");
                passed = self.next(passed);
            }
        }
    }

    #[cfg(test)]
    pub(super) fn places(&self) -> usize {
        self.entries.len()
    }
}

/// The place that a hash asks for: the larger the hash, the later.
fn home(hash: KeyHash, places: usize) -> usize {
    ((u64::from(hash.0) << places.trailing_zeros()) >> 32) as usize
}

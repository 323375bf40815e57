//! From a key's hash to its slot: one table with open addressing, made for queues that fill and empty again
//! and again.
//!
//! A place has a tag, one byte of a hash, and an entry of eight bytes, a hash and a slot. Tags stand apart
//! from the entries: a key that is not there is missed by the tags alone, two megabytes where a million keys
//! make entries of sixteen, which no cache holds. No slot is looked at whose hash differs. Places are taken
//! in the order of hashes: a table that doubles is read and written from front to back. Where many keys have
//! gone, the table shrinks: one that stayed as large as its largest burst would miss the cache at every add
//! of the quiet time after.
//!
//! In a large table an entry is written a little after its tag, together with others: a processor waits for
//! many lines of memory at once, but not across the lock of the queue, which is taken for each key.
//!
//! # Invariants
//! 1. Between the home of an entry and its place there is no free place.
//! 2. At least a fifth of the places is free. At that mark a key that is not there is missed after some
//!    thirteen tags.
//! 3. A place has a tag iff it has an entry, in `entries` or, where that is zero, in `unwritten`.

use super::slots::SlotId;

/// The least number of places.
const MIN_SLOTS: usize = 64;

/// A table with fewer entries than a sixteenth of its places gets a quarter of the places: far from growing
/// again.
const SHRINK_BELOW: usize = 16;

/// In a table of more places than these, 256 KiB of entries, entries are written together.
const NEAR_PLACES: usize = 1 << 15;

/// How many: more than the lines that a core asks for at once, and little to search.
const WRITTEN_AT_ONCE: usize = 32;

/// Tags looked at in one step, as the bytes of a number.
const TAGS_AT_ONCE: usize = 8;

/// 32 bits of a hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KeyHash(pub(super) u32);

impl KeyHash {
    pub(super) const fn new(hash: u64) -> Self {
        let [a, b, c, d, e, f, g, h] = hash.to_le_bytes();
        Self(u32::from_le_bytes([a ^ e, b ^ f, c ^ g, d ^ h]))
    }

    /// The lowest bits, while the home goes by the highest. Zero is a free place.
    const fn tag(self) -> u8 {
        let [tag, ..] = self.0.to_le_bytes();
        if tag == 0 { 1 } else { tag }
    }
}

/// A hash above a slot's number plus one; all zero is a free place, so that a new table is memory as it
/// comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry(u64);

impl Entry {
    /// Numbers of slots end below [`MAX_KEYS`](super::MAX_KEYS).
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place(usize);

#[derive(Debug, Default)]
pub(super) struct Index {
    /// As many as a power of two, or none.
    tags: Vec<u8>,
    /// As many.
    entries: Vec<u64>,
    unwritten: Vec<(Place, Entry)>,
    len: usize,
}

impl Index {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The slot with this hash that is the `same`, or the place for a new one. A panic of `same` changes
    /// nothing.
    #[inline]
    pub(super) fn find(&self, hash: KeyHash, same: impl Fn(SlotId) -> bool) -> Result<SlotId, Place> {
        if self.tags.is_empty() {
            return Err(Place(0));
        }
        let mut from = home(hash, self.tags.len());
        loop {
            let tags = self.tags_from(from);
            let free = zeros(tags);
            let before_free = free.wrapping_sub(1) & !free;
            let mut alike = zeros(tags ^ u64::from_le_bytes([hash.tag(); TAGS_AT_ONCE])) & before_free;
            while alike != 0 {
                let entry = self.entry(Place(self.past(from, first(alike))));
                if entry.hash() == hash && same(entry.slot()) {
                    return Ok(entry.slot());
                }
                alike &= alike - 1;
            }
            if free != 0 {
                return Err(Place(self.past(from, first(free))));
            }
            from = self.past(from, TAGS_AT_ONCE);
        }
    }

    /// The tags of a place and of those after it.
    #[inline]
    fn tags_from(&self, at: usize) -> u64 {
        let tags = self.tags[at..].first_chunk().copied();
        u64::from_le_bytes(tags.unwrap_or_else(|| std::array::from_fn(|n| self.tags[self.past(at, n)])))
    }

    /// Of a place that is taken.
    fn entry(&self, place: Place) -> Entry {
        match self.entries[place.0] {
            0 => {
                let unwritten = self.unwritten.iter().find(|(to, _)| *to == place);
                unwritten.expect("an entry that is not in its place is still to be written").1
            }
            entry => Entry(entry),
        }
    }

    /// Puts a slot where `find` did not find it.
    #[inline]
    pub(super) fn insert(&mut self, place: Place, hash: KeyHash, slot: SlotId) {
        let entry = Entry::new(hash, slot);
        self.len += 1;
        if self.len > self.tags.len() / 5 * 4 {
            self.grow();
            self.place(entry);
            return;
        }
        self.tags[place.0] = hash.tag();
        if self.entries.len() <= NEAR_PLACES {
            self.entries[place.0] = entry.0;
            return;
        }
        self.unwritten.push((place, entry));
        if self.unwritten.len() >= WRITTEN_AT_ONCE {
            self.write();
        }
    }

    fn write(&mut self) {
        for (place, entry) in self.unwritten.drain(..) {
            self.entries[place.0] = entry.0;
        }
    }

    /// Takes a slot out, and moves what would no longer be found.
    pub(super) fn remove(&mut self, hash: KeyHash, slot: SlotId) {
        let entry = Entry::new(hash, slot);
        if self.len == 0 {
            return;
        }
        self.write();
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
                (self.tags[free], self.entries[free]) = (self.tags[at], entry.0);
                free = at;
            }
        }
        (self.tags[free], self.entries[free]) = (0, 0);
        self.len -= 1;
        if self.len < self.entries.len() / SHRINK_BELOW && self.entries.len() > MIN_SLOTS {
            self.shrink((self.entries.len() / 4).max(MIN_SLOTS));
        }
    }

    fn next(&self, at: usize) -> usize {
        self.past(at, 1)
    }

    fn past(&self, at: usize, places: usize) -> usize {
        (at + places) & (self.tags.len() - 1)
    }

    /// In a table that holds no such entry.
    fn place(&mut self, entry: Entry) {
        let mut at = home(entry.hash(), self.tags.len());
        while self.tags[at] != 0 {
            at = self.next(at);
        }
        self.put(Place(at), entry);
    }

    fn put(&mut self, Place(at): Place, entry: Entry) {
        (self.tags[at], self.entries[at]) = (entry.hash().tag(), entry.0);
    }

    /// Doubles in place, from the back to the front, where an entry moves to twice its place: memory that
    /// comes fresh from the system costs more than the entries that are moved.
    fn grow(&mut self) {
        self.write();
        let before = self.entries.len();
        let places = (before * 2).max(MIN_SLOTS);
        self.tags.resize(places, 0);
        self.entries.resize(places, 0);
        // Entries that would land on those that have not moved yet, at the front, and those that go past the
        // end: they were pushed there by their neighbours, and are few.
        let mut late = Vec::new();
        for from in (0..before).rev() {
            if self.tags[from] == 0 {
                continue;
            }
            self.tags[from] = 0;
            let entry = Entry(std::mem::take(&mut self.entries[from]));
            let home = home(entry.hash(), places);
            let free = if home > from { self.tags[home..].iter().position(|&tag| tag == 0) } else { None };
            match free {
                Some(past) => self.put(Place(home + past), entry),
                None => late.push(entry),
            }
        }
        late.into_iter().for_each(|entry| self.place(entry));
    }

    fn shrink(&mut self, places: usize) {
        self.tags = vec![0; places];
        let old = std::mem::replace(&mut self.entries, vec![0; places]);
        old.into_iter().filter(|&entry| entry != 0).for_each(|entry| self.place(Entry(entry)));
    }

    #[cfg(test)]
    pub(super) fn assert_invariants(&self) {
        let taken: Vec<_> = (0..self.tags.len()).filter(|&at| self.tags[at] != 0).collect();
        assert_eq!(taken.len(), self.len);
        assert!(self.len <= self.tags.len() / 5 * 4, "a fifth is free");
        assert_eq!(self.entries.iter().filter(|&&entry| entry != 0).count(), self.len - self.unwritten.len());
        for at in taken {
            let hash = self.entry(Place(at)).hash();
            assert_eq!(self.tags[at], hash.tag());
            let mut passed = home(hash, self.tags.len());
            while passed != at {
                assert_ne!(self.tags[passed], 0, "no free place before {at}");
                passed = self.next(passed);
            }
        }
    }

    #[cfg(test)]
    pub(super) fn unwritten(&self) -> usize {
        self.unwritten.len()
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

/// The highest bit of every byte that is zero, and of some that stand after one.
const fn zeros(tags: u64) -> u64 {
    const LOW: u64 = u64::from_le_bytes([1; TAGS_AT_ONCE]);
    tags.wrapping_sub(LOW) & !tags & LOW << 7
}

/// The byte in which the lowest bit stands.
const fn first(bits: u64) -> usize {
    bits.trailing_zeros() as usize / 8
}

//! Maps the hash of a key to its slot: one table with open addressing, optimized for queues that repeatedly
//! fill and empty.
//!
//! A place has a tag and an entry. The tag is one byte of the hash; the entry of eight bytes is a hash and a
//! slot. Tags are stored in a separate array, so that a lookup of an absent key reads tags only. For a
//! million keys the tags take two megabytes and the entries sixteen, which no cache holds. Slots with another
//! hash are never read. Places are sorted by hash, so that growing reads and writes the table sequentially.
//! When most keys have been removed, the table shrinks. A table that kept the size of its largest burst would
//! miss the cache at every later add.
//!
//! In a large table, entries are written after their tags, in batches. A processor waits for many cache lines
//! at once, but not across the lock of the queue, which is taken for each key.
//! # Invariants
//! 1. Between the home of an entry and its place there is no free place.
//! 2. At least a fifth of the places is free. At that load, a lookup of an absent key reads about thirteen
//!    tags.
//! 3. A place has a tag iff it has an entry: in `entries` or, if that is zero, in `unwritten`.

use super::slots::SlotId;

/// The number of places in the smallest table that is not empty.
const MIN_SLOTS: usize = 64;

/// If fewer than one in this many places has an entry, the table shrinks to a quarter of its places. At that
/// size it is far from growing again.
const SHRINK_BELOW: usize = 16;

/// The maximum number of places, with 256 KiB of entries, at which an added entry is written at once. A
/// larger table writes its entries in batches, so that the processor waits for several cache lines
/// concurrently.
const NEAR_PLACES: usize = 1 << 15;

/// The number of entries in a batch. It exceeds the number of cache lines that a core fetches concurrently,
/// and is small enough for a linear search.
const WRITTEN_AT_ONCE: usize = 32;

/// The number of tags that are compared in one step, as the bytes of an integer.
const TAGS_AT_ONCE: usize = 8;

/// 32 bits of a hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KeyHash(pub(super) u32);

impl KeyHash {
    pub(super) const fn new(hash: u64) -> Self {
        let [a, b, c, d, e, f, g, h] = hash.to_le_bytes();
        Self(u32::from_le_bytes([a ^ e, b ^ f, c ^ g, d ^ h]))
    }

    /// Returns the lowest byte of the hash, because the home depends on the highest bits. Never zero: a zero
    /// tag marks a free place.
    const fn tag(self) -> u8 {
        let [tag, ..] = self.0.to_le_bytes();
        if tag == 0 { 1 } else { tag }
    }
}

/// A hash in the high half, a slot's number plus one in the low half. A zero entry marks a free place, so
/// that a new table needs no initialization beyond zeroed memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry(u64);

impl Entry {
    /// Numbers of slots are below [`MAX_KEYS`](super::MAX_KEYS).
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

/// The place for a key that was not found. Valid until the index changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place(usize);

#[derive(Debug, Default)]
pub(super) struct Index {
    /// The length is a power of two, or zero.
    tags: Vec<u8>,
    /// Has the length of `tags`.
    entries: Vec<u64>,
    unwritten: Vec<(Place, Entry)>,
    len: usize,
}

impl Index {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Returns the slot with this hash for which `same` returns true, or the place for a new one. A panic of
    /// `same` changes nothing.
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

    /// Returns the tags of a place and of the following ones.
    #[inline]
    fn tags_from(&self, at: usize) -> u64 {
        let tags = self.tags[at..].first_chunk().copied();
        u64::from_le_bytes(tags.unwrap_or_else(|| std::array::from_fn(|n| self.tags[self.past(at, n)])))
    }

    /// Returns the entry of an occupied place.
    fn entry(&self, place: Place) -> Entry {
        match self.entries[place.0] {
            0 => {
                let unwritten = self.unwritten.iter().find(|(to, _)| *to == place);
                unwritten.expect("an entry that is not in `entries` is in `unwritten`").1
            }
            entry => Entry(entry),
        }
    }

    /// Inserts a slot at the place that `find` returned.
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

    /// Removes a slot, and moves the following entries that would become unreachable.
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

    /// Inserts an entry that the table does not contain.
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

    /// Doubles the table in place, from back to front; an entry moves to about twice its place. Fresh memory
    /// from the system costs more than moving the entries.
    fn grow(&mut self) {
        self.write();
        let before = self.entries.len();
        let places = (before * 2).max(MIN_SLOTS);
        self.tags.resize(places, 0);
        self.entries.resize(places, 0);
        // Entries that are inserted last, because before they would overwrite entries at the front that have
        // not moved yet, or would wrap at the end. They were displaced by their neighbors, and are few.
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
        assert!(self.len <= self.tags.len() / 5 * 4, "a fifth of the places is free");
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

/// Returns the preferred place of a hash. It increases with the hash.
fn home(hash: KeyHash, places: usize) -> usize {
    ((u64::from(hash.0) << places.trailing_zeros()) >> 32) as usize
}

/// Returns a mask with the highest bit set for every zero byte. It may also be set for other bytes after a
/// zero byte.
const fn zeros(tags: u64) -> u64 {
    const LOW: u64 = u64::from_le_bytes([1; TAGS_AT_ONCE]);
    tags.wrapping_sub(LOW) & !tags & LOW << 7
}

/// Returns the index of the byte that contains the lowest set bit.
const fn first(bits: u64) -> usize {
    bits.trailing_zeros() as usize / 8
}

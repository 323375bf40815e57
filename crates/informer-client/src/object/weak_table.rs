//! A hash table of weak references to recently used values. The table keeps no value alive.
//!
//! The table is set-associative: each hash maps to a set of slots, the most recently found first. A new value
//! replaces a value that is no longer in use, so values that are used only briefly never evict values in use.
//! If new values often meet nearly full sets, the table grows, up to a limit. If a set is full nevertheless,
//! its least recently found value is evicted; the only cost is a second copy of it.
//!
//! # Lock order
//!
//! Only one stripe is locked at a time. Under the lock only the comparison and the constructor of a small
//! value run.

use std::sync::{Arc, Weak};

use parking_lot::Mutex;

/// The number of stripes of the table. Each stripe has a separate lock, which reduces contention between
/// decoding tasks.
const STRIPES: usize = 8;

/// The number of slots of a set, which together fill one cache line of the processor. With a single slot, the
/// labels and the owner references of one workload could evict each other forever if their hashes map to the
/// same set.
const WAYS: usize = 4;

/// The number of sets of a stripe with its first value. With fewer, a part of an object would be forgotten
/// before an object with the same part arrives.
const MIN_SETS: usize = 4;

/// The maximum number of sets of a stripe, which then takes 64 KiB. All stripes together hold up to 32,768
/// values.
const MAX_SETS: usize = 1024;

/// A set of slots is crowded if at least this many of its slots contain values in use, so that at most one
/// slot is free.
const CROWD: usize = WAYS - 1;

/// Decides when a stripe grows. The stripe counts new hashes, and restarts the count when it has counted as
/// many as it has slots. It grows as soon as more than one in `CROWDED_PART` of that number took a slot of a
/// crowded set. With evenly distributed hashes, this happens when about half of the slots are in use.
const CROWDED_PART: usize = 4;

#[derive(Debug)]
pub(super) struct WeakTable<T> {
    stripes: [Mutex<Stripe<T>>; STRIPES],
}

#[derive(Debug)]
struct Stripe<T> {
    sets: Vec<[Slot<T>; WAYS]>,
    /// The number of new hashes that took a slot of the stripe since this count restarted; at most the number
    /// of slots of the stripe.
    came: usize,
    /// The number of the hashes counted in `came` whose set was crowded: at most one of its slots was free.
    /// If this number is too large, the stripe grows, because further values would evict values in use.
    crowded: usize,
}

#[derive(Debug)]
struct Slot<T> {
    hash: u64,
    /// The value with this hash. The weak reference is dangling if the hash was seen only once, so that no
    /// value was stored, or if the value is no longer in use.
    value: Weak<T>,
}

impl<T> Default for WeakTable<T> {
    fn default() -> Self {
        Self { stripes: Default::default() }
    }
}

impl<T> Default for Stripe<T> {
    fn default() -> Self {
        Self { sets: Vec::new(), came: 0, crowded: 0 }
    }
}

impl<T> Default for Slot<T> {
    fn default() -> Self {
        Self { hash: 0, value: Weak::new() }
    }
}

impl<T> WeakTable<T> {
    pub(super) fn find_or_insert(
        &self,
        hash: u64,
        is_it: impl Fn(&T) -> bool,
        new: impl FnOnce() -> T,
    ) -> Arc<T> {
        let mut stripe = self.stripe(hash).lock();
        let (_, slot) = stripe.slot(hash);
        slot.in_use(is_it).unwrap_or_else(|| slot.put(new()))
    }

    /// Returns the equal value if the table has one that is in use. Otherwise inserts a new value if the hash
    /// was seen before; a hash that is seen for the first time is only recorded.
    pub(super) fn find_or_insert_again(
        &self,
        hash: u64,
        is_it: impl Fn(&T) -> bool,
        new: impl FnOnce() -> T,
    ) -> Option<Arc<T>> {
        let mut stripe = self.stripe(hash).lock();
        let (seen, slot) = stripe.slot(hash);
        seen.then(|| slot.in_use(is_it).unwrap_or_else(|| slot.put(new())))
    }

    fn stripe(&self, hash: u64) -> &Mutex<Stripe<T>> {
        &self.stripes[hash as usize % STRIPES]
    }
}

impl<T> Stripe<T> {
    /// Returns the slot of this hash in its set, and true if the slot already had this hash. A new hash is
    /// assigned a slot.
    fn slot(&mut self, hash: u64) -> (bool, &mut Slot<T>) {
        let way = self.set(hash).iter().position(|slot| slot.hash == hash);
        let way_or_new = way.unwrap_or_else(|| self.vacate(hash));
        let set = self.set(hash);
        // Move the slot to the front of its set, which is ordered from the most recently to the least
        // recently found.
        set[..=way_or_new].rotate_right(1);
        (way.is_some(), &mut set[0])
    }

    fn set(&mut self, hash: u64) -> &mut [Slot<T>] {
        if self.sets.is_empty() {
            self.sets.resize_with(MIN_SETS, Default::default);
        }
        let at = at(self.sets.len(), hash);
        &mut self.sets[at]
    }

    /// Assigns a slot of its set to a new hash: a slot whose value is not in use, or otherwise the slot of
    /// the least recently found value. Returns the position of the slot in the set.
    fn vacate(&mut self, hash: u64) -> usize {
        self.count(hash);
        let set = self.set(hash);
        let way = set.iter().rposition(|slot| !slot.is_used()).unwrap_or(WAYS - 1);
        set[way] = Slot { hash, value: Weak::new() };
        way
    }

    /// Counts a new hash, which takes a slot of its set. Grows the stripe if too many of the counted hashes
    /// took a slot of a crowded set (see `CROWDED_PART`).
    fn count(&mut self, hash: u64) {
        let used = self.set(hash).iter().filter(|slot| slot.is_used()).count();
        let slots = self.sets.len() * WAYS;
        self.came += 1;
        self.crowded += usize::from(used >= CROWD);
        if self.crowded * CROWDED_PART > slots && self.sets.len() < MAX_SETS {
            self.grow();
        } else if self.came == slots {
            (self.came, self.crowded) = (0, 0);
        }
    }

    /// Doubles the number of sets of the stripe. The values of one old set are distributed to two new sets,
    /// so every value has a slot.
    fn grow(&mut self) {
        let more = self.sets.len() * 2;
        let old = std::mem::take(&mut self.sets);
        self.sets.resize_with(more, Default::default);
        // Insert values from the least to the most recently found, because each inserted value becomes the
        // first of its set.
        for slot in old.into_iter().flat_map(|set| set.into_iter().rev()).filter(Slot::is_used) {
            let set = self.set(slot.hash);
            set.rotate_right(1);
            set[0] = slot;
        }
        (self.came, self.crowded) = (0, 0);
    }
}

impl<T> Slot<T> {
    fn is_used(&self) -> bool {
        self.value.strong_count() > 0
    }

    fn in_use(&self, is_it: impl Fn(&T) -> bool) -> Option<Arc<T>> {
        self.value.upgrade().filter(|value| is_it(value))
    }

    fn put(&mut self, value: T) -> Arc<T> {
        let value = Arc::new(value);
        self.value = Arc::downgrade(&value);
        value
    }
}

fn at(sets: usize, hash: u64) -> usize {
    hash as usize / STRIPES % sets
}

#[cfg(test)]
mod tests;

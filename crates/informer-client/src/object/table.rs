//! A table of what was seen lately and is still in use, by its hash. It keeps nothing alive.
//!
//! Each hash has a set of places, the one found last first. Who comes anew has the place of what nobody uses,
//! so that what passes by never drives out what is in use. Where it often meets sets that are nearly full,
//! the table grows, up to a limit. In a set that is full all the same, the one that was found longest ago is
//! forgotten; it is held twice then, no more.
//!
//! # Lock order
//!
//! One stripe at a time. Under it nothing runs but the comparison and the making of a small value.

use std::sync::{Arc, Weak};

use parking_lot::Mutex;

/// Parts of a table with a lock each, so that tasks that read side by side seldom meet.
const STRIPES: usize = 8;

/// Places of a set, one line of the processor's cache. With one place for each hash, the labels and the
/// owners of the objects of one workload could drive each other out for ever.
const WAYS: usize = 4;

/// Sets that a stripe begins with.
const MIN_SETS: usize = 4;

/// Sets of a stripe at most, 64 KiB of them: all of them together know 32,768 templates.
const MAX_SETS: usize = 1024;

/// Of a set, so many in use make it crowded: one who comes anew may have the last place.
const CROWD: usize = WAYS - 1;

/// A stripe grows where of as many newcomers as it has places more than this part met a crowded set. That is
/// so when about half of the places are in use.
const CROWDED_PART: usize = 4;

/// Values by their hash.
#[derive(Debug)]
pub(super) struct Table<T> {
    stripes: [Mutex<Stripe<T>>; STRIPES],
}

#[derive(Debug)]
struct Stripe<T> {
    sets: Vec<[Place<T>; WAYS]>,
    /// How many came anew lately, up to its places.
    came: usize,
    /// How many of these met a crowded set.
    crowded: usize,
}

/// What was seen with a hash that belongs here.
#[derive(Debug)]
struct Place<T> {
    hash: u64,
    /// Dead where it was seen once, and where nobody uses it any more.
    value: Weak<T>,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self { stripes: Default::default() }
    }
}

impl<T> Default for Stripe<T> {
    fn default() -> Self {
        Self { sets: Vec::new(), came: 0, crowded: 0 }
    }
}

impl<T> Default for Place<T> {
    fn default() -> Self {
        Self { hash: 0, value: Weak::new() }
    }
}

impl<T> Table<T> {
    /// The value that is in use already, or a new one.
    pub(super) fn find_or_insert(
        &self,
        hash: u64,
        is_it: impl Fn(&T) -> bool,
        new: impl FnOnce() -> T,
    ) -> Arc<T> {
        let mut stripe = self.stripe(hash).lock();
        let (_, place) = stripe.place(hash);
        place.in_use(is_it).unwrap_or_else(|| place.put(new()))
    }

    /// The value that is in use already, or a new one where its hash was seen before.
    pub(super) fn find_or_insert_again(
        &self,
        hash: u64,
        is_it: impl Fn(&T) -> bool,
        new: impl FnOnce() -> T,
    ) -> Option<Arc<T>> {
        let mut stripe = self.stripe(hash).lock();
        let (seen, place) = stripe.place(hash);
        seen.then(|| place.in_use(is_it).unwrap_or_else(|| place.put(new())))
    }

    fn stripe(&self, hash: u64) -> &Mutex<Stripe<T>> {
        &self.stripes[hash as usize % STRIPES]
    }
}

impl<T> Stripe<T> {
    /// Returns the place of this hash, and whether it had it before.
    fn place(&mut self, hash: u64) -> (bool, &mut Place<T>) {
        let way = self.set(hash).iter().position(|place| place.hash == hash);
        let way_or_new = way.unwrap_or_else(|| self.vacate(hash));
        let set = self.set(hash);
        // Those that were found earlier stand behind it.
        set[..=way_or_new].rotate_right(1);
        (way.is_some(), &mut set[0])
    }

    fn set(&mut self, hash: u64) -> &mut [Place<T>] {
        if self.sets.is_empty() {
            self.sets.resize_with(MIN_SETS, Default::default);
        }
        let at = at(self.sets.len(), hash);
        &mut self.sets[at]
    }

    /// Takes a place for this hash from what is not in use, or else from what was found longest ago.
    fn vacate(&mut self, hash: u64) -> usize {
        self.count(hash);
        let set = self.set(hash);
        let way = set.iter().rposition(|place| !place.is_used()).unwrap_or(WAYS - 1);
        set[way] = Place { hash, value: Weak::new() };
        way
    }

    /// Counts one who comes anew, and grows where too many of them met a crowd.
    fn count(&mut self, hash: u64) {
        let used = self.set(hash).iter().filter(|place| place.is_used()).count();
        let places = self.sets.len() * WAYS;
        self.came += 1;
        self.crowded += usize::from(used >= CROWD);
        if self.crowded * CROWDED_PART > places && self.sets.len() < MAX_SETS {
            self.grow();
        } else if self.came == places {
            (self.came, self.crowded) = (0, 0);
        }
    }

    /// Twice as many sets. What was in a set goes to one of two, so that there is a place for each.
    fn grow(&mut self) {
        let more = self.sets.len() * 2;
        let old = std::mem::take(&mut self.sets);
        self.sets.resize_with(more, Default::default);
        // From the one found longest ago to the one found last, so that this one stands first again.
        for place in old.into_iter().flat_map(|set| set.into_iter().rev()).filter(Place::is_used) {
            let set = self.set(place.hash);
            set.rotate_right(1);
            set[0] = place;
        }
        (self.came, self.crowded) = (0, 0);
    }
}

impl<T> Place<T> {
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

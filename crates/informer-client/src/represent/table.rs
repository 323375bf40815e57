//! A table of what was seen lately and is still in use, by its hash. It keeps nothing alive.
//!
//! Each hash has one place. Who comes later has it, and the other is forgotten; where that happens too often to what is in use, the table
//! grows, up to a limit. What is forgotten is held twice from then on, no more.
//!
//! # Lock order
//!
//! One stripe at a time. Under it nothing runs but the comparison and the making of a small value.

use std::sync::{Arc, Weak};

use parking_lot::Mutex;

/// Parts of a table with a lock each, so that tasks that read side by side seldom meet.
const STRIPES: usize = 8;

/// Places that a stripe begins with.
const PLACES_MIN: usize = 16;

/// Places of a stripe at most, 64 KiB of them: all of them together know 32,768 templates.
const PLACES_MAX: usize = 4096;

/// A stripe grows when so many that were in use were forgotten, as a part of its places.
const FORGOTTEN_PART: usize = 4;

/// Values by their hash.
#[derive(Debug)]
pub(super) struct Table<T> {
    stripes: [Mutex<Stripe<T>>; STRIPES],
}

#[derive(Debug)]
struct Stripe<T> {
    places: Vec<Place<T>>,
    /// How many were in use and forgotten since it grew.
    forgotten: usize,
}

/// What was seen last with a hash that belongs here.
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
        Self { places: Vec::new(), forgotten: 0 }
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
        let place = stripe.place(hash);
        if place.hash == hash
            && let Some(found) = place.value.upgrade().filter(|value| is_it(value))
        {
            return found;
        }
        let value = Arc::new(new());
        *place = Place { hash, value: Arc::downgrade(&value) };
        value
    }

    /// The value that is in use already, or a new one where its hash was seen before.
    pub(super) fn find_or_insert_again(
        &self,
        hash: u64,
        is_it: impl Fn(&T) -> bool,
        new: impl FnOnce() -> T,
    ) -> Option<Arc<T>> {
        let mut stripe = self.stripe(hash).lock();
        let place = stripe.place(hash);
        if place.hash != hash {
            *place = Place { hash, value: Weak::new() };
            return None;
        }
        if let Some(found) = place.value.upgrade().filter(|value| is_it(value)) {
            return Some(found);
        }
        let value = Arc::new(new());
        place.value = Arc::downgrade(&value);
        Some(value)
    }

    fn stripe(&self, hash: u64) -> &Mutex<Stripe<T>> {
        &self.stripes[hash as usize % STRIPES]
    }
}

impl<T> Stripe<T> {
    /// The place of a hash, which something else may have.
    fn place(&mut self, hash: u64) -> &mut Place<T> {
        if self.places.is_empty() {
            self.places.resize_with(PLACES_MIN, Place::default);
        }
        let place = &self.places[at(self.places.len(), hash)];
        if place.hash != hash && place.value.strong_count() > 0 {
            self.forgotten += 1;
            if self.forgotten * FORGOTTEN_PART > self.places.len() && self.places.len() < PLACES_MAX {
                self.grow();
            }
        }
        let at = at(self.places.len(), hash);
        &mut self.places[at]
    }

    fn grow(&mut self) {
        let more = self.places.len() * 2;
        let old = std::mem::take(&mut self.places);
        self.places.resize_with(more, Place::default);
        for place in old {
            let at = at(more, place.hash);
            self.places[at] = place;
        }
        self.forgotten = 0;
    }
}

fn at(places: usize, hash: u64) -> usize {
    hash as usize / STRIPES % places
}

#[cfg(test)]
mod tests;

//! A vector of optional entries in copy-on-write pages. A clone shares every page, and a change copies one
//! page.
//!
//! # Invariants
//!
//! 1. Slot `n` is the entry `n % PAGE_SLOTS` of page `n / PAGE_SLOTS`. Every page has [`PAGE_SLOTS`] entries,
//!    except that the first one is shorter while its later slots were never set.
//! 2. A page that a clone refers to is never changed: [`Arc::make_mut`] copies it first.

use std::sync::Arc;

/// The number of entries per page. A clone of the vector costs one reference count per page; the first change
/// after a clone copies a page, which costs one reference count per entry of the page. Pages of 256 entries
/// balance the two costs: at 100,000 objects, 400 counts per clone and 256 counts per copied page.
pub(crate) const PAGE_SLOTS: usize = 256;

/// The number of entries with which the first page begins. If a later slot is set, the page grows to the next
/// power of two, and it never shrinks. A full page takes 8 KB, and a program may have a thousand stores with
/// a few objects each.
const MIN_PAGE_SLOTS: usize = 8;

pub(crate) struct Paged<T> {
    pages: Vec<Arc<[Option<T>]>>,
}

impl<T: Clone> Paged<T> {
    pub(crate) fn get(&self, slot: u32) -> Option<&T> {
        let slot = slot as usize;
        self.pages.get(slot / PAGE_SLOTS)?.get(slot % PAGE_SLOTS)?.as_ref()
    }

    pub(crate) fn set(&mut self, slot: u32, value: Option<T>) -> Option<T> {
        let (page, at) = (slot as usize / PAGE_SLOTS, slot as usize % PAGE_SLOTS);
        while self.pages.len() <= page {
            let size = if self.pages.is_empty() { MIN_PAGE_SLOTS } else { PAGE_SLOTS };
            self.pages.push(std::iter::repeat_with(|| None).take(size).collect());
        }
        let page = &mut self.pages[page];
        if page.len() <= at {
            let size = (at + 1).next_power_of_two();
            *page = page.iter().cloned().chain(std::iter::repeat_with(|| None)).take(size).collect();
        }
        std::mem::replace(&mut Arc::make_mut(page)[at], value)
    }

    /// Returns the occupied slots with their entries, in ascending order of the slots.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        let slots = (0..).step_by(PAGE_SLOTS).zip(&self.pages);
        let slots = slots.flat_map(|(first, page)| (first..).zip(page.iter()));
        slots.filter_map(|(slot, entry)| Some((slot, entry.as_ref()?)))
    }
}

impl<T> Default for Paged<T> {
    fn default() -> Self {
        Self { pages: Vec::new() }
    }
}

impl<T> Clone for Paged<T> {
    fn clone(&self) -> Self {
        Self { pages: self.pages.clone() }
    }
}

//! Shares equal labels, annotations and owner references between objects: those of the pods of one workload
//! are mostly equal.
//!
//! The interner has two kinds of tables, because a decoded value and a part of the stored bytes are kept
//! alive in different ways:
//!
//! - [`RecentValues`] holds decoded values: the labels, annotations and owners of headers. A value is one
//!   allocation. A weak reference to it would keep the whole allocation, so this table holds strong
//!   references to a small number of recent values.
//! - [`WeakTable`](super::weak_table::WeakTable) holds the shared parts of the stored bytes. They may be
//!   those of Secrets and may be large, so the table must not keep them alive. Each later object refers to
//!   them, so a part in use must not be evicted.
//!
//! # Lock order
//!
//! Only one stripe is locked at a time. Under the lock only the comparison and the hash of a value run.

use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;

use foldhash::fast::RandomState;
use informer_core::{Header, Labels, OwnerReference};
use parking_lot::Mutex;

use super::template::{PartBytes, Template, Templates};

/// The number of stripes of a table of recent values. Each stripe has a separate lock, which reduces
/// contention between decoding tasks.
const STRIPES: usize = 8;

/// The maximum number of values of each stripe. All values together may keep some hundred kilobytes of labels
/// in memory after their objects are deleted.
const MAX_STRIPE_VALUES: usize = 64;

/// The number of slots of a stripe with its first value. A stripe doubles when two values meet in a slot, and
/// never shrinks. The informer of a kind with few distinct labels thus needs little memory.
const MIN_STRIPE_VALUES: usize = 2;

#[derive(Default)]
pub(crate) struct Interner {
    labels: RecentValues<Labels>,
    annotations: RecentValues<Labels>,
    owners: RecentValues<Arc<[OwnerReference]>>,
    templates: Templates,
}

/// A direct-mapped cache by hash: it remembers recent values, not all values in use.
///
/// That is sufficient because the objects of a workload are adjacent in a list, and the next version of an
/// object mostly has the same labels. The only cost of an evicted value is a second copy of it.
#[derive(Default)]
struct RecentValues<T> {
    hasher: RandomState,
    stripes: [Mutex<Vec<Option<T>>>; STRIPES],
}

impl Interner {
    /// Creates an interner whose hashes of shared parts of stored bytes depend only on `seed`, so that tests
    /// are reproducible.
    #[cfg(test)]
    pub(super) fn of_seed(seed: u64) -> Self {
        Self { templates: Templates::of_seed(seed), ..Self::default() }
    }

    /// Returns an equal header. Its labels and owner references share memory with equal ones of earlier
    /// headers, if the interner remembers any.
    pub(crate) fn header(&self, header: Header) -> Header {
        header.sharing(
            |labels| if labels.is_empty() { labels } else { self.labels.share(labels) },
            |owners| if owners.is_empty() { owners } else { self.owners.share(owners) },
        )
    }

    /// Returns those labels, annotations and owner references in an object's bytes that earlier objects also
    /// had.
    pub(crate) fn common(&self, runs: PartBytes<'_>) -> Option<Arc<Template>> {
        self.templates.of(runs)
    }

    /// Returns equal annotations of an earlier object if the interner remembers any, and the given ones
    /// otherwise. The interner keeps annotations in memory until other annotations replace them, so
    /// annotations of Secrets must not be passed to this function.
    pub(crate) fn annotations(&self, annotations: Labels) -> Labels {
        if annotations.is_empty() { annotations } else { self.annotations.share(annotations) }
    }
}

impl<T: Hash + Eq + Clone> RecentValues<T> {
    fn share(&self, part: T) -> T {
        let hash = self.hasher.hash_one(&part) as usize;
        let mut slots = self.stripes[hash % STRIPES].lock();
        if slots.is_empty() {
            slots.resize(MIN_STRIPE_VALUES, None);
        }
        let slot = loop {
            let at = slot_of(hash, &slots);
            match &slots[at] {
                Some(seen) if *seen == part => return seen.clone(),
                Some(_) if slots.len() < MAX_STRIPE_VALUES => self.grow(&mut slots),
                _ => break at,
            }
        };
        let evicted = slots[slot].replace(part.clone());
        drop(slots);
        drop(evicted);
        part
    }

    /// Doubles the slots of a stripe. No two values meet, because each new slot receives values of only one
    /// old slot.
    fn grow(&self, slots: &mut Vec<Option<T>>) {
        let doubled = slots.len() * 2;
        let held = std::mem::replace(slots, vec![None; doubled]);
        for value in held.into_iter().flatten() {
            let at = slot_of(self.hasher.hash_one(&value) as usize, slots);
            slots[at] = Some(value);
        }
    }
}

/// Returns the index of the slot of a hash in its stripe, whose number of slots is a power of two.
fn slot_of<T>(hash: usize, slots: &[T]) -> usize {
    hash / STRIPES % slots.len()
}

#[cfg(test)]
impl<T> RecentValues<T> {
    fn held(&self) -> usize {
        self.stripes.iter().map(|stripe| stripe.lock().iter().flatten().count()).sum()
    }

    fn slots(&self) -> usize {
        self.stripes.iter().map(|stripe| stripe.lock().len()).sum()
    }
}

impl fmt::Debug for Interner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Interner").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;

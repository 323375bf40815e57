//! Shares equal labels, annotations and owner references between objects: those of the pods of one workload
//! are mostly equal.
//!
//! The interner is a direct-mapped cache by hash: it remembers recent values, not all values in use. That is
//! sufficient because the objects of a workload are adjacent in a list, and the next version of an object
//! mostly has the same labels. The only cost of an evicted value is a second copy of it.
//!
//! # Lock order
//!
//! Only one stripe is locked at a time, and no other code is called under the lock.

use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;

use foldhash::fast::RandomState;
use informer_core::{Header, Labels, OwnerReference};
use parking_lot::Mutex;

use super::template::{PartBytes, Template, Templates};

/// The number of stripes of the interner's table. Each stripe has a separate lock, which reduces contention
/// between decoding tasks.
const STRIPES: usize = 8;

/// The number of slots of each stripe. All slots together may keep some hundred kilobytes of labels in memory
/// after their objects are deleted.
const PLACES: usize = 64;

#[derive(Default)]
pub(crate) struct Interner {
    labels: Table<Labels>,
    annotations: Table<Labels>,
    owners: Table<Arc<[OwnerReference]>>,
    templates: Templates,
}

#[derive(Default)]
struct Table<T> {
    hasher: RandomState,
    stripes: [Mutex<Vec<Option<T>>>; STRIPES],
}

impl Interner {
    /// Creates an interner whose hashes depend only on `seed`, so that tests are reproducible.
    #[cfg(test)]
    pub(super) fn of_seed(seed: u64) -> Self {
        Self { templates: Templates::of_seed(seed), ..Self::default() }
    }

    /// Returns a header with the same values, whose labels and owner references are replaced by equal ones
    /// seen before, if there are any.
    pub(crate) fn header(&self, header: Header) -> Header {
        header.sharing(
            |labels| if labels.is_empty() { labels } else { self.labels.share(labels) },
            |owners| if owners.is_empty() { owners } else { self.owners.share(owners) },
        )
    }

    /// Returns the parts of an object's bytes that were also seen in earlier objects.
    pub(crate) fn common(&self, runs: PartBytes<'_>) -> Option<Arc<Template>> {
        self.templates.of(runs)
    }

    /// Returns equal annotations that were seen before, or the given ones. The interner keeps annotations in
    /// memory until other annotations replace them, so annotations of Secrets must not be passed to this
    /// function.
    pub(crate) fn annotations(&self, annotations: Labels) -> Labels {
        if annotations.is_empty() { annotations } else { self.annotations.share(annotations) }
    }
}

impl<T: Hash + Eq + Clone> Table<T> {
    fn share(&self, part: T) -> T {
        let hash = self.hasher.hash_one(&part) as usize;
        let mut places = self.stripes[hash % STRIPES].lock();
        if places.is_empty() {
            places.resize(PLACES, None);
        }
        let place = &mut places[hash / STRIPES % PLACES];
        if let Some(seen) = place.as_ref().filter(|seen| **seen == part) {
            return seen.clone();
        }
        let forgotten = place.replace(part.clone());
        drop(places);
        drop(forgotten);
        part
    }
}

#[cfg(test)]
impl<T> Table<T> {
    fn held(&self) -> usize {
        self.stripes.iter().map(|stripe| stripe.lock().iter().flatten().count()).sum()
    }
}

impl fmt::Debug for Interner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Interner").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;

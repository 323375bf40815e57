//! What objects have in common, held once: the labels and owners of the pods of one workload are the same.
//!
//! It remembers the last ones that it saw, in places by their hash, and not all that are in use: a workload's
//! objects stand side by side in a list, and an object's next version mostly has the labels of its last one.
//! What is forgotten is held twice, no more.
//!
//! # Lock order
//!
//! One stripe at a time, and nothing else is called under it.

use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;

use foldhash::fast::RandomState;
use informer_core::{Header, Labels, OwnerReference};
use parking_lot::Mutex;

use super::template::{Runs, Template, Templates};

/// Parts of a table with a lock each, so that tasks that read side by side seldom meet.
const STRIPES: usize = 8;

/// Places of a stripe. All of them together hold what some hundred kilobytes of labels may keep alive after
/// their objects went.
const PLACES: usize = 64;

/// The last labels, annotations and owners that one source has seen.
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
    /// One that hashes bodies as drawn with this seed, for tests.
    #[cfg(test)]
    pub(super) fn of_seed(seed: u64) -> Self {
        Self { templates: Templates::of_seed(seed), ..Self::default() }
    }

    /// Returns the header with the labels and owners that were seen before, where they are equal.
    pub(crate) fn header(&self, header: Header) -> Header {
        header.sharing(
            |labels| if labels.is_empty() { labels } else { self.labels.share(labels) },
            |owners| if owners.is_empty() { owners } else { self.owners.share(owners) },
        )
    }

    /// What of a body was seen before.
    pub(crate) fn common(&self, runs: Runs<'_>) -> Option<Arc<Template>> {
        self.templates.of(runs)
    }

    /// Returns equal annotations that were seen before, or these. The table keeps them until others
    /// replace them, so annotations of Secrets must not be passed here.
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

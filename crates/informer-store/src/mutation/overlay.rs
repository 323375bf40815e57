//! The own writes of a mutation cache. The overlay has no lock and no clock, and runs no user code. It
//! returns removed entries, so that the mutation cache can drop them after it has released its lock: dropping
//! an object is user code.

use std::sync::Arc;
use std::time::Instant;

use informer_core::{Object, ObjectKey, ResourceVersion};

use super::MAX_OVERLAY_ENTRIES;

/// The overlay entries, from least to most recently used, in a vector: scanning a hundred keys costs less
/// than maintaining one map by key and another by the order of use.
pub(super) struct Overlay<O> {
    entries: Vec<(ObjectKey, OverlayEntry<O>)>,
}

pub(super) struct OverlayEntry<O> {
    /// The written object; `None` if the entry records the deletion of an object.
    pub(super) object: Option<Arc<O>>,
    pub(super) uid: Box<str>,
    pub(super) version: ResourceVersion,
    /// The last instant at which the entry is valid; afterwards the overlay ignores it.
    expires: Instant,
}

impl<O: Object> OverlayEntry<O> {
    pub(super) fn of(source: &O, object: Option<Arc<O>>, expires: Instant) -> Self {
        let (uid, version) = (source.uid().into(), source.resource_version().clone());
        Self { object, uid, version, expires }
    }
}

impl<O> Overlay<O> {
    /// Returns the entry of a key, unless it has expired, and marks it as the most recently used.
    pub(super) fn get(&mut self, key: &(impl AsRef<str> + ?Sized), now: Instant) -> Option<&OverlayEntry<O>> {
        let at = self.position(key.as_ref())?;
        if self.entries[at].1.expires < now {
            return None;
        }
        let entry = self.entries.remove(at);
        self.entries.push(entry);
        Some(&self.entries.last()?.1)
    }

    /// Sets the entry of a key. Returns the removed entries: the previous entry of the key, expired entries
    /// and, if the overlay is full, the least recently used entry.
    pub(super) fn put(
        &mut self,
        key: ObjectKey,
        entry: OverlayEntry<O>,
        now: Instant,
    ) -> Vec<OverlayEntry<O>> {
        let mut left: Vec<OverlayEntry<O>> = Vec::new();
        left.extend(self.position(key.as_str()).map(|at| self.entries.remove(at).1));
        left.extend(self.entries.extract_if(.., |(_, held)| held.expires < now).map(|(_, held)| held));
        if self.entries.len() >= MAX_OVERLAY_ENTRIES {
            left.push(self.entries.remove(0).1);
        }
        self.entries.push((key, entry));
        left
    }

    pub(super) fn remove_if(
        &mut self,
        key: &ObjectKey,
        wanted: impl Fn(&OverlayEntry<O>) -> bool,
    ) -> Option<OverlayEntry<O>> {
        let at = self.position(key.as_str())?;
        wanted(&self.entries[at].1).then(|| self.entries.remove(at).1)
    }

    /// Returns the written objects that have not expired, with their keys. The order of use does not change.
    pub(super) fn objects(&self, now: Instant) -> Vec<(ObjectKey, Arc<O>)> {
        let alive = self.entries.iter().filter(|(_, entry)| entry.expires >= now);
        alive.filter_map(|(key, entry)| Some((key.clone(), entry.object.clone()?))).collect()
    }

    fn position(&self, key: &str) -> Option<usize> {
        self.entries.iter().position(|(held, _)| *held == *key)
    }
}

impl<O> Default for Overlay<O> {
    fn default() -> Self {
        Self { entries: Vec::new() }
    }
}

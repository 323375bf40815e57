//! The results of one call of [`Pump::apply`](super::Pump::apply) before they are written to the store.

use std::sync::Arc;

use hashbrown::HashMap;
use informer_core::{Object, ObjectKey, ResourceVersion};

use super::Applied;

/// The results of one call of [`Pump::apply`](super::Pump::apply) so far: the accepted changes, which are not
/// written to the store yet, and the events for the handlers.
pub(super) struct Staged<O> {
    pub(super) writes: Writes<O>,
    pub(super) version: Option<ResourceVersion>,
    /// True if the current list shows an older state of some object than the cached one. The list is then
    /// counted in [`PumpCounters::rewound`](super::PumpCounters::rewound).
    pub(super) went_back: bool,
    pub(super) bytes_added: u64,
    pub(super) bytes_removed: u64,
    pub(super) applied: Applied<O>,
}

impl<O> Staged<O> {
    pub(super) fn new() -> Self {
        let (events, first_list, suspect, unordered, resync) = (Vec::new(), false, false, false, false);
        let applied = Applied { events, first_list, suspect, unordered, resync };
        let (writes, version, went_back) = (Writes::default(), None, false);
        Self { writes, version, went_back, bytes_added: 0, bytes_removed: 0, applied }
    }
}

impl<O: Object> Staged<O> {
    pub(super) fn count_bytes(&mut self, old: Option<&O>, new: Option<&O>) {
        let bytes = |object: Option<&O>| object.map_or(0, |object| object.held_bytes() as u64);
        self.bytes_added += bytes(new);
        self.bytes_removed += bytes(old);
    }
}

/// The final state of each changed key, in the order in which the keys were first changed. Because of this
/// order, the store lists objects in the order of the server's list, and two runs with the same input
/// announce the same events.
pub(super) struct Writes<O> {
    states: Vec<(ObjectKey, Option<Arc<O>>)>,
    by_key: HashMap<ObjectKey, usize>,
}

impl<O> Writes<O> {
    pub(super) fn get(&self, key: &ObjectKey) -> Option<&Option<Arc<O>>> {
        Some(&self.states[*self.by_key.get(key)?].1)
    }

    pub(super) fn insert(&mut self, key: ObjectKey, state: Option<Arc<O>>) {
        match self.by_key.get(&key) {
            Some(index) => self.states[*index].1 = state,
            None => {
                self.by_key.insert(key.clone(), self.states.len());
                self.states.push((key, state));
            }
        }
    }

    pub(super) fn take(&mut self) -> Vec<(ObjectKey, Option<Arc<O>>)> {
        self.by_key.clear();
        std::mem::take(&mut self.states)
    }
}

impl<O> Default for Writes<O> {
    fn default() -> Self {
        Self { states: Vec::new(), by_key: HashMap::new() }
    }
}

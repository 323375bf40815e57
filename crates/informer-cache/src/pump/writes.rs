//! The writes of one store transaction, collected from several changes.

use std::sync::Arc;

use hashbrown::HashMap;
use informer_core::ObjectKey;

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

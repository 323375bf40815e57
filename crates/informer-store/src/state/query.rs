//! Queries of one version of the store, used by live lookups and snapshots.

use std::sync::Arc;

use informer_core::{LabelSelector, Object, ObjectKey};

use super::{Slot, State};
use crate::values::Definition;

impl<O> State<O> {
    /// Returns how many objects have a value in an index; 0 if there is no such index.
    pub(crate) fn size_of(&self, name: &str, value: &str) -> usize {
        let posting = self.index(name).and_then(|index| self.posting(index, value));
        posting.map_or(0, |posting| posting.len())
    }

    pub(crate) fn by_index(&self, name: &str, value: &str) -> Option<Vec<Arc<O>>> {
        self.of_value(name, value, |entry| entry.object.clone())
    }

    pub(crate) fn index_keys(&self, name: &str, value: &str) -> Option<Vec<ObjectKey>> {
        self.of_value(name, value, |entry| entry.key.clone())
    }

    /// Returns the objects that have at least one of the values in an index, each of them once.
    pub(crate) fn by_index_any(&self, name: &str, values: &[String]) -> Option<Vec<Arc<O>>> {
        if let [value] = values {
            return self.by_index(name, value);
        }
        let index = self.index(name)?;
        let postings = values.iter().filter_map(|value| self.posting(index, value));
        let mut slots: Vec<u32> = postings.flat_map(|posting| posting.iter()).collect();
        slots.sort_unstable();
        slots.dedup();
        Some(self.objects_of(slots.into_iter()).map(|entry| entry.object.clone()).collect())
    }

    pub(crate) fn index_values(&self, name: &str) -> Vec<Arc<str>> {
        self.index(name).into_iter().flat_map(|index| index.values().cloned()).collect()
    }

    pub(crate) fn definitions(&self) -> Vec<Arc<Definition<O>>> {
        self.indexes().map(|index| index.definition.clone()).collect()
    }

    fn of_value<R>(&self, name: &str, value: &str, convert: impl Fn(&Slot<O>) -> R) -> Option<Vec<R>> {
        let posting = self.posting(self.index(name)?, value);
        let Some(posting) = posting else { return Some(Vec::new()) };
        let mut found = Vec::with_capacity(posting.len());
        found.extend(self.objects_of(posting.iter()).map(convert));
        Some(found)
    }
}

impl<O: Object> State<O> {
    /// Returns the objects of a namespace whose labels match. Must be called on a clone of the state: the
    /// call of [`Object::labels`] may run user code, and the writer waits for each read of the shared state.
    pub(crate) fn list_selected(&self, namespace: Option<&str>, selector: &LabelSelector) -> Vec<Arc<O>> {
        if selector.is_nothing() {
            return Vec::new();
        }
        let Some(narrowed) = self.narrow(namespace, selector) else {
            let objects = self.slots().map(|(_, entry)| &entry.object);
            return objects.filter(|object| is_chosen(&***object, namespace, selector)).cloned().collect();
        };
        let objects = self.objects_of(narrowed.slots()).map(|entry| &entry.object);
        if narrowed.namespace.is_none() && selector.is_everything() {
            let mut all = Vec::with_capacity(narrowed.len());
            all.extend(objects.cloned());
            return all;
        }
        objects.filter(|object| is_chosen(&***object, narrowed.namespace, selector)).cloned().collect()
    }
}

pub(crate) fn is_chosen<O: Object>(object: &O, namespace: Option<&str>, selector: &LabelSelector) -> bool {
    namespace.is_none_or(|namespace| object.key().namespace() == Some(namespace))
        && (selector.is_everything() || selector.matches(object.labels()))
}

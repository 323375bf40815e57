use std::fmt;
use std::sync::Arc;

use informer_core::{LabelSelector, Object, ObjectKey, ResourceVersion};

use crate::error::{IndexError, UnknownIndex};
use crate::state::State;

/// One version of a whole store, with its indexes.
///
/// A snapshot never changes. It can be kept for any time without blocking the writer, but keeps its objects
/// in memory. Results can borrow from the snapshot.
///
/// ```
/// use informer_core::Header;
/// use informer_store::{StoreChange, store};
///
/// let mut pods = store::<Header>();
/// let before = pods.snapshot();
/// pods.apply([StoreChange::upsert(Header::new("default/web".parse()?).into())])?;
/// assert!(before.is_empty() && before.version() < pods.version());
/// assert_eq!(pods.snapshot().iter().count(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a snapshot has no effect unless it is read"]
pub struct Snapshot<O> {
    state: State<O>,
    resource: Arc<str>,
}

impl<O: Object> Snapshot<O> {
    pub(crate) fn new(state: State<O>, resource: Arc<str>) -> Self {
        Self { state, resource }
    }

    /// Returns the object with this key.
    pub fn get(&self, key: &(impl AsRef<str> + ?Sized)) -> Option<&Arc<O>> {
        self.state.get(key.as_ref())
    }

    /// Returns true if the snapshot contains the key.
    pub fn contains(&self, key: &(impl AsRef<str> + ?Sized)) -> bool {
        self.get(key).is_some()
    }

    /// Returns the number of objects in the snapshot.
    pub fn len(&self) -> usize {
        self.state.len()
    }

    /// Returns true if the snapshot contains no object.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns all keys and objects of the snapshot, unordered.
    pub fn iter(&self) -> impl Iterator<Item = (&ObjectKey, &Arc<O>)> {
        self.state.slots().map(|(_, entry)| (&entry.key, &entry.object))
    }

    /// Returns the keys of all objects in the snapshot, unordered.
    pub fn keys(&self) -> impl Iterator<Item = &ObjectKey> {
        self.iter().map(|(key, _)| key)
    }

    /// Returns all objects in the snapshot, unordered.
    pub fn list(&self) -> Vec<Arc<O>> {
        self.iter().map(|(_, object)| object.clone()).collect()
    }

    /// Returns the objects of a namespace whose labels match a selector. An empty namespace or `None` means
    /// all namespaces.
    pub fn select(&self, namespace: Option<&str>, selector: &LabelSelector) -> Vec<Arc<O>> {
        self.state.list_selected(namespace.filter(|namespace| !namespace.is_empty()), selector)
    }

    /// Returns the objects that have this value in the index `name`.
    ///
    /// # Errors
    ///
    /// Returns an error if the store had no index of this name when the snapshot was taken.
    pub fn by_index(&self, name: &str, value: &str) -> Result<Vec<Arc<O>>, IndexError> {
        Ok(self.state.by_index(name, value).ok_or_else(|| self.unknown(name))?)
    }

    /// Returns the sorted keys of the objects that have this value in the index `name`.
    ///
    /// # Errors
    ///
    /// Returns an error if the store had no index of this name when the snapshot was taken.
    pub fn index_keys(&self, name: &str, value: &str) -> Result<Vec<ObjectKey>, IndexError> {
        let mut keys = self.state.index_keys(name, value).ok_or_else(|| self.unknown(name))?;
        keys.sort_unstable();
        Ok(keys)
    }

    /// Returns all values that objects of the snapshot have in the index `name`; empty if the store had no
    /// such index.
    pub fn index_values(&self, name: &str) -> Vec<Arc<str>> {
        self.state.index_values(name)
    }

    /// Returns the resource version of the last write, replacement or bookmark before the snapshot.
    pub fn resource_version(&self) -> &ResourceVersion {
        &self.state.resource_version
    }

    /// Returns the version number of the store when the snapshot was taken. Each transaction, replacement,
    /// bookmark and added index of a store increases it by one.
    pub fn version(&self) -> u64 {
        self.state.version
    }

    fn unknown(&self, name: &str) -> UnknownIndex {
        let known = self.state.definitions().iter().map(|held| held.name.clone()).collect();
        UnknownIndex { resource: self.resource.clone(), index: name.to_owned(), known }
    }
}

impl<O> Clone for Snapshot<O> {
    fn clone(&self) -> Self {
        Self { state: self.state.clone(), resource: self.resource.clone() }
    }
}

impl<O: Object> fmt::Debug for Snapshot<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshot")
            .field("resource", &self.resource)
            .field("len", &self.len())
            .field("version", &self.version())
            .field("resource_version", self.resource_version())
            .finish()
    }
}

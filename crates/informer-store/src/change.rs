use std::fmt;
use std::sync::Arc;

use informer_core::{Object, ObjectKey};

/// One change in a transaction of a store: an object is added, replaced or deleted.
///
/// The store's key function computes the key of the changed object, unless [`at`](Self::at) sets that key.
pub struct StoreChange<O> {
    pub(crate) key: Option<ObjectKey>,
    pub(crate) action: Action<O>,
}

pub(crate) enum Action<O> {
    Upsert(Arc<O>),
    Delete(Arc<O>),
    Forget,
}

impl<O> StoreChange<O> {
    /// Creates a change that adds the object, or replaces the stored object with the same key.
    pub fn upsert(object: Arc<O>) -> Self {
        Self { key: None, action: Action::Upsert(object) }
    }

    /// Creates a change that deletes the object with the key of `last`. `last` is the final state of the
    /// deleted object, and its resource version becomes that of the store. Deleting an object that the store
    /// does not contain is not an error.
    pub fn delete(last: Arc<O>) -> Self {
        Self { key: None, action: Action::Delete(last) }
    }

    /// Creates a change that deletes the object with this key. The resource version of the store does not
    /// change, because the version at which the server deleted the object is unknown.
    pub fn delete_key(key: ObjectKey) -> Self {
        Self { key: Some(key), action: Action::Forget }
    }

    /// Sets the key of the object to change. The store then does not call its key function for this change.
    pub fn at(mut self, key: ObjectKey) -> Self {
        self.key = Some(key);
        self
    }
}

impl<O> Clone for StoreChange<O> {
    fn clone(&self) -> Self {
        let action = match &self.action {
            Action::Upsert(object) => Action::Upsert(object.clone()),
            Action::Delete(last) => Action::Delete(last.clone()),
            Action::Forget => Action::Forget,
        };
        Self { key: self.key.clone(), action }
    }
}

impl<O: Object> fmt::Debug for StoreChange<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, object) = match &self.action {
            Action::Upsert(object) => ("Upsert", Some(object)),
            Action::Delete(last) => ("Delete", Some(last)),
            Action::Forget => ("DeleteKey", None),
        };
        let key = self.key.as_ref().or(object.map(|object| object.key()));
        f.debug_struct(name)
            .field("key", &key)
            .field("version", &object.map(|object| object.resource_version()))
            .finish()
    }
}

use std::fmt;
use std::sync::Arc;

use informer_core::{Object, ObjectKey};

/// One change of a transaction.
///
/// The key of the changed object is computed by the store's key function unless [`at`](Self::at) sets it.
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
    /// Adds the object, or replaces the object with the same key.
    pub fn upsert(object: Arc<O>) -> Self {
        Self { key: None, action: Action::Upsert(object) }
    }

    /// Deletes the object with the key of `last`. `last` is the final state of the object, and its resource
    /// version becomes that of the store. Deleting a missing object is not an error.
    pub fn delete(last: Arc<O>) -> Self {
        Self { key: None, action: Action::Delete(last) }
    }

    /// Deletes the object with this key. The resource version of the store does not change, since that of the
    /// deletion is unknown.
    pub fn delete_key(key: ObjectKey) -> Self {
        Self { key: Some(key), action: Action::Forget }
    }

    /// Sets the key of the change; the store's key function is then not called.
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

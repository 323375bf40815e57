use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use informer_core::{Object, ObjectKey, ResourceVersion};

use crate::Indexer;
use crate::change::{Action, StoreChange};
use crate::ledger::Edit;

/// A store with indexes for concurrent use, in which the caller passes the keys. Clones use the same store.
/// Writes are serialized. It dereferences to the [`Indexer`] for reads.
///
/// This type corresponds to client-go's `ThreadSafeStore`. Informers use a
/// [`StoreWriter`](crate::StoreWriter), which has a single owner.
///
/// ```
/// use informer_core::{Header, ObjectKey};
/// use informer_store::{StoreBuilder, namespace};
///
/// let pods = StoreBuilder::new().index("namespace", namespace()).thread_safe();
/// let key = ObjectKey::new("default", "web")?;
/// pods.add(key.clone(), Header::new(key.clone()).into());
/// assert_eq!(pods.by_index("namespace", "default")?.len(), 1);
/// pods.delete(&key);
/// assert!(pods.get("default/web").is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct ThreadSafeStore<O> {
    indexer: Indexer<O>,
}

impl<O: Object> ThreadSafeStore<O> {
    pub(crate) fn new(indexer: Indexer<O>) -> Self {
        Self { indexer }
    }

    /// Returns the read handle of the store.
    pub fn indexer(&self) -> &Indexer<O> {
        &self.indexer
    }

    /// Adds or replaces the object with this key, and returns the previous one. If the object has a resource
    /// version, it becomes the resource version of the store.
    pub fn add(&self, key: ObjectKey, object: Arc<O>) -> Option<Arc<O>> {
        self.transaction([StoreChange::upsert(object).at(key)]).pop().flatten()
    }

    /// Adds or replaces the object with this key, like [`add`](Self::add). Both methods exist because
    /// client-go's `ThreadSafeStore` has both.
    pub fn update(&self, key: ObjectKey, object: Arc<O>) -> Option<Arc<O>> {
        self.add(key, object)
    }

    /// Deletes the object with this key, if there is one, and returns it. The resource version of the store
    /// does not change, because the version at which the server deleted the object is unknown.
    pub fn delete(&self, key: &ObjectKey) -> Option<Arc<O>> {
        self.transaction([StoreChange::delete_key(key.clone())]).pop().flatten()
    }

    /// Deletes the object with this key, like [`delete`](Self::delete). `last` is the final state of the
    /// object. If `last` has a resource version, that becomes the resource version of the store.
    pub fn delete_with_object(&self, key: &ObjectKey, last: Arc<O>) -> Option<Arc<O>> {
        self.transaction([StoreChange::delete(last).at(key.clone())]).pop().flatten()
    }

    /// Replaces the whole content with `items`, and sets the resource version of the store. If two items have
    /// the same key, the later one is stored.
    pub fn replace(&self, items: Vec<(ObjectKey, Arc<O>)>, version: impl Into<ResourceVersion>) {
        self.indexer.shared.replace(items, &version.into());
    }

    /// Applies changes in order as one transaction, and returns one element per change: the object that the
    /// store contained under the changed key before. The key of a change is the object's own key unless
    /// [`StoreChange::at`] sets another one.
    pub fn transaction(&self, changes: impl IntoIterator<Item = StoreChange<O>>) -> Vec<Option<Arc<O>>> {
        let mut version = ResourceVersion::unset();
        let mut edits = Vec::new();
        for change in changes {
            if let Action::Upsert(object) | Action::Delete(object) = &change.action
                && !object.resource_version().is_empty()
            {
                version = object.resource_version().clone();
            }
            let key_or = |object: &O| change.key.clone().unwrap_or_else(|| object.key().clone());
            edits.extend(match change.action {
                Action::Upsert(object) => Some(Edit::Put(key_or(&object), object)),
                Action::Delete(object) => Some(Edit::Remove(key_or(&object))),
                Action::Forget => change.key.map(Edit::Remove),
            });
        }
        self.indexer.shared.apply(edits, (!version.is_empty()).then_some(&version))
    }

    /// Sets the resource version of the store without changing its content.
    pub fn bookmark(&self, version: impl Into<ResourceVersion>) {
        self.indexer.shared.bookmark(&version.into());
    }

    /// Does nothing: a resync sends the stored objects to event handlers again, and a store has no handlers.
    /// The method exists because client-go's `ThreadSafeStore` has it.
    pub fn resync(&self) {}
}

impl<O> Deref for ThreadSafeStore<O> {
    type Target = Indexer<O>;

    fn deref(&self) -> &Indexer<O> {
        &self.indexer
    }
}

impl<O> Clone for ThreadSafeStore<O> {
    fn clone(&self) -> Self {
        Self { indexer: self.indexer.clone() }
    }
}

impl<O: Object> fmt::Debug for ThreadSafeStore<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ThreadSafeStore").field(&self.indexer).finish()
    }
}

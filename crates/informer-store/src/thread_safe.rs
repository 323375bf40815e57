use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use informer_core::{Object, ObjectKey, ResourceVersion};

use crate::Indexer;
use crate::change::{Action, StoreChange};
use crate::ledger::Edit;

/// A store and its indexes under concurrent use, with keys given by the caller: one handle, whose clones read and
/// write the same store. Writes are put in a line; reads are those of the [`Indexer`] that it dereferences to.
///
/// Client-go's `ThreadSafeStore`. Informers use a [`StoreWriter`](crate::StoreWriter), which nobody else can write
/// to.
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

    /// The read handle.
    pub fn indexer(&self) -> &Indexer<O> {
        &self.indexer
    }

    /// Sets the object of a key, and returns the one before it. The store's version becomes that of the object,
    /// unless it has none.
    pub fn add(&self, key: ObjectKey, object: Arc<O>) -> Option<Arc<O>> {
        self.transaction([StoreChange::upsert(object).at(key)]).pop().flatten()
    }

    /// The same as [`add`](Self::add).
    pub fn update(&self, key: ObjectKey, object: Arc<O>) -> Option<Arc<O>> {
        self.add(key, object)
    }

    /// Deletes the object of a key, if there is one, and returns it. The store's version stays.
    pub fn delete(&self, key: &ObjectKey) -> Option<Arc<O>> {
        self.transaction([StoreChange::delete_key(key.clone())]).pop().flatten()
    }

    /// As [`delete`](Self::delete); the store's version becomes that of `last`, unless it has none.
    pub fn delete_with_object(&self, key: &ObjectKey, last: Arc<O>) -> Option<Arc<O>> {
        self.transaction([StoreChange::delete(last).at(key.clone())]).pop().flatten()
    }

    /// Makes `items` the whole content. Of two items with one key the later stays.
    pub fn replace(&self, items: Vec<(ObjectKey, Arc<O>)>, version: impl Into<ResourceVersion>) {
        self.indexer.shared.replace(items, &version.into());
    }

    /// Applies changes in their order as one transaction, and returns for each the object that its key held before.
    /// The key of a change is that of [`StoreChange::at`], or else the object's own.
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

    /// Moves the store's version without a change of content.
    pub fn bookmark(&self, version: impl Into<ResourceVersion>) {
        self.indexer.shared.bookmark(&version.into());
    }

    /// Does nothing: a store has nobody to tell. It is here because queues in the place of a store have it.
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

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use informer_core::{KeyError, Object, ResourceVersion};

use crate::Indexer;
use crate::change::StoreChange;
use crate::error::TransactionError;
use crate::keys::Keys;
use crate::shared::Shared;
use crate::writer::Batch;

/// A store of keyed objects with one handle for reads and writes; clones use the same store. Keys come from
/// the key function of its [`StoreBuilder`](crate::StoreBuilder).
///
/// This type corresponds to client-go's `Store` and `Indexer` as used outside of informers. It dereferences
/// to the [`Indexer`] for reads.
///
/// ```
/// use informer_core::Header;
/// use informer_store::{Store, StoreBuilder};
///
/// let pods: Store<Header> = StoreBuilder::new().build();
/// pods.add(Header::new("default/web".parse()?).with_version("7").into())?;
/// assert_eq!((pods.len(), pods.resource_version()), (1, "7".into()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Store<O> {
    indexer: Indexer<O>,
    keys: Arc<Keys<O>>,
}

impl<O: Object> Store<O> {
    pub(crate) fn new(shared: Arc<Shared<O>>, keys: Keys<O>) -> Self {
        Self { indexer: Indexer::new(shared), keys: Arc::new(keys) }
    }

    /// Returns the read handle of the store.
    pub fn indexer(&self) -> &Indexer<O> {
        &self.indexer
    }

    /// Adds or replaces an object, and returns the object that had the same key before.
    ///
    /// # Errors
    ///
    /// Returns the error of the key function, if it fails; the store is then unchanged.
    pub fn add(&self, object: Arc<O>) -> Result<Option<Arc<O>>, KeyError> {
        self.one(StoreChange::upsert(object))
    }

    /// Adds or replaces an object, like [`add`](Self::add). Both methods exist because client-go's `Store`
    /// has both.
    ///
    /// # Errors
    ///
    /// The same errors as [`add`](Self::add).
    pub fn update(&self, object: Arc<O>) -> Result<Option<Arc<O>>, KeyError> {
        self.add(object)
    }

    /// Deletes the object with the key of `last`, if there is one, and returns it. `last` is the final state
    /// of the object, and its resource version becomes that of the store.
    ///
    /// # Errors
    ///
    /// The same errors as [`add`](Self::add).
    pub fn delete(&self, last: Arc<O>) -> Result<Option<Arc<O>>, KeyError> {
        self.one(StoreChange::delete(last))
    }

    /// Returns the stored object that has the same key as `object`.
    ///
    /// # Errors
    ///
    /// Returns the error of the key function, if it fails.
    pub fn get_same(&self, object: &O) -> Result<Option<Arc<O>>, KeyError> {
        Ok(self.get(&self.keys.key_of(object)?))
    }

    /// Replaces the whole content with `objects`. If two objects have the same key, the later one is stored.
    ///
    /// # Errors
    ///
    /// Returns the first error of the key function; the store is then unchanged.
    pub fn replace(
        &self,
        objects: impl IntoIterator<Item = Arc<O>>,
        version: impl Into<ResourceVersion>,
    ) -> Result<(), KeyError> {
        let keyed = objects.into_iter().map(|object| {
            let object = self.keys.transformed(object);
            Ok((self.keys.key_of(&object)?, object))
        });
        let items = keyed.collect::<Result<_, KeyError>>()?;
        self.indexer.shared.replace(items, &version.into());
        Ok(())
    }

    /// Applies changes in order as one transaction. Returns one element per change: the object that the store
    /// contained under the changed key before.
    ///
    /// # Errors
    ///
    /// Returns an error if the key function fails for some changes. All other changes are applied; the error
    /// lists the applied and the failed changes.
    pub fn transaction(
        &self,
        changes: impl IntoIterator<Item = StoreChange<O>>,
    ) -> Result<Vec<Option<Arc<O>>>, TransactionError> {
        Batch::of(&self.keys, changes).apply(&self.indexer.shared)
    }

    /// Sets the resource version of the store without changing its content.
    pub fn bookmark(&self, version: impl Into<ResourceVersion>) {
        self.indexer.shared.bookmark(&version.into());
    }

    /// Does nothing: a resync sends the stored objects to event handlers again, and a store has no handlers.
    /// The method exists because client-go's `Store` has it.
    pub fn resync(&self) {}

    fn one(&self, change: StoreChange<O>) -> Result<Option<Arc<O>>, KeyError> {
        let mut previous = Batch::of(&self.keys, [change]).apply_all(&self.indexer.shared)?;
        Ok(previous.pop().flatten())
    }
}

impl<O> Deref for Store<O> {
    type Target = Indexer<O>;

    fn deref(&self) -> &Indexer<O> {
        &self.indexer
    }
}

impl<O> Clone for Store<O> {
    fn clone(&self) -> Self {
        Self { indexer: self.indexer.clone(), keys: self.keys.clone() }
    }
}

impl<O: Object> fmt::Debug for Store<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Store").field(&self.indexer).finish()
    }
}

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use informer_core::{KeyError, Object, ResourceVersion};

use crate::Indexer;
use crate::builder::Keys;
use crate::change::StoreChange;
use crate::error::TransactionError;
use crate::shared::Shared;
use crate::writer::Batch;

/// Keyed objects behind one handle, whose clones read and write the same store. Keys come from the key function of
/// its [`StoreBuilder`](crate::StoreBuilder).
///
/// Client-go's `Store` and `Indexer` as they are used outside of informers. Reads are those of the [`Indexer`] that
/// it dereferences to.
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

    /// The read handle.
    pub fn indexer(&self) -> &Indexer<O> {
        &self.indexer
    }

    /// Sets the object of its key, and returns the one before it.
    ///
    /// # Errors
    ///
    /// Those of the key function; the store is as before.
    pub fn add(&self, object: Arc<O>) -> Result<Option<Arc<O>>, KeyError> {
        self.one(StoreChange::upsert(object))
    }

    /// The same as [`add`](Self::add).
    ///
    /// # Errors
    ///
    /// As [`add`](Self::add).
    pub fn update(&self, object: Arc<O>) -> Result<Option<Arc<O>>, KeyError> {
        self.add(object)
    }

    /// Deletes the object of the same key, if there is one, and returns it. `last` is its final state, whose version
    /// becomes that of the store.
    ///
    /// # Errors
    ///
    /// As [`add`](Self::add).
    pub fn delete(&self, last: Arc<O>) -> Result<Option<Arc<O>>, KeyError> {
        self.one(StoreChange::delete(last))
    }

    /// The stored object of the same key.
    ///
    /// # Errors
    ///
    /// Those of the key function.
    pub fn get_same(&self, object: &O) -> Result<Option<Arc<O>>, KeyError> {
        Ok(self.get(&self.keys.key_of(object)?))
    }

    /// Makes `objects` the whole content. Of two objects with one key the later stays.
    ///
    /// # Errors
    ///
    /// Those of the key function for any of them; the store is as before.
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

    /// Applies changes in their order as one transaction. Returns for each the object that its key held before.
    ///
    /// # Errors
    ///
    /// Where the key function fails. All other changes are applied; the error tells which.
    pub fn transaction(
        &self,
        changes: impl IntoIterator<Item = StoreChange<O>>,
    ) -> Result<Vec<Option<Arc<O>>>, TransactionError> {
        Batch::of(&self.keys, changes).apply(&self.indexer.shared)
    }

    /// Moves the store's version without a change of content.
    pub fn bookmark(&self, version: impl Into<ResourceVersion>) {
        self.indexer.shared.bookmark(&version.into());
    }

    /// Does nothing: a store has nobody to tell. It is here because queues in the place of a store have it.
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

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use informer_core::{KeyError, Object, ResourceVersion};

use crate::{Indexer, Store, StoreBuilder};

/// A store that passes its whole content to a callback after each change, for callers that process states
/// instead of deltas. It corresponds to client-go's `UndeltaStore`.
///
/// # Contract
///
/// The callback runs on the thread that makes the change, under no lock, after readers see the change. It may
/// be called several times with the same state. Changes need `&mut`, so the calls have the order of the
/// changes. Reads do not call the callback.
///
/// ```
/// use std::sync::{Arc, atomic::{AtomicUsize, Ordering}};
/// use informer_core::Header;
/// use informer_store::{StoreBuilder, UndeltaStore};
///
/// let pushed = Arc::new(AtomicUsize::new(0));
/// let seen = Arc::clone(&pushed);
/// let mut pods = UndeltaStore::new(StoreBuilder::<Header>::new(), move |pods| {
///     seen.store(pods.len(), Ordering::Relaxed);
/// });
/// pods.add(Header::new("default/web".parse()?).into())?;
/// assert_eq!(pushed.load(Ordering::Relaxed), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct UndeltaStore<O> {
    store: Store<O>,
    push: Box<dyn Fn(Vec<Arc<O>>) + Send + Sync>,
}

impl<O: Object> UndeltaStore<O> {
    /// Creates an empty store that passes its whole content to `push` after each change.
    pub fn new(builder: StoreBuilder<O>, push: impl Fn(Vec<Arc<O>>) + Send + Sync + 'static) -> Self {
        Self { store: builder.build(), push: Box::new(push) }
    }

    /// Adds or replaces an object, then calls the callback.
    ///
    /// # Errors
    ///
    /// Returns the error of the key function, if it fails; the store is then unchanged, and the callback is
    /// not called.
    pub fn add(&mut self, object: Arc<O>) -> Result<(), KeyError> {
        self.store.add(object)?;
        self.push();
        Ok(())
    }

    /// Adds or replaces an object, then calls the callback, like [`add`](Self::add). Both methods exist
    /// because client-go's `Store` has both.
    ///
    /// # Errors
    ///
    /// The same errors as [`add`](Self::add).
    pub fn update(&mut self, object: Arc<O>) -> Result<(), KeyError> {
        self.add(object)
    }

    /// Deletes the object with the key of `last`, if there is one, then calls the callback.
    ///
    /// # Errors
    ///
    /// The same errors as [`add`](Self::add).
    pub fn delete(&mut self, last: Arc<O>) -> Result<(), KeyError> {
        self.store.delete(last)?;
        self.push();
        Ok(())
    }

    /// Replaces the whole content with `objects`, then calls the callback once.
    ///
    /// # Errors
    ///
    /// The same errors as [`add`](Self::add).
    pub fn replace(
        &mut self,
        objects: impl IntoIterator<Item = Arc<O>>,
        version: impl Into<ResourceVersion>,
    ) -> Result<(), KeyError> {
        self.store.replace(objects, version)?;
        self.push();
        Ok(())
    }

    /// Does nothing: a resync changes no object, so the callback is not called.
    pub fn resync(&self) {}

    fn push(&self) {
        (self.push)(self.store.list());
    }
}

impl<O> Deref for UndeltaStore<O> {
    type Target = Indexer<O>;

    fn deref(&self) -> &Indexer<O> {
        &self.store
    }
}

impl<O: Object> fmt::Debug for UndeltaStore<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("UndeltaStore").field(&self.store).finish()
    }
}

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use informer_core::{KeyError, Object, ResourceVersion};

use crate::{Indexer, Store, StoreBuilder};

/// A store that hands its whole content to a callback after each change: for those who think in states, not in
/// deltas. Client-go's `UndeltaStore`.
///
/// # Contract
///
/// The callback runs on the thread of the change, under no lock, after the change is seen by readers. The same state
/// may come twice. Changes need `&mut`, so pushes come in their order. Reads push nothing.
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
    /// An empty store with its callback.
    pub fn new(builder: StoreBuilder<O>, push: impl Fn(Vec<Arc<O>>) + Send + Sync + 'static) -> Self {
        Self { store: builder.build(), push: Box::new(push) }
    }

    /// Sets the object of its key, then pushes.
    ///
    /// # Errors
    ///
    /// Those of the key function; nothing is changed or pushed.
    pub fn add(&mut self, object: Arc<O>) -> Result<(), KeyError> {
        self.store.add(object)?;
        self.push();
        Ok(())
    }

    /// The same as [`add`](Self::add).
    ///
    /// # Errors
    ///
    /// As [`add`](Self::add).
    pub fn update(&mut self, object: Arc<O>) -> Result<(), KeyError> {
        self.add(object)
    }

    /// Deletes the object of the same key, if there is one, then pushes.
    ///
    /// # Errors
    ///
    /// As [`add`](Self::add).
    pub fn delete(&mut self, last: Arc<O>) -> Result<(), KeyError> {
        self.store.delete(last)?;
        self.push();
        Ok(())
    }

    /// Makes `objects` the whole content, then pushes once.
    ///
    /// # Errors
    ///
    /// As [`add`](Self::add).
    pub fn replace(
        &mut self,
        objects: impl IntoIterator<Item = Arc<O>>,
        version: impl Into<ResourceVersion>,
    ) -> Result<(), KeyError> {
        self.store.replace(objects, version)?;
        self.push();
        Ok(())
    }

    /// Does nothing: no state is new.
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

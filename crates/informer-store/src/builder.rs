use std::fmt;
use std::sync::Arc;

use informer_core::{KeyError, Object, ObjectKey};

use crate::index::{IndexFn, Indexers};
use crate::keys::Keys;
use crate::shared::Shared;
use crate::{Indexer, Store, StoreWriter, ThreadSafeStore};

/// Creates a store without an index and returns its write handle. Objects are stored under their own keys.
/// [`StoreBuilder`] has more options.
pub fn store<O: Object>() -> StoreWriter<O> {
    StoreBuilder::new().writer()
}

/// Configures and creates a store.
///
/// ```
/// use informer_core::{Header, KeyError, ObjectKey};
/// use informer_store::{StoreBuilder, field, namespace};
///
/// let writer = StoreBuilder::<Header>::new()
///     .resource("pods")
///     .index("namespace", namespace())
///     .index("node", field("spec.nodeName"))
///     .writer();
/// assert_eq!(writer.indexers().names().collect::<Vec<_>>(), ["namespace", "node"]);
/// ```
pub struct StoreBuilder<O> {
    resource: Arc<str>,
    keys: Keys<O>,
    indexers: Indexers<O>,
}

impl<O: Object> StoreBuilder<O> {
    /// Creates a builder for a store that uses the objects' own keys and has no index.
    pub fn new() -> Self {
        Self { resource: "object".into(), keys: Keys::default(), indexers: Indexers::new() }
    }

    /// Sets the resource name in error messages, such as `pods`; the default is `object`.
    pub fn resource(mut self, resource: impl Into<Arc<str>>) -> Self {
        self.resource = resource.into();
        self
    }

    /// Sets the key function, which computes the key under which an object is stored. The function runs under
    /// no lock and must always return the same key for an object.
    pub fn key(mut self, key: impl Fn(&O) -> Result<ObjectKey, KeyError> + Send + Sync + 'static) -> Self {
        self.keys.set_key(key);
        self
    }

    /// Sets a function that changes each object before it is stored. Objects passed to a deletion are not
    /// changed. The function runs under no lock, before the key function.
    pub fn transform(mut self, transform: impl Fn(Arc<O>) -> Arc<O> + Send + Sync + 'static) -> Self {
        self.keys.set_transform(transform);
        self
    }

    /// Adds an index. If the builder already has an index with this name, `function` replaces the function of
    /// that index.
    pub fn index(mut self, name: impl Into<Arc<str>>, function: impl IndexFn<O>) -> Self {
        self.indexers.insert(name.into(), Arc::new(function));
        self
    }

    /// Adds several indexes. Each one replaces an index of the same name that the builder already has.
    pub fn indexers(mut self, indexers: Indexers<O>) -> Self {
        indexers
            .into_functions()
            .into_iter()
            .for_each(|(name, function)| self.indexers.insert(name, function));
        self
    }

    /// Creates the store and returns its only write handle. [`StoreWriter::indexer`] returns read handles.
    pub fn writer(self) -> StoreWriter<O> {
        StoreWriter::new(Arc::new(Shared::new(self.resource, self.indexers)), self.keys)
    }

    /// Creates a store with one handle for reading and writing.
    pub fn build(self) -> Store<O> {
        Store::new(Arc::new(Shared::new(self.resource, self.indexers)), self.keys)
    }

    /// Creates a store to which the caller passes the key of each object. The key function and the transform
    /// of the builder are not used.
    pub fn thread_safe(self) -> ThreadSafeStore<O> {
        ThreadSafeStore::new(Indexer::new(Arc::new(Shared::new(self.resource, self.indexers))))
    }
}

impl<O: Object> Default for StoreBuilder<O> {
    fn default() -> Self {
        Self::new()
    }
}

impl<O> fmt::Debug for StoreBuilder<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreBuilder")
            .field("resource", &self.resource)
            .field("indexers", &self.indexers)
            .finish_non_exhaustive()
    }
}

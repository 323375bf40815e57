use std::fmt;
use std::sync::Arc;

use informer_core::{LabelSelector, Object, ObjectKey, ResourceVersion};

use crate::claim::IndexersClaim;
use crate::error::{AddIndexersError, IndexError, UnknownIndex};
use crate::index::{IndexFn, Indexers};
use crate::shared::{MAX_DIRECT_READ, Shared};
use crate::snapshot::Snapshot;
use crate::state::{State, is_chosen};
use crate::values::{Computed, Definition, IndexFailure};

/// The read handle of a store, for lookups by key and by index. Clones are cheap and read the same store.
///
/// # Contract
///
/// - Each result comes from one version of the store and its indexes; readers never see part of a
///   transaction. Two calls may see two versions; all lookups of a [`snapshot`](Self::snapshot) see one
///   version. Successive reads never go back to an older version.
/// - No read waits for a transaction, and no lock is returned to the caller: results are immutable `Arc`s.
///   Calls that define indexes or report their failures ([`add_indexers`](Self::add_indexers),
///   [`index_failures`](Self::index_failures)) wait for a running transaction.
/// - Lists of objects are unordered.
pub struct Indexer<O> {
    pub(crate) shared: Arc<Shared<O>>,
}

impl<O: Object> Indexer<O> {
    pub(crate) fn new(shared: Arc<Shared<O>>) -> Self {
        Self { shared }
    }

    /// Returns the object with this key.
    pub fn get(&self, key: &(impl AsRef<str> + ?Sized)) -> Option<Arc<O>> {
        self.shared.get(key.as_ref())
    }

    /// Returns true if the store contains the key.
    pub fn contains(&self, key: &(impl AsRef<str> + ?Sized)) -> bool {
        self.shared.read(|state| state.get(key.as_ref()).is_some())
    }

    /// Returns the number of objects in the store.
    pub fn len(&self) -> usize {
        self.shared.read(State::len)
    }

    /// Returns true if the store contains no object.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the keys of all objects in the store, unordered.
    pub fn keys(&self) -> Vec<ObjectKey> {
        self.collect(State::len, |state| state.slots().map(|(_, entry)| entry.key.clone()).collect())
    }

    /// Returns all objects in the store, unordered.
    pub fn list(&self) -> Vec<Arc<O>> {
        self.collect(State::len, |state| state.slots().map(|(_, entry)| entry.object.clone()).collect())
    }

    /// Returns the objects that have this value in the index `name`.
    ///
    /// # Errors
    ///
    /// Returns an error if the store has no index of this name.
    pub fn by_index(&self, name: &str, value: &str) -> Result<Vec<Arc<O>>, IndexError> {
        let size = |state: &State<O>| state.size_of(name, value);
        Ok(self.collect(size, |state| state.by_index(name, value)).ok_or_else(|| self.unknown(name))?)
    }

    /// Returns the sorted keys of the objects that have this value in the index `name`.
    ///
    /// # Errors
    ///
    /// Returns an error if the store has no index of this name.
    pub fn index_keys(&self, name: &str, value: &str) -> Result<Vec<ObjectKey>, IndexError> {
        let size = |state: &State<O>| state.size_of(name, value);
        let keys = self.collect(size, |state| state.index_keys(name, value));
        let mut keys = keys.ok_or_else(|| self.unknown(name))?;
        keys.sort_unstable();
        Ok(keys)
    }

    /// Returns all values that stored objects have in the index `name`; empty if the store has no such index.
    pub fn index_values(&self, name: &str) -> Vec<Arc<str>> {
        let size = |state: &State<O>| state.index(name).map_or(0, |index| index.value_count());
        self.collect(size, |state| state.index_values(name))
    }

    /// Returns the objects that share at least one value in the index `name` with `object`, each of them
    /// once. `object` need not be in the store.
    ///
    /// # Errors
    ///
    /// Returns an error if the store has no index of this name, or if its function fails or panics for
    /// `object`.
    pub fn index(&self, name: &str, object: &O) -> Result<Vec<Arc<O>>, IndexError> {
        let definition = self.definition(name)?;
        let values = self.values_of(&definition, object)?;
        let size = |state: &State<O>| values.iter().map(|value| state.size_of(name, value)).sum();
        Ok(self.collect(size, |state| state.by_index_any(name, &values)).ok_or_else(|| self.unknown(name))?)
    }

    /// Returns the index functions of the store with their names. Functions of indexes that are still being
    /// built are not included.
    pub fn indexers(&self) -> Indexers<O> {
        let mut indexers = Indexers::new();
        for definition in self.shared.read(State::definitions) {
            indexers.insert(definition.name.clone(), definition.function.clone());
        }
        indexers
    }

    /// Adds indexes to the store, which may already contain objects and be in use. The objects that the store
    /// contains are indexed, too. Readers see an index once it contains all objects; writes and lookups do
    /// not wait until then. When this method returns, readers see all of the added indexes.
    ///
    /// # Errors
    ///
    /// Returns an error if one of the names is already in use; then no index is added.
    pub fn add_indexers(&self, indexers: Indexers<O>) -> Result<(), AddIndexersError> {
        self.shared.add_indexers(indexers)
    }

    /// Reserves the names of indexes. [`IndexersClaim::install`] then adds the indexes and cannot fail. Use
    /// this method to add an index either to several stores or to none of them.
    ///
    /// # Errors
    ///
    /// Returns an error if an index or another claim already uses one of the names; then no name is reserved.
    pub fn claim_indexers(&self, indexers: Indexers<O>) -> Result<IndexersClaim<O>, AddIndexersError> {
        Ok(IndexersClaim::new(Arc::clone(&self.shared), self.shared.claim(indexers)?))
    }

    /// Adds one index; see [`add_indexers`](Self::add_indexers).
    ///
    /// # Errors
    ///
    /// Returns an error if the name is already in use.
    pub fn add_index(
        &self,
        name: impl Into<Arc<str>>,
        function: impl IndexFn<O>,
    ) -> Result<(), AddIndexersError> {
        self.add_indexers(Indexers::new().index(name, function))
    }

    /// Returns one [`IndexFailure`] for each index function that failed or panicked for an object: the number
    /// of failures, and the key and cause of the last one. [`IndexFn`] describes the effect of a failure.
    pub fn index_failures(&self) -> Vec<IndexFailure> {
        self.shared.index_failures()
    }

    /// Returns the current version of the store and its indexes. The snapshot is cheap, because it shares its
    /// content with the store: one reference count is incremented per 256 objects, and fewer for the keys and
    /// for each index. A snapshot blocks no writer, but keeps its objects in memory.
    pub fn snapshot(&self) -> Snapshot<O> {
        Snapshot::new(self.shared.snapshot(), self.shared.resource.clone())
    }

    /// Returns the resource version of the last write, replacement or bookmark; empty before the first one.
    pub fn resource_version(&self) -> ResourceVersion {
        self.shared.read(|state| state.resource_version.clone())
    }

    /// Returns the version number of the store. Each transaction, replacement, bookmark and added index
    /// increases it by one.
    pub fn version(&self) -> u64 {
        self.shared.read(|state| state.version)
    }

    /// Returns the resource name in error messages, such as `pods`; the default is `object`.
    pub fn resource(&self) -> &str {
        &self.shared.resource
    }

    /// Returns true if an object, whether stored or not, has this value in the index `name`.
    pub(crate) fn has_value(&self, name: &str, value: &str, object: &O) -> Result<bool, IndexError> {
        let definition = self.definition(name)?;
        Ok(self.values_of(&definition, object)?.iter().any(|found| found == value))
    }

    pub(crate) fn list_selected(&self, namespace: Option<&str>, selector: &LabelSelector) -> Vec<Arc<O>> {
        if selector.is_nothing() {
            return Vec::new();
        }
        if namespace.is_none() && selector.is_everything() {
            return self.list();
        }
        let candidates = self.shared.read(|state| match state.narrow(namespace, selector) {
            Some(narrowed) if narrowed.len() <= MAX_DIRECT_READ => {
                let mut objects = Vec::with_capacity(narrowed.len());
                let entries = state.objects_of(narrowed.slots());
                objects.extend(entries.map(|entry| Arc::clone(&entry.object)));
                Ok((objects, narrowed.namespace.is_some()))
            }
            _ => Err(state.clone()),
        });
        match candidates {
            Ok((objects, false)) if selector.is_everything() => objects,
            Ok((mut objects, any_namespace)) => {
                let namespace = namespace.filter(|_| any_namespace);
                objects.retain(|object| is_chosen(&**object, namespace, selector));
                objects
            }
            Err(state) => state.list_selected(namespace, selector),
        }
    }

    /// Computes the result of a query. A short result is computed from the copy of the state that readers
    /// share, while that copy is locked. A longer result is computed from a clone of the state, so that the
    /// writer does not wait for the lock.
    fn collect<R>(&self, size: impl FnOnce(&State<O>) -> usize, compute: impl Fn(&State<O>) -> R) -> R {
        let direct = self.shared.read(|state| {
            if size(state) <= MAX_DIRECT_READ { Ok(compute(state)) } else { Err(state.clone()) }
        });
        direct.unwrap_or_else(|state| compute(&state))
    }

    fn definition(&self, name: &str) -> Result<Arc<Definition<O>>, UnknownIndex> {
        let definition = self.shared.read(|state| Some(state.index(name)?.definition.clone()));
        definition.ok_or_else(|| self.unknown(name))
    }

    fn values_of(&self, definition: &Arc<Definition<O>>, object: &O) -> Result<Vec<String>, IndexError> {
        let values = Computed::of(definition, object);
        values.map_err(|source| IndexError::Failed {
            resource: self.shared.resource.clone(),
            index: definition.name.clone(),
            key: object.key().to_string(),
            source,
        })
    }

    fn unknown(&self, name: &str) -> UnknownIndex {
        let known = self.shared.read(State::definitions).iter().map(|held| held.name.clone()).collect();
        UnknownIndex { resource: self.shared.resource.clone(), index: name.to_owned(), known }
    }
}

impl<O> Clone for Indexer<O> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone() }
    }
}

impl<O: Object> fmt::Debug for Indexer<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Indexer")
            .field("resource", &self.shared.resource)
            .field("len", &self.len())
            .field("resource_version", &self.resource_version())
            .field("indexers", &self.indexers())
            .finish()
    }
}

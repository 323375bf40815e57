use std::fmt;
use std::sync::Arc;

use informer_core::{LabelSelector, Object, ObjectKey, ResourceVersion};

use crate::claim::IndexersClaim;
use crate::error::{AddIndexersError, IndexError, UnknownIndex};
use crate::index::{IndexFn, Indexers};
use crate::lister::Lister;
use crate::shared::{MAX_DIRECT_READ, Shared};
use crate::snapshot::Snapshot;
use crate::state::{State, is_chosen};
use crate::values::{Computed, Definition, IndexFailure};

/// The read handle of a store: lookups by key and by index. Clones are cheap and read the same store.
///
/// # Contract
///
/// - Each answer is of one version of the store with its indexes: nobody sees half a transaction. Two calls may see
///   two versions; a [`snapshot`](Self::snapshot) answers all questions from one. Versions never go back for whoever
///   asks again.
/// - No read waits for a transaction, and none hands out a lock: answers are `Arc`s, which nobody can change. What defines indexes
///   or tells of their failures ([`add_indexers`](Self::add_indexers), [`index_failures`](Self::index_failures)) waits for one that is under way.
/// - Lists have no order.
pub struct Indexer<O> {
    pub(crate) shared: Arc<Shared<O>>,
}

impl<O: Object> Indexer<O> {
    pub(crate) fn new(shared: Arc<Shared<O>>) -> Self {
        Self { shared }
    }

    /// The object of a key.
    pub fn get(&self, key: &(impl AsRef<str> + ?Sized)) -> Option<Arc<O>> {
        self.shared.get(key.as_ref())
    }

    /// True where the store has the key.
    pub fn contains(&self, key: &(impl AsRef<str> + ?Sized)) -> bool {
        self.shared.read(|state| state.get(key.as_ref()).is_some())
    }

    /// How many objects there are.
    pub fn len(&self) -> usize {
        self.shared.read(State::len)
    }

    /// True where there is no object.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All keys.
    pub fn keys(&self) -> Vec<ObjectKey> {
        self.collect(State::len, |state| state.slots().map(|(_, entry)| entry.key.clone()).collect())
    }

    /// All objects.
    pub fn list(&self) -> Vec<Arc<O>> {
        self.collect(State::len, |state| state.slots().map(|(_, entry)| entry.object.clone()).collect())
    }

    /// The objects that have a value in an index.
    ///
    /// # Errors
    ///
    /// When there is no such index.
    pub fn by_index(&self, name: &str, value: &str) -> Result<Vec<Arc<O>>, IndexError> {
        let size = |state: &State<O>| state.size_of(name, value);
        Ok(self.collect(size, |state| state.by_index(name, value)).ok_or_else(|| self.unknown(name))?)
    }

    /// The sorted keys of the objects that have a value in an index.
    ///
    /// # Errors
    ///
    /// When there is no such index.
    pub fn index_keys(&self, name: &str, value: &str) -> Result<Vec<ObjectKey>, IndexError> {
        let size = |state: &State<O>| state.size_of(name, value);
        let keys = self.collect(size, |state| state.index_keys(name, value));
        let mut keys = keys.ok_or_else(|| self.unknown(name))?;
        keys.sort_unstable();
        Ok(keys)
    }

    /// The values that some object has in an index; none where there is no such index.
    pub fn index_values(&self, name: &str) -> Vec<Arc<str>> {
        let size = |state: &State<O>| state.index(name).map_or(0, |index| index.value_count());
        self.collect(size, |state| state.index_values(name))
    }

    /// The objects that share at least one value of an index with `object`, which need not be in the store. Each once.
    ///
    /// # Errors
    ///
    /// When there is no such index, or its function fails or panics for `object`.
    pub fn index(&self, name: &str, object: &O) -> Result<Vec<Arc<O>>, IndexError> {
        let definition = self.definition(name)?;
        let values = self.values_of(&definition, object)?;
        let size = |state: &State<O>| values.iter().map(|value| state.size_of(name, value)).sum();
        Ok(self.collect(size, |state| state.by_index_any(name, &values)).ok_or_else(|| self.unknown(name))?)
    }

    /// The index functions, by name. Those still being filled are not among them.
    pub fn indexers(&self) -> Indexers<O> {
        let mut indexers = Indexers::new();
        for definition in self.shared.read(State::definitions) {
            indexers.insert(definition.name.clone(), definition.function.clone());
        }
        indexers
    }

    /// Adds indexes to the store, which may be full and in use. Objects that are there are indexed; each index is
    /// seen when it is complete, and no write or lookup waits for that. When this returns, all are complete.
    ///
    /// # Errors
    ///
    /// When a name is taken; then none is added.
    pub fn add_indexers(&self, indexers: Indexers<O>) -> Result<(), AddIndexersError> {
        self.shared.add_indexers(indexers)
    }

    /// Takes the names of indexes, which are added by [`IndexersClaim::install`]: for who wants an index in several stores or in none
    /// of them.
    ///
    /// # Errors
    ///
    /// When a name is taken, by an index or by another claim; then none is.
    pub fn claim_indexers(&self, indexers: Indexers<O>) -> Result<IndexersClaim<O>, AddIndexersError> {
        Ok(IndexersClaim::new(Arc::clone(&self.shared), self.shared.claim(indexers)?))
    }

    /// Adds one index; see [`add_indexers`](Self::add_indexers).
    ///
    /// # Errors
    ///
    /// When the name is taken.
    pub fn add_index(
        &self,
        name: impl Into<Arc<str>>,
        function: impl IndexFn<O>,
    ) -> Result<(), AddIndexersError> {
        self.add_indexers(Indexers::new().index(name, function))
    }

    /// The index functions that failed or panicked, how often, and for which object last; see [`IndexFn`].
    pub fn index_failures(&self) -> Vec<IndexFailure> {
        self.shared.index_failures()
    }

    /// This version of the store with its indexes, to keep. Costs one reference count per 256 objects and some per
    /// index; holding it for ever stops nobody, but keeps alive what it shows.
    pub fn snapshot(&self) -> Snapshot<O> {
        Snapshot::new(self.shared.snapshot(), self.shared.resource.clone())
    }

    /// The read view with selectors.
    pub fn lister(&self) -> Lister<O> {
        Lister::new(self.clone())
    }

    /// The version of the last write, replacement or bookmark; empty before the first.
    pub fn resource_version(&self) -> ResourceVersion {
        self.shared.read(|state| state.resource_version.clone())
    }

    /// How many transactions the store has seen: a number that grows with every change.
    pub fn version(&self) -> u64 {
        self.shared.read(|state| state.version)
    }

    /// What the objects are called in errors.
    pub fn resource(&self) -> &str {
        &self.shared.resource
    }

    /// True where an object, of the store or not, has a value in an index.
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

    /// Answers from the active side where that is short, and otherwise from a clone of the state, so that the writer
    /// is not held up.
    fn collect<R>(&self, size: impl FnOnce(&State<O>) -> usize, answer: impl Fn(&State<O>) -> R) -> R {
        let direct = self.shared.read(|state| match size(state) <= MAX_DIRECT_READ {
            true => Ok(answer(state)),
            false => Err(state.clone()),
        });
        direct.unwrap_or_else(|state| answer(&state))
    }

    fn definition(&self, name: &str) -> Result<Arc<Definition<O>>, UnknownIndex> {
        let definition = self.shared.read(|state| Some(state.index(name)?.definition.clone()));
        definition.ok_or_else(|| self.unknown(name))
    }

    fn values_of(&self, definition: &Arc<Definition<O>>, object: &O) -> Result<Vec<String>, IndexError> {
        let answer = Computed::of(definition, object);
        answer.map_err(|source| IndexError::Failed {
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

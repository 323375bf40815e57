//! A set of the informers of one program. Each informer is created once; all are started, awaited and shut
//! down together.
//!
//! # Lock order
//!
//! One lock guards the table of informers. The lock is not held while constructors of informers run, and not
//! while an informer is dropped.
//!
//! # Shutdown
//!
//! [`InformerSet::shutdown`] stops all informers, waits for their tasks and forbids further starts. Dropping
//! the last clone of the set stops its informers without waiting.

#[cfg(test)]
mod tests;

use std::any::{Any, TypeId};
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, Weak};
use std::time::Duration;

use informer_core::Object;
use parking_lot::Mutex;

use crate::generic::{GenericInformer, ObjectInformer};
use crate::sync::CacheSynced;
use crate::{InformerRun, InformerState, SharedInformer, SyncError};

/// The informers of a program, one for each resource and object type. The value is a cheap handle; clones
/// share the set.
///
/// The set is the base of a
/// [`SharedInformerFactory`](https://pkg.go.dev/k8s.io/client-go/informers#SharedInformerFactory): it shares,
/// starts and stops informers, and the caller creates them.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// use std::time::Duration;
/// use informer_cache::testing::{StaticSource, object};
/// use informer_cache::{InformerSet, SharedInformer};
///
/// let set = InformerSet::new();
/// let things = set.informer_for("things", || SharedInformer::new(StaticSource::new([object("a", "1")], "1")));
/// set.start();
/// set.wait_for_cache_sync(Duration::from_secs(5)).await?;
/// assert_eq!(things.indexer().len(), 1);
/// set.shutdown().await;
/// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Default)]
pub struct InformerSet {
    table: Arc<Mutex<Table>>,
}

#[derive(Default)]
struct Table {
    entries: BTreeMap<EntryKey, InformerEntry>,
    /// The number of the next entry.
    next_number: u64,
    shut_down: bool,
}

/// The key of an informer in the set: its resource, and the type of its objects.
type EntryKey = (String, TypeId);

struct InformerEntry {
    /// The informer as a `SharedInformer<O>`, of which `informer_for` returns a clone. `O` is the type that
    /// the `TypeId` in the key of this entry identifies, so the downcast to it succeeds.
    typed: Box<dyn Any + Send + Sync>,
    erased: Arc<dyn ObjectInformer>,
    /// The name of `O`, for error messages.
    representation: &'static str,
    /// A number that the set never reuses. An [`InformerLease`] detects by it that its entry was replaced.
    number: u64,
    /// The number of [`InformerLease`]s.
    leases: usize,
    /// True if [`InformerSet::informer_for`] or [`InformerSet::generic`] has returned the informer. It then
    /// stays in the set without leases.
    is_kept: bool,
    run: Option<InformerRun>,
}

/// The error of a request for the informer of a resource that has informers in several representations.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("get the informer of {resource}: it has informers of the types {}; request one by its type", candidates.join(", "))]
#[non_exhaustive]
pub struct AmbiguousInformer {
    /// The name of the resource, with namespace and selectors if they are set.
    pub resource: String,
    /// The types of the objects of the informers, such as `Lazy` and `Metadata`.
    pub candidates: Vec<&'static str>,
}

impl InformerSet {
    /// Returns a set without informers.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the informer of a resource with objects of type `O`. If the set has none, `make` creates it.
    ///
    /// The first caller determines the configuration of the informer. Use different resource names for
    /// different selectors.
    pub fn informer_for<O: Object>(
        &self,
        resource: impl Into<String>,
        make: impl FnOnce() -> SharedInformer<O>,
    ) -> SharedInformer<O> {
        let key = (resource.into(), TypeId::of::<O>());
        self.get_or_insert(&key, make, |entry| entry.is_kept = true).0
    }

    /// Returns the informer of a resource like [`informer_for`](Self::informer_for), but counts its users:
    /// when the last lease is dropped, the informer is [released](Self::release), unless
    /// `informer_for` or `generic` has returned it, too.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// use informer_cache::testing::{StaticSource, object};
    /// use informer_cache::{InformerSet, SharedInformer};
    ///
    /// let set = InformerSet::new();
    /// let make = || SharedInformer::new(StaticSource::new([object("a", "1")], "1"));
    /// let (first, second) = (set.lease("things", make), set.lease("things", make));
    /// set.start();
    /// drop(first);
    /// assert_eq!(set.states().len(), 1);
    /// drop(second);
    /// assert!(set.states().is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn lease<O: Object>(
        &self,
        resource: impl Into<String>,
        make: impl FnOnce() -> SharedInformer<O>,
    ) -> InformerLease<O> {
        let key = (resource.into(), TypeId::of::<O>());
        let record = |entry: &mut InformerEntry| {
            entry.leases += 1;
            entry.number
        };
        let (informer, entry) = self.get_or_insert(&key, make, record);
        InformerLease { informer, key, entry, table: Arc::downgrade(&self.table) }
    }

    /// Returns the informer of a key; `make` creates it if there is none. `record` records the use in its
    /// entry, and its result is returned, too.
    fn get_or_insert<O: Object, T>(
        &self,
        key: &EntryKey,
        make: impl FnOnce() -> SharedInformer<O>,
        record: impl Fn(&mut InformerEntry) -> T,
    ) -> (SharedInformer<O>, T) {
        if let Some(entry) = self.table.lock().entries.get_mut(key)
            && let Some(informer) = entry.typed.downcast_ref::<SharedInformer<O>>()
        {
            let informer = informer.clone();
            return (informer, record(entry));
        }
        let made = make();
        let mut guard = self.table.lock();
        let table = &mut *guard;
        let number = table.next_number;
        table.next_number += 1;
        // `make` ran without the lock, so another caller may have inserted an informer for this resource and
        // object type meanwhile. That informer stays, and `made` is dropped without having been started.
        let entry = table.entries.entry(key.clone()).or_insert_with(|| InformerEntry {
            typed: Box::new(made.clone()),
            erased: Arc::new(made.clone()),
            representation: type_name::<O>(),
            number,
            leases: 0,
            is_kept: false,
            run: None,
        });
        let recorded = record(entry);
        let informer = entry.typed.downcast_ref().cloned();
        // `made` is dropped without the lock, because a closure in it may own a lease of this set.
        drop(guard);
        (informer.unwrap_or(made), recorded)
    }

    /// Starts all informers of the set that are not running. Call this method again after more informers were
    /// added. After [`shutdown`](Self::shutdown) the method does nothing.
    ///
    /// # Panics
    ///
    /// Panics if called outside of a tokio runtime with time enabled.
    #[track_caller]
    pub fn start(&self) {
        let mut table = self.table.lock();
        if table.shut_down {
            return;
        }
        for entry in table.entries.values_mut() {
            if entry.run.as_ref().is_none_or(InformerRun::is_stopping) {
                entry.run = Some(entry.erased.start());
            }
        }
    }

    /// Waits until every started informer is synced. Informers that were removed by
    /// [`release`](Self::release) or stopped by [`shutdown`](Self::shutdown) before the call are ignored.
    ///
    /// # Errors
    ///
    /// Returns an error after `timeout`. The error names the informers that are not synced, the activity of
    /// each, and its last error.
    pub async fn wait_for_cache_sync(&self, timeout: Duration) -> Result<(), SyncError> {
        let started: Vec<Arc<dyn ObjectInformer>> = {
            let table = self.table.lock();
            table
                .entries
                .values()
                .filter(|entry| entry.run.is_some())
                .map(|entry| Arc::clone(&entry.erased))
                .collect()
        };
        let caches = started.iter().map(|informer| informer.as_cache() as &dyn CacheSynced);
        crate::sync::wait_for_cache_sync(caches, timeout).await
    }

    /// Removes one informer from the set. The informer stops, unless the program itself holds an
    /// [`InformerRun`] of this informer. Returns true if the informer was in the set.
    pub fn release<O: Object>(&self, resource: &str) -> bool {
        let removed = self.table.lock().entries.remove(&(resource.to_owned(), TypeId::of::<O>()));
        removed.is_some()
    }

    /// Stops all informers, waits until their tasks have ended, and rejects further starts.
    ///
    /// # Cancel safety
    ///
    /// All informers begin to stop when the future is first polled. Dropping the future after that only ends
    /// the wait.
    pub async fn shutdown(&self) {
        let runs: Vec<InformerRun> = {
            let mut table = self.table.lock();
            table.shut_down = true;
            table.entries.values_mut().filter_map(|entry| entry.run.take()).collect()
        };
        futures_util::future::join_all(runs.into_iter().map(InformerRun::stop)).await;
    }

    /// Returns the informer of a resource as a [`GenericInformer`], without the type of its objects; `None`
    /// if there is none. The informer then stays in the set when its last lease is dropped.
    ///
    /// # Errors
    ///
    /// Returns an error if the resource has informers of several object types.
    pub fn generic(&self, resource: &str) -> Result<Option<GenericInformer>, AmbiguousInformer> {
        let mut table = self.table.lock();
        let of_resource = table.entries.iter_mut().filter(|((name, _), _)| name == resource);
        let mut entries: Vec<&mut InformerEntry> = of_resource.map(|(_, entry)| entry).collect();
        match entries.as_mut_slice() {
            [] => Ok(None),
            [only] => {
                only.is_kept = true;
                Ok(Some(GenericInformer::new(Arc::clone(&only.erased))))
            }
            several => Err(AmbiguousInformer {
                resource: resource.to_owned(),
                candidates: several.iter().map(|entry| entry.representation).collect(),
            }),
        }
    }

    /// Returns the informers of a resource in all object types, as [`GenericInformer`]s.
    pub fn generics(&self, resource: &str) -> Vec<GenericInformer> {
        let table = self.table.lock();
        let of_resource = table.entries.iter().filter(|((name, _), _)| name == resource);
        of_resource.map(|(_, entry)| GenericInformer::new(Arc::clone(&entry.erased))).collect()
    }

    /// Returns the states of all informers of the set, sorted by resource.
    pub fn states(&self) -> Vec<InformerState> {
        let erased: Vec<_> =
            self.table.lock().entries.values().map(|entry| Arc::clone(&entry.erased)).collect();
        erased.iter().map(|informer| informer.state()).collect()
    }
}

/// A counted use of an informer in an [`InformerSet`]. It dereferences to the informer. When the last lease
/// of an informer is dropped, the set removes the informer, which then stops.
#[must_use = "the informer ends when its last lease is dropped"]
pub struct InformerLease<O: Object> {
    informer: SharedInformer<O>,
    key: EntryKey,
    /// The number of the entry. The set may have released it, and created another one with the same informer.
    entry: u64,
    table: Weak<Mutex<Table>>,
}

impl<O: Object> Deref for InformerLease<O> {
    type Target = SharedInformer<O>;

    fn deref(&self) -> &SharedInformer<O> {
        &self.informer
    }
}

impl<O: Object> Clone for InformerLease<O> {
    fn clone(&self) -> Self {
        if let Some(table) = self.table.upgrade()
            && let Some(entry) =
                table.lock().entries.get_mut(&self.key).filter(|entry| entry.number == self.entry)
        {
            entry.leases += 1;
        }
        let (informer, key) = (self.informer.clone(), self.key.clone());
        Self { informer, key, entry: self.entry, table: Weak::clone(&self.table) }
    }
}

impl<O: Object> Drop for InformerLease<O> {
    fn drop(&mut self) {
        let Some(table) = self.table.upgrade() else { return };
        let mut table = table.lock();
        let Some(entry) = table.entries.get_mut(&self.key).filter(|entry| entry.number == self.entry) else {
            return;
        };
        entry.leases -= 1;
        let removed = (entry.leases == 0 && !entry.is_kept).then(|| table.entries.remove(&self.key));
        // The informer is dropped without the lock.
        drop(table);
        drop(removed);
    }
}

impl<O: Object> fmt::Debug for InformerLease<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("InformerLease").field(&self.informer).finish()
    }
}

/// Returns the name of a type without path and parameters, such as `Lazy`.
fn type_name<O>() -> &'static str {
    let whole = std::any::type_name::<O>();
    let name = whole.split('<').next().unwrap_or(whole);
    name.rsplit("::").next().unwrap_or(name)
}

impl fmt::Debug for InformerSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let table = self.table.lock();
        let names: Vec<&str> = table.entries.keys().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("InformerSet").field("resources", &names).field("shut_down", &table.shut_down).finish()
    }
}

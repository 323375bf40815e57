//! Several informers of one program: made once each, started, awaited and shut down together.
//!
//! # Lock order
//!
//! One lock, around the table. Constructors of informers run under none.
//!
//! # Shutdown
//!
//! [`InformerSet::shutdown`] stops all informers, waits for their tasks and forbids further starts. Dropping the last
//! clone of the set tells its informers to stop without waiting.

use std::any::{Any, TypeId};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use informer_core::Object;
use parking_lot::Mutex;

use crate::generic::{GenericInformer, ObjectInformer};
use crate::sync::CacheSynced;
use crate::{InformerRun, InformerState, SharedInformer, SyncError};

/// The informers of a program, one for each resource and representation. A cheap handle; clones share the set.
///
/// This is what a [`SharedInformerFactory`](https://pkg.go.dev/k8s.io/client-go/informers#SharedInformerFactory) is made
/// of: it knows how to share, start and stop informers, and leaves it to its user to make them.
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
    entries: BTreeMap<EntryKey, Entry>,
    shut_down: bool,
}

/// One informer for each resource and each type of object that it holds.
type EntryKey = (String, TypeId);

struct Entry {
    /// The `SharedInformer<O>` of the `TypeId` in the key.
    typed: Box<dyn Any + Send + Sync>,
    erased: Arc<dyn ObjectInformer>,
    run: Option<InformerRun>,
}

impl InformerSet {
    /// An empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// The informer of a resource that holds `O`s: the one that is there, or the one that `make` makes.
    ///
    /// Whoever asks first decides how it is made; use different resource names for different selectors.
    pub fn informer_for<O: Object>(
        &self,
        resource: impl Into<String>,
        make: impl FnOnce() -> SharedInformer<O>,
    ) -> SharedInformer<O> {
        let key = (resource.into(), TypeId::of::<O>());
        if let Some(informer) = self.held(&key) {
            return informer;
        }
        let made = make();
        let mut table = self.table.lock();
        // Somebody else may have been faster; then theirs stays, and `made` was never started.
        let entry = table.entries.entry(key).or_insert_with(|| Entry {
            typed: Box::new(made.clone()),
            erased: Arc::new(made.clone()),
            run: None,
        });
        entry.typed.downcast_ref().cloned().unwrap_or(made)
    }

    fn held<O: Object>(&self, key: &EntryKey) -> Option<SharedInformer<O>> {
        let table = self.table.lock();
        table.entries.get(key)?.typed.downcast_ref::<SharedInformer<O>>().cloned()
    }

    /// Starts the informers that were not started yet. May be called again after more were made; does nothing after
    /// [`shutdown`](Self::shutdown).
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime with time enabled.
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

    /// Waits until every informer that was started is synced. Those that were taken out by [`release`](Self::release) or stopped by
    /// [`shutdown`](Self::shutdown) before are not waited for.
    ///
    /// # Errors
    ///
    /// After `timeout`: which informers are not, what each is doing, and its last error.
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

    /// Takes one informer out of the set. It stops, unless somebody else holds a run of it. Returns whether it was there.
    pub fn release<O: Object>(&self, resource: &str) -> bool {
        let removed = self.table.lock().entries.remove(&(resource.to_owned(), TypeId::of::<O>()));
        removed.is_some()
    }

    /// Stops all informers, waits until their tasks have ended, and forbids further starts.
    ///
    /// # Cancel safety
    ///
    /// All informers are told to stop when the future is first polled; dropping it after that only ends the wait.
    pub async fn shutdown(&self) {
        let runs: Vec<InformerRun> = {
            let mut table = self.table.lock();
            table.shut_down = true;
            table.entries.values_mut().filter_map(|entry| entry.run.take()).collect()
        };
        futures_util::future::join_all(runs.into_iter().map(InformerRun::stop)).await;
    }

    /// An informer without its type, by its resource.
    pub fn generic(&self, resource: &str) -> Option<GenericInformer> {
        let table = self.table.lock();
        let (_, entry) = table.entries.iter().find(|((name, _), _)| name == resource)?;
        Some(GenericInformer::new(Arc::clone(&entry.erased)))
    }

    /// The states of all informers, by resource.
    pub fn states(&self) -> Vec<InformerState> {
        let erased: Vec<_> =
            self.table.lock().entries.values().map(|entry| Arc::clone(&entry.erased)).collect();
        erased.iter().map(|informer| informer.state()).collect()
    }
}

impl fmt::Debug for InformerSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let table = self.table.lock();
        let names: Vec<&str> = table.entries.keys().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("InformerSet").field("resources", &names).field("shut_down", &table.shut_down).finish()
    }
}

//! The table of the informers of a cache, by kind and representation. Apart from starting informers, it has
//! no side effects.

use std::any::{Any, TypeId};
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use informer_cache::InformerRun;
use informer_client::Representation;
use informer_core::Gvk;
use tokio::runtime::Handle;

use super::idle::Usage;
use super::informer::{CacheInformer, ErasedInformer};
use super::own_writes::{RecentWrites, is_same_kind};
use super::referenced::{Bodies, ErasedBodies};
use super::task::CacheTask;
use crate::KubeObject;

#[derive(Default)]
pub(super) struct InformerTable {
    life: Lifecycle,
    is_managed: bool,
    /// The background tasks of the running cache.
    pub(super) tasks: Vec<CacheTask>,
    entries: BTreeMap<(Gvk, TypeId), InformerEntry>,
    /// The bodies of the referenced objects of each kind. The `TypeId` is that of the Rust type of the kind.
    bodies: BTreeMap<(Gvk, TypeId), BodiesEntry>,
    /// The recent own writes of the program, by group and kind. A new informer must show those of its kind
    /// before it is read.
    recent_writes: HashMap<(String, String), RecentWrites>,
}

#[derive(Default)]
enum Lifecycle {
    #[default]
    Created,
    /// The runtime on which the cache was started. An informer that is created later is started on it, too,
    /// even if the code that creates it runs on another runtime.
    Running(Handle),
    Stopped,
}

pub(super) struct InformerEntry {
    /// The informer as a `CacheInformer<O>`. The table has the `TypeId` of `O` in the key of this entry.
    typed: Box<dyn Any + Send + Sync>,
    pub(super) informer: Arc<dyn ErasedInformer>,
    runs: Vec<InformerRun>,
    usage: Usage,
}

/// The number of consecutive requests of an informer that must fail with 404 before its kind counts as
/// missing. A single 404 may come from a proxy, or from an API server that does not know a new CRD yet.
const MIN_NOT_FOUND: u64 = 3;

/// The number of handles of an informer that its entry has.
const ENTRY_HANDLES: usize = 2;

pub(super) struct BodiesEntry {
    /// The bodies as an `Arc<Bodies<K>>`. The table has the `TypeId` of `K` in the key of this entry.
    typed: Box<dyn Any + Send + Sync>,
    pub(super) erased: Box<dyn ErasedBodies>,
    task: Option<CacheTask>,
    usage: Usage,
}

/// The tasks of a stopped cache, which the caller awaits or drops.
pub(super) struct Stopping {
    pub(super) informers: Vec<InformerRun>,
    pub(super) tasks: Vec<CacheTask>,
}

impl InformerTable {
    /// Returns the bodies of a kind; `None` if there are none, or if the informer of their metadata was
    /// removed.
    pub(super) fn bodies<K: KubeObject>(&mut self, gvk: &Gvk) -> Option<Arc<Bodies<K>>> {
        let entry = self.bodies.get_mut(&(gvk.clone(), TypeId::of::<K>()))?;
        entry.usage.record();
        let bodies = entry.typed.downcast_ref::<Arc<Bodies<K>>>()?;
        (!bodies.is_removed()).then(|| Arc::clone(bodies))
    }

    /// Adds the bodies of a kind, and starts to fetch them if the cache runs. If another task has added some
    /// meanwhile, those are kept and returned.
    pub(super) fn insert_bodies<K: KubeObject>(&mut self, gvk: &Gvk, new: &Arc<Bodies<K>>) -> Arc<Bodies<K>> {
        if let Some(held) = self.bodies::<K>(gvk) {
            return held;
        }
        let task = match &self.life {
            Lifecycle::Running(runtime) => Some(new.start(runtime)),
            Lifecycle::Created | Lifecycle::Stopped => None,
        };
        let (typed, erased) = (Box::new(Arc::clone(new)), Box::new(Arc::clone(new)));
        self.bodies.insert(
            (gvk.clone(), TypeId::of::<K>()),
            BodiesEntry { typed, erased, task, usage: Usage::default() },
        );
        Arc::clone(new)
    }

    pub(super) fn get<O: Representation>(&mut self, gvk: &Gvk) -> Option<CacheInformer<O>> {
        // The map of informers is searched linearly. A lookup would need an owned copy of the kind as its
        // key, and there are only a few dozen entries.
        let (_, entry) = self
            .entries
            .iter_mut()
            .find(|((held, representation), _)| held == gvk && *representation == TypeId::of::<O>())?;
        entry.usage.record();
        entry.typed.downcast_ref().cloned()
    }

    /// Adds an informer, and starts it if the cache runs. If another task has already added an informer of
    /// this kind and representation, that one is kept. Returns the informer in the table, and whether it is
    /// the given one. `rewinds` is how often the informers of the cache have followed a restore of the
    /// server; the new informer need not show own writes from before the last restore.
    pub(super) fn insert<O: Representation>(
        &mut self,
        gvk: &Gvk,
        new: CacheInformer<O>,
        rewinds: u64,
    ) -> (CacheInformer<O>, bool) {
        if let Some(held) = self.get(gvk) {
            return (held, false);
        }
        if let Some(recent) = self.recent_writes.get_mut(&(gvk.group.clone(), gvk.kind.clone())) {
            recent.follow(rewinds);
            recent.register_with(&new);
        }
        let informer: Arc<dyn ErasedInformer> = Arc::new(new.clone());
        let runs = match &self.life {
            Lifecycle::Running(runtime) => start(&*informer, runtime),
            Lifecycle::Created | Lifecycle::Stopped => Vec::new(),
        };
        let usage = Usage::default();
        let entry = InformerEntry { typed: Box::new(new.clone()), informer, runs, usage };
        self.entries.insert((gvk.clone(), TypeId::of::<O>()), entry);
        (new, true)
    }

    pub(super) fn remove(&mut self, gvk: &Gvk, representation: TypeId) -> Option<InformerEntry> {
        self.entries.remove(&(gvk.clone(), representation))
    }

    pub(super) fn remove_kind(&mut self, gvk: &Gvk) -> Vec<InformerEntry> {
        let removed: Vec<_> = self.entries.keys().filter(|(held, _)| held == gvk).cloned().collect();
        removed.iter().filter_map(|key| self.entries.remove(key)).collect()
    }

    /// Removes the entry of an informer. Returns `None` if the table has no such entry.
    ///
    /// # Errors
    ///
    /// Returns an error if the informer is in use.
    #[cfg(feature = "console")]
    pub(super) fn remove_unused(
        &mut self,
        informer: &Arc<dyn ErasedInformer>,
    ) -> Result<Option<InformerEntry>, super::RemoveError> {
        let found = self.entries.iter().find(|(_, entry)| Arc::ptr_eq(&entry.informer, informer));
        let Some((key, entry)) = found else { return Ok(None) };
        if entry.informer.is_held(ENTRY_HANDLES) {
            return Err(super::RemoveError::Used);
        }
        let key = key.clone();
        Ok(self.entries.remove(&key))
    }

    pub(super) fn informers(&self) -> Vec<Arc<dyn ErasedInformer>> {
        self.entries.values().map(|entry| Arc::clone(&entry.informer)).collect()
    }

    /// Returns the informers whose kinds the server serves, as far as the cache knows.
    pub(super) fn served_informers(&self) -> Vec<Arc<dyn ErasedInformer>> {
        let served = self.entries.values().filter(|entry| entry.informer.is_served());
        served.map(|entry| Arc::clone(&entry.informer)).collect()
    }

    /// Removes the informers and bodies that were unused for the time `idle`.
    pub(super) fn take_idle(
        &mut self,
        idle: Duration,
        now: Instant,
    ) -> (Vec<InformerEntry>, Vec<BodiesEntry>) {
        let bodies = take(&mut self.bodies, |entry| {
            let is_held = entry.erased.is_held(ENTRY_HANDLES + usize::from(entry.task.is_some()));
            entry.usage.is_idle(is_held, idle, now)
        });
        let informers = take(&mut self.entries, |entry| {
            entry.usage.is_idle(entry.informer.is_held(ENTRY_HANDLES), idle, now)
        });
        (informers, bodies)
    }

    /// Ends the informers of the kind of a CRD that was deleted. Returns their runs, which the caller drops,
    /// and how many informers have ended. These include informers that
    /// [`update_missing`](Self::update_missing) has marked before the deletion was reported, because they
    /// still run.
    pub(super) fn end_unserved(&mut self, crd: &str) -> (Vec<InformerRun>, usize) {
        let (mut runs, mut ended) = (Vec::new(), 0);
        for entry in self.of_crd(crd).filter(|entry| entry.informer.is_served() || !entry.runs.is_empty()) {
            entry.informer.set_served(false);
            runs.append(&mut entry.runs);
            ended += 1;
        }
        (runs, ended)
    }

    /// Starts the informers of the kind of a CRD that was created, if they have ended or wait after a list
    /// that failed with 404. Returns their number.
    pub(super) fn start_served(&mut self, crd: &str) -> usize {
        let Lifecycle::Running(runtime) = &self.life else {
            self.of_crd(crd).for_each(|entry| entry.informer.set_served(true));
            return 0;
        };
        let (runtime, mut started) = (runtime.clone(), 0);
        for entry in self.of_crd(crd) {
            if !entry.informer.is_served() || entry.informer.not_found() > 0 {
                // A run that waits is dropped first, since an informer that runs is not started again.
                entry.runs.clear();
                entry.runs = start(&*entry.informer, &runtime);
                entry.informer.set_served(true);
                started += 1;
            }
        }
        started
    }

    /// Marks running informers as not served if their requests have failed [`MIN_NOT_FOUND`] times with 404
    /// and their kind has no CRD. Marks them as served after a list that succeeds. Returns the names of the
    /// kinds that are not served any more.
    pub(super) fn update_missing(&mut self, has_crd: impl Fn(&str) -> bool) -> Vec<String> {
        let mut missing = Vec::new();
        for entry in self.entries.values().filter(|entry| !entry.runs.is_empty()) {
            let informer = &entry.informer;
            if !informer.is_served() {
                informer.set_served(!informer.is_failing());
            } else if informer.not_found() >= MIN_NOT_FOUND && !has_crd(&informer.crd_name()) {
                informer.set_served(false);
                missing.push(informer.kind_name());
            }
        }
        missing
    }

    fn of_crd<'a>(&'a mut self, crd: &'a str) -> impl Iterator<Item = &'a mut InformerEntry> {
        self.entries.values_mut().filter(move |entry| entry.informer.crd_name() == crd)
    }

    /// Returns the informers of a kind, in all representations and API versions.
    pub(super) fn informers_of(&self, gvk: &Gvk) -> Vec<Arc<dyn ErasedInformer>> {
        let of_kind = self.entries.iter().filter(|((held, _), _)| is_same_kind(held, gvk));
        of_kind.map(|(_, entry)| Arc::clone(&entry.informer)).collect()
    }

    pub(super) fn recent_writes(&mut self, gvk: &Gvk) -> &mut RecentWrites {
        self.recent_writes.entry((gvk.group.clone(), gvk.kind.clone())).or_default()
    }

    pub(super) fn is_created(&self) -> bool {
        matches!(self.life, Lifecycle::Created)
    }

    pub(super) fn is_stopped(&self) -> bool {
        matches!(self.life, Lifecycle::Stopped)
    }

    /// Starts all informers if the cache was neither started nor stopped before. Returns whether the cache
    /// runs now.
    pub(super) fn start(&mut self, runtime: Handle) -> bool {
        if self.is_created() {
            for entry in self.entries.values_mut() {
                entry.runs = start(&*entry.informer, &runtime);
            }
            for entry in self.bodies.values_mut() {
                entry.task = Some(entry.erased.start(&runtime));
            }
            self.life = Lifecycle::Running(runtime);
        }
        matches!(self.life, Lifecycle::Running(_))
    }

    /// Starts the cache for a manager. Returns false if another manager runs the cache, or if it was stopped.
    pub(super) fn start_managed(&mut self, runtime: Handle) -> bool {
        !std::mem::replace(&mut self.is_managed, true) && self.start(runtime)
    }

    /// Prevents further starts, and returns the `InformerRun`s of all informers and all background tasks. An
    /// informer stops when its last run is dropped.
    pub(super) fn stop(&mut self) -> Stopping {
        self.life = Lifecycle::Stopped;
        let fetches = self.bodies.values_mut().filter_map(|entry| entry.task.take());
        let tasks = std::mem::take(&mut self.tasks).into_iter().chain(fetches).collect();
        let informers = self.entries.values_mut().flat_map(|entry| std::mem::take(&mut entry.runs)).collect();
        Stopping { informers, tasks }
    }
}

/// Removes the entries for which `is_taken` returns true.
fn take<K: Ord + Clone, V>(map: &mut BTreeMap<K, V>, mut is_taken: impl FnMut(&mut V) -> bool) -> Vec<V> {
    let chosen = map.iter_mut().filter_map(|(key, entry)| is_taken(entry).then(|| key.clone()));
    let taken: Vec<K> = chosen.collect();
    taken.iter().filter_map(|key| map.remove(key)).collect()
}

fn start(informer: &dyn ErasedInformer, runtime: &Handle) -> Vec<InformerRun> {
    let _inside = runtime.enter();
    informer.start()
}

impl fmt::Debug for InformerTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let life = match self.life {
            Lifecycle::Created => "created",
            Lifecycle::Running(_) => "running",
            Lifecycle::Stopped => "stopped",
        };
        let kinds: Vec<String> = self.entries.keys().map(|(gvk, _)| gvk.to_string()).collect();
        f.debug_struct("Table").field("life", &life).field("kinds", &kinds).finish()
    }
}

//! [`Cache`] holds the informers of a program. An informer is created when its kind is first used. All
//! informers are started and stopped together.
//!
//! # Invariants
//!
//! 1. The table of informers (`table.rs`) has at most one entry per kind and representation (the stored form
//!    of objects: lazy, typed, packed or metadata). The informers of an entry are created once.
//! 2. While the cache runs, it keeps every informer in the table running.
//! 3. The lifecycle of a cache is `Created → Running → Stopped`; it never goes back.
//!
//! # Lock order
//!
//! The lock of `table` is taken before the lock of an informer's pending own writes (the writes of this
//! program that the informer does not show yet). Informers are created, registered with metrics and awaited
//! without the lock of `table`. They are started under this lock, because starting them runs no user code.
//!
//! # Shutdown
//!
//! [`Cache::stop`] prevents further starts, stops all informers and waits for their tasks. The stores of
//! stopped informers can still be read.

mod builder;
mod crds;
mod idle;
mod informer;
mod observers;
mod options;
pub(crate) mod own_writes;
mod owned;
mod plan;
mod read;
mod referenced;
mod run;
mod table;
mod task;
mod typed_index;
#[cfg(feature = "console")]
mod weak;

use std::any::TypeId;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use informer_cache::metrics::InformerMetrics;
use informer_cache::{AddHandlerError, InformerState, SharedInformer};
use informer_client::{
    Client, Dynamic, KubeListWatch, Lazy, MemoryBudget, MemoryState, Metadata, Representation, Typed,
};
use informer_core::Gvk;
use parking_lot::Mutex;

pub use builder::{CacheBuilder, MissingInformer};
pub use informer::{CacheInformer, CacheRegistration, ScopedInformer};
pub use options::InformerOptions;
pub use plan::InformerScope;
pub(crate) use plan::InformerSelectors;
pub use read::ListOptions;
pub use referenced::{
    BODY_LEASE, BodyReference, MAX_BODY_FETCHES, MAX_BODY_LEASES, ReferenceSet, Referenced, ReferencedState,
};
pub use typed_index::{TypedIndex, typed};
#[cfg(feature = "console")]
pub(crate) use weak::{RemoveError, WeakCache};

use crate::observers::Observers;
use crate::{KubeObject, ResourceKind};
use informer::ErasedInformer;
use plan::{InformerPlan, OptionLevels};
use referenced::{Bodies, BodySource, ErasedBodies};
use table::InformerTable;

/// The informers of a program: one per kind and representation (and namespace, if the cache is restricted to
/// some), created on first use.
///
/// This type is a cheap handle; clones share one cache.
///
/// # Contract
///
/// - *First use.* [`informer`](Self::informer) creates an informer and never waits. A read creates an
///   informer and waits until it has synced, at most for [`read_timeout`](CacheBuilder::read_timeout); then
///   the read fails with the informer's last error. With [`MissingInformer::Refuse`], reads of a kind without
///   an informer fail immediately.
/// - *Start.* Informers that were created before [`start`](Self::start) start with it, later ones
///   immediately. A manager starts its cache. If the cache is already started, its informers keep running and
///   stop with the manager.
/// - *Staleness.* A read never sends a request to the API server. It returns the informer's state, which
///   follows the server with a delay. Objects are shared, not copied, and immutable. Lists are unordered.
/// - *Shared informers.* Controllers and reads of one kind and representation share one informer. The
///   representation is a type parameter; two representations of a kind are two watches and two stores, unless
///   the kind is [pinned](CacheBuilder::pin_representation) to one.
/// - *Isolation.* A kind whose informer cannot sync delays only the reads of that kind.
/// - *End.* An informer runs until the cache stops or the informer is [removed](Self::remove). With an
///   [idle timeout](CacheBuilder::idle_timeout) it also ends when it is unused. If the cache
///   [follows CRDs](CacheBuilder::follow_crds), it ends with the CRD of its kind, and returns with it.
///
/// Upstream: [`cache.Cache`](https://pkg.go.dev/sigs.k8s.io/controller-runtime/pkg/cache#Cache).
///
/// ```no_run
/// # async fn example(client: informer_client::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// use informer_runtime::{Cache, ListOptions};
/// use k8s_openapi::api::core::v1::Pod;
///
/// let cache = Cache::builder(client).namespaces(["web", "batch"]).build();
/// cache.index_field::<Pod>("spec.nodeName", informer_store::field("spec.nodeName"))?;
/// cache.start();
/// cache.wait_for_sync(Duration::from_secs(30)).await?;                 // the error names what is stuck, and why
/// let on_node = ListOptions::default().fields("spec.nodeName=worker-1".parse()?);
/// println!("{} pods", cache.list::<Pod>(&on_node).await?.len());
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Cache {
    shared: Arc<CacheInner>,
}

struct CacheInner {
    client: Client,
    levels: OptionLevels,
    missing: MissingInformer,
    read_timeout: Duration,
    /// The time after which an unused informer ends; `None` if informers never end by themselves.
    idle_timeout: Option<Duration>,
    /// Whether the informers of a kind end when its CRD is deleted.
    follows_crds: bool,
    observers: Arc<Observers<dyn InformerMetrics>>,
    /// The kinds that [`CacheBuilder::pin_representation`] has pinned. Each has the `TypeId` of the only
    /// representation that may be used, and the name of that representation for error messages.
    pinned: std::collections::HashMap<Gvk, (TypeId, &'static str)>,
    /// The kinds of which clients read the bodies of single objects, and the cache holds the metadata.
    referenced: std::collections::HashSet<Gvk>,
    memory: Option<MemoryBudget>,
    table: Mutex<InformerTable>,
    /// The next ticket, a number that orders the beginnings and ends of this program's writes. Each write
    /// takes one ticket when it begins and one when it ends, so that the cache knows which of two
    /// writes came first.
    writes: AtomicU64,
}

impl Cache {
    /// Creates a cache of all namespaces with default options.
    pub fn new(client: impl Into<Client>) -> Self {
        Self::builder(client).build()
    }

    /// Returns a builder for a cache with options, such as namespaces and selectors.
    pub fn builder(client: impl Into<Client>) -> CacheBuilder {
        CacheBuilder::new(client.into())
    }

    /// Returns the informer of `K` in the lazy representation, which stores encoded objects and decodes each
    /// on first access.
    pub fn informer<K: KubeObject>(&self) -> CacheInformer<Lazy<K>> {
        self.informer_of(ResourceKind::of::<K>())
    }

    /// Returns the informer of `K` in the typed representation, which decodes objects when they arrive. It
    /// needs several times the memory of lazy objects, and accesses need no decoding.
    pub fn typed<K: KubeObject>(&self) -> CacheInformer<Typed<K>>
    where
        Typed<K>: Representation,
    {
        self.informer_of(ResourceKind::of::<K>())
    }

    /// Returns the informer of `K` that caches only the metadata of objects. The server sends neither spec
    /// nor status.
    pub fn metadata<K: KubeObject>(&self) -> CacheInformer<Metadata<K>> {
        self.informer_of(ResourceKind::of::<K>())
    }

    /// Returns a cache of the metadata of all objects of `K`, and of the bodies of those that the program
    /// refers to. The first call creates the informer of the metadata, which [`metadata`](Self::metadata)
    /// returns, too. All calls share the bodies.
    ///
    /// # Errors
    ///
    /// Returns an error if the informer of the metadata has too many handlers.
    pub fn referenced<K: KubeObject>(&self) -> Result<Referenced<K>, AddHandlerError> {
        let metadata = self.metadata::<K>();
        let kind = metadata.kind().clone();
        if let Some(bodies) = self.shared.table.lock().bodies::<K>(kind.gvk()) {
            return Ok(Referenced::new(self.clone(), bodies));
        }
        let sources = self.shared.levels.plan(&kind).into_iter().map(|plan| BodySource {
            source: self.source(&kind, &plan),
            transform: plan.options.transform_of::<Lazy<K>>(),
            scope: plan.scope,
        });
        let new = Bodies::new(kind.clone(), metadata, sources.collect());
        new.follow()?;
        let bodies = self.shared.table.lock().insert_bodies(kind.gvk(), &new);
        if !Arc::ptr_eq(&bodies, &new) {
            ErasedBodies::close(&new);
        }
        Ok(Referenced::new(self.clone(), bodies))
    }

    /// Returns the informer of `K` in the packed representation, which compresses objects with a dictionary
    /// that is trained per kind. It needs a fraction of the memory of lazy objects, and some microseconds per
    /// access. Secrets are compressed without a dictionary.
    #[cfg(feature = "packed")]
    pub fn packed<K: KubeObject>(&self) -> CacheInformer<informer_client::Packed<K>> {
        self.informer_of(ResourceKind::of::<K>())
    }

    /// Returns the informer of a kind that is known only at run time, for example a kind that a user names.
    pub fn dynamic(&self, kind: impl Into<ResourceKind>) -> CacheInformer<Dynamic> {
        self.informer_of(kind)
    }

    /// Returns the informer of a kind in the representation `O`. If the informer does not exist, it is
    /// created, and started if the cache runs. The call does not wait. [`MissingInformer`] affects only
    /// reads, not this method.
    pub fn informer_of<O: Representation>(&self, kind: impl Into<ResourceKind>) -> CacheInformer<O> {
        let kind = kind.into();
        if let Some(held) = self.existing_informer::<O>(kind.gvk()) {
            return held;
        }
        let new = self.create::<O>(&kind);
        let rewinds = self.rewinds();
        let (held, manager) = {
            let mut table = self.shared.table.lock();
            let (held, is_new) = table.insert(kind.gvk(), new, rewinds);
            (held, self.shared.observers.manager().filter(|_| is_new).cloned())
        };
        if let Some(manager) = manager {
            held.show_in(&*manager);
        }
        held
    }

    /// Adds the existing and future informers to the metrics of a manager. Only the first call has an effect,
    /// since a cache reports to one manager.
    pub(crate) fn show_in(&self, manager: &Arc<dyn InformerMetrics>) {
        let informers = {
            let table = self.shared.table.lock();
            if !self.shared.observers.set_manager(Arc::clone(manager)) {
                return;
            }
            table.informers()
        };
        informers.iter().for_each(|informer| informer.show_in(&**manager));
    }

    /// Returns the informer of a kind and representation; `None` if it was not created yet. This method
    /// creates no informer.
    pub fn existing_informer<O: Representation>(&self, gvk: &Gvk) -> Option<CacheInformer<O>> {
        self.shared.table.lock().get(gvk)
    }

    fn create<O: Representation>(&self, kind: &ResourceKind) -> CacheInformer<O> {
        let parts = self.shared.levels.plan(kind).into_iter().map(|plan| {
            let source = self.source::<O>(kind, &plan);
            ScopedInformer {
                discovered_scope: source.discovered_scope(),
                informer: self.shared_informer(source, kind, &plan),
                selectors: plan.selectors::<O>(),
                scope: plan.scope,
                pending: Arc::new(Mutex::new(own_writes::nothing_pending())),
            }
        });
        CacheInformer::new(kind.clone(), parts.collect())
    }

    /// Returns the source of the objects of one planned informer.
    fn source<O: Representation>(&self, kind: &ResourceKind, plan: &InformerPlan) -> KubeListWatch<O> {
        let options = &plan.options;
        let mut source = KubeListWatch::<O>::of(self.shared.client.clone(), kind.clone());
        source = source.list_options(options.list_options());
        source = source.read_options(options.read.clone().unwrap_or_default());
        source = source.streaming_lists(options.streaming.unwrap_or_default());
        if let Some(namespace) = &plan.namespace {
            source = source.namespace(namespace);
        }
        if plan.is_one_of_several {
            source = source.require_namespaced();
        }
        if let Some(shares) = &options.shares {
            source = source.shares(shares.clone());
        }
        if let Some(budget) = &self.shared.memory {
            source = source.memory_budget(budget);
        }
        source
    }

    fn shared_informer<O: Representation>(
        &self,
        source: KubeListWatch<O>,
        kind: &ResourceKind,
        plan: &InformerPlan,
    ) -> SharedInformer<O> {
        let options = &plan.options;
        let representation = if O::METADATA_ONLY { "metadata" } else { "" };
        let mut informer = SharedInformer::builder(source).name(plan.name(kind, representation));
        if let Some(reflector) = &options.reflector {
            informer = informer.reflector(reflector.clone());
        }
        if let Some(period) = options.resync {
            informer = informer.resync(period);
        }
        if let Some(filter) = options.filter_of::<O>() {
            informer = informer.filter(move |object| filter(object));
        }
        if let Some(transform) = options.transform_of::<O>() {
            informer = informer.transform(move |object: Arc<O>| transform(object));
        }
        informer.metrics(Arc::clone(&self.shared.observers) as _).build()
    }

    pub(crate) fn is_pinned_to<O: Representation>(&self, gvk: &Gvk) -> bool {
        self.shared.pinned.get(gvk).is_some_and(|(representation, _)| *representation == TypeId::of::<O>())
    }

    /// Removes the informer of a kind and representation from the cache. The informer stops unless the
    /// program holds another `InformerRun` of it. Its handlers get no more events, pending reads fail, and
    /// the next use creates a new informer. Returns whether the informer existed.
    pub fn remove<O: Representation>(&self, gvk: &Gvk) -> bool {
        let removed = self.shared.table.lock().remove(gvk, TypeId::of::<O>());
        removed.is_some_and(|entry| {
            entry.informer.close();
            true
        })
    }

    /// Removes the informers of a kind in all representations, as [`remove`](Self::remove) does. Returns the
    /// number of removed informers.
    pub fn remove_kind(&self, gvk: &Gvk) -> usize {
        let removed = self.shared.table.lock().remove_kind(gvk);
        removed.iter().for_each(|entry| entry.informer.close());
        removed.len()
    }

    /// Returns the state of every informer in the cache, ordered by kind.
    pub fn states(&self) -> Vec<InformerState> {
        let informers = self.shared.table.lock().informers();
        informers.iter().flat_map(|informer| informer.states()).collect()
    }

    /// Returns the limit and the use of memory, by informer; `None` without a
    /// [memory limit](CacheBuilder::memory_limit).
    pub fn memory(&self) -> Option<MemoryState> {
        self.shared.memory.as_ref().map(MemoryBudget::state)
    }

    /// Returns the budget of the cache for the debug page.
    pub(crate) fn memory_budget(&self) -> Option<&MemoryBudget> {
        self.shared.memory.as_ref()
    }

    /// Returns the API client with which the informers list and watch objects.
    pub fn client(&self) -> &Client {
        &self.shared.client
    }
}

impl fmt::Debug for Cache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cache").field("table", &*self.shared.table.lock()).finish_non_exhaustive()
    }
}

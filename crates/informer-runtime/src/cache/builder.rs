use std::any::TypeId;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use informer_cache::metrics::InformerMetrics;
use informer_client::{Client, MemoryBudget, Metadata, Representation};
use informer_core::Gvk;
use kube_core::{NamespaceResourceScope, Resource};
use parking_lot::Mutex;

use super::options::InformerOptions;
use super::plan::OptionLevels;
use super::table::InformerTable;
use super::{Cache, CacheInner};
use crate::observers::Observers;
use crate::{KubeObject, ResourceKind};

const READ_TIMEOUT: Duration = Duration::from_secs(30);

/// Decides what happens when a program reads a kind for which the cache has no informer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum MissingInformer {
    /// The read creates the informer and waits until it has synced. From then on the informer watches all
    /// objects of the kind.
    #[default]
    Start,
    /// The read fails, so that no read accidentally starts a watch of a large kind.
    Refuse,
}

/// Configures a [`Cache`].
///
/// # Levels
///
/// An option can be set on several levels. Each option has the value of the first level that sets it, in this
/// order: the namespace of the kind, the kind, the namespace of the cache, the cache. A kind uses the
/// namespaces of the cache unless it has its own. Cluster-scoped kinds are cached as a whole, with the
/// options of the kind and of the cache.
#[must_use = "call `build` to create the cache"]
pub struct CacheBuilder {
    client: Client,
    levels: OptionLevels,
    missing: MissingInformer,
    read_timeout: Duration,
    idle_timeout: Option<Duration>,
    follows_crds: bool,
    metrics: Option<Arc<dyn InformerMetrics>>,
    pinned: HashMap<Gvk, (TypeId, &'static str)>,
    referenced: HashSet<Gvk>,
    memory: Option<MemoryBudget>,
}

impl CacheBuilder {
    pub(super) fn new(client: Client) -> Self {
        Self {
            client,
            levels: OptionLevels::default(),
            missing: MissingInformer::default(),
            read_timeout: READ_TIMEOUT,
            idle_timeout: None,
            follows_crds: false,
            metrics: None,
            pinned: HashMap::new(),
            referenced: HashSet::new(),
            memory: None,
        }
    }

    /// Sets the options of all informers. Options of a kind or of a namespace take precedence.
    pub fn options(mut self, options: InformerOptions) -> Self {
        self.levels.all = options;
        self
    }

    /// Restricts the cache to these namespaces, with one informer each. Reads of all namespaces merge the
    /// objects of these informers; a read of another namespace is an error.
    ///
    /// A kind that is known to be cluster-scoped has one informer for the whole cluster. With several
    /// namespaces, a cluster-scoped kind of unknown [scope](informer_client::ResourceKind::scope) never syncs:
    /// its informers of single namespaces fail with an error that asks for the scope.
    pub fn namespaces<N: Into<String>>(mut self, namespaces: impl IntoIterator<Item = N>) -> Self {
        for namespace in namespaces {
            self.levels.namespaces.entry(namespace.into()).or_default();
        }
        self
    }

    /// Caches this namespace, and sets options for the informers that cache it. An empty name stands for all
    /// namespaces that are not added by name.
    pub fn namespace(mut self, namespace: impl Into<String>, options: InformerOptions) -> Self {
        self.levels.namespaces.insert(namespace.into(), options);
        self
    }

    /// Sets the options of the informers of `K`. They take precedence over the options of all informers.
    pub fn kind<K: KubeObject>(self, options: InformerOptions) -> Self {
        self.kind_of(&ResourceKind::of::<K>(), options)
    }

    /// Sets the options of the informers of a kind that is known only at run time, as [`kind`](Self::kind)
    /// does.
    pub fn kind_of(mut self, kind: &ResourceKind, options: InformerOptions) -> Self {
        self.levels.kinds.entry(kind.gvk().clone()).or_default().options = options;
        self
    }

    /// Restricts one kind to this namespace, and sets options for its informer there. The namespaces of the
    /// cache then do not apply to the kind. The method can be called for several namespaces. An empty name
    /// stands for all namespaces that are not added by name.
    pub fn kind_in<K>(mut self, namespace: impl Into<String>, options: InformerOptions) -> Self
    where
        K: KubeObject + Resource<Scope = NamespaceResourceScope>,
    {
        self.namespaces_of::<K>().insert(namespace.into(), options);
        self
    }

    /// Caches one kind in all namespaces, even if the cache is restricted to some namespaces.
    pub fn kind_everywhere<K>(mut self) -> Self
    where
        K: KubeObject + Resource<Scope = NamespaceResourceScope>,
    {
        self.namespaces_of::<K>().clear();
        self
    }

    fn namespaces_of<K: KubeObject>(&mut self) -> &mut BTreeMap<String, InformerOptions> {
        let kind = self.levels.kinds.entry(ResourceKind::of::<K>().gvk().clone()).or_default();
        kind.namespaces.get_or_insert_default()
    }

    /// Pins a kind to the representation `O`. Reads and controllers that use the kind in another
    /// representation fail. Another representation would need a second watch and a second store, and the two
    /// stores could contain different states.
    pub fn pin_representation<O: Representation>(mut self, kind: &ResourceKind) -> Self {
        self.pinned.insert(kind.gvk().clone(), (TypeId::of::<O>(), super::read::representation_name::<O>()));
        self
    }

    /// Caches only the metadata of all objects of `K`, and the bodies (complete objects) of those that the
    /// program reads by name or refers to: [`Cache::referenced`]. Use this option for kinds with many objects
    /// of which the program reads few, such as Secrets and ConfigMaps. Reconcilers need no change:
    /// [`CachedClient::get`](crate::CachedClient::get) then returns the complete object, which is not older
    /// than the metadata in the cache and the program's own writes. The first read of an object sends a
    /// request.
    ///
    /// The kind is [pinned](Self::pin_representation) to [`Metadata`], so a list of complete objects from the
    /// cache fails. List the metadata, or list with a [`live`](crate::CachedClient::live) client.
    pub fn referenced<K: KubeObject>(mut self) -> Self {
        let kind = ResourceKind::of::<K>();
        self.referenced.insert(kind.gvk().clone());
        self.pin_representation::<Metadata<K>>(&kind)
    }

    /// Sets the behavior of reads of a kind without an informer. By default such a read creates an informer.
    pub fn missing_informer(mut self, missing: MissingInformer) -> Self {
        self.missing = missing;
        self
    }

    /// Sets how long a read waits for an informer to sync; 30 s by default.
    pub fn read_timeout(mut self, timeout: Duration) -> Self {
        self.read_timeout = timeout;
        self
    }

    /// Ends each informer that was unused for this time. By default informers run until the cache stops.
    ///
    /// An informer is used while the program or a controller holds a [`CacheInformer`](super::CacheInformer)
    /// of it, while it has a handler or a stream of events, and when it is read. It ends at the latest after
    /// one and a half times this time, as if it was [removed](Cache::remove): the next read creates it again,
    /// without the indexes that the program had added.
    ///
    /// # Panics
    ///
    /// Panics if the time is zero.
    #[track_caller]
    pub fn idle_timeout(mut self, timeout: Duration) -> Self {
        assert!(!timeout.is_zero(), "an idle timeout of zero would end each informer while it starts");
        self.idle_timeout = Some(timeout);
        self
    }

    /// Limits the memory of the cached objects to a number of bytes. From half of the limit on, informers
    /// compress the objects that they receive; reads return the same as before. If the objects take more
    /// than the limit nevertheless, a warning is logged. No object is dropped. The memory of each informer
    /// is in [`Cache::memory`] and on the debug page `/debug/informers`. See [`MemoryBudget`] for the sizes
    /// that are counted.
    pub fn memory_limit(self, bytes: usize) -> Self {
        self.memory_budget(MemoryBudget::new(bytes))
    }

    /// Limits the memory like [`memory_limit`](Self::memory_limit), by a budget that this cache shares with
    /// others, for example those of other clusters.
    pub fn memory_budget(mut self, budget: MemoryBudget) -> Self {
        self.memory = Some(budget);
        self
    }

    /// Ends the informers of a custom resource when its CustomResourceDefinition is deleted, and starts them
    /// again when it is created. By default, such an informer keeps requesting lists, which fail with 404.
    ///
    /// While the CRD is missing, reads fail with [`ReadError::NotServed`](crate::ReadError::NotServed),
    /// [`CacheInformer::is_served`](super::CacheInformer::is_served) returns false, and the informer does not
    /// count for [`Cache::has_synced`]. Handlers and indexes are kept. When the CRD returns, the informer
    /// lists again, and handlers receive the differences. An informer that was created before its CRD lists
    /// as soon as the CRD is created.
    ///
    /// The cache watches the metadata of CRDs, so the program needs `list` and `watch` on
    /// `customresourcedefinitions`. Without these permissions the option has no effect.
    ///
    /// A kind also counts as missing if the server responds with 404 to three consecutive requests and the
    /// kind has no CRD, for example because the CRD was deleted before the first list of CRDs. As an
    /// aggregated API server may serve such a kind later without a CRD, its informer continues to list with
    /// backoff. A CRD that no longer serves one of its versions is not detected.
    ///
    /// Missing kinds affect readiness: a check that waits for [`Cache::has_synced`] succeeds although the
    /// cache has never listed these kinds. It does not fail when the server stops to serve a kind.
    pub fn follow_crds(mut self) -> Self {
        self.follows_crds = true;
        self
    }

    /// Sets the receiver of the informers' metrics. A manager that uses the cache also receives them.
    pub fn metrics(mut self, metrics: Arc<dyn InformerMetrics>) -> Self {
        self.metrics = Some(metrics);
        self
    }

    /// Creates the cache. The cache sends no request before it is started.
    pub fn build(self) -> Cache {
        let Self {
            client,
            levels,
            missing,
            read_timeout,
            idle_timeout,
            follows_crds,
            metrics,
            pinned,
            referenced,
            memory,
        } = self;
        let (observers, table) = (Arc::new(Observers::new(metrics)), Mutex::new(InformerTable::default()));
        let writes = AtomicU64::new(0);
        let shared = Arc::new(CacheInner {
            client,
            levels,
            missing,
            read_timeout,
            idle_timeout,
            follows_crds,
            observers,
            pinned,
            referenced,
            memory,
            table,
            writes,
        });
        Cache { shared }
    }
}

impl fmt::Debug for CacheBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CacheBuilder")
            .field("levels", &self.levels)
            .field("missing", &self.missing)
            .field("read_timeout", &self.read_timeout)
            .finish_non_exhaustive()
    }
}

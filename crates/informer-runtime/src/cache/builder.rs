use std::any::TypeId;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use informer_cache::metrics::InformerMetrics;
use informer_client::{Client, Representation};
use informer_core::Gvk;
use kube_core::{NamespaceResourceScope, Resource};
use parking_lot::Mutex;

use super::options::InformerOptions;
use super::plan::Levels;
use super::table::Table;
use super::{Cache, Shared};
use crate::observed::Observers;
use crate::{KubeKind, ScopedKind};

/// How long the first read of a kind waits for its informer, unless said otherwise.
const READ_TIMEOUT: Duration = Duration::from_secs(30);

/// What a read of a kind without an informer does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum MissingInformer {
    /// It makes one, and waits for it: the whole kind is watched from then on.
    #[default]
    Start,
    /// It fails, so that no read opens a watch of a large kind by mistake.
    Refuse,
}

/// Configures a [`Cache`].
///
/// # Levels
///
/// Options are looked up for a namespace of a kind, the kind, a namespace of the cache, and the cache, in this order, each of
/// them by itself. A kind has the namespaces of the cache unless it is given its own; kinds without namespaces are cached
/// whole, with the options of the kind and of the cache.
#[must_use = "nothing is made before `build`"]
pub struct CacheBuilder {
    client: Client,
    levels: Levels,
    missing: MissingInformer,
    read_timeout: Duration,
    metrics: Option<Arc<dyn InformerMetrics>>,
    pinned: HashMap<Gvk, (TypeId, &'static str)>,
}

impl CacheBuilder {
    pub(super) fn new(client: Client) -> Self {
        Self {
            client,
            levels: Levels::default(),
            missing: MissingInformer::default(),
            read_timeout: READ_TIMEOUT,
            metrics: None,
            pinned: HashMap::new(),
        }
    }

    /// The options of all informers.
    pub fn options(mut self, options: InformerOptions) -> Self {
        self.levels.all = options;
        self
    }

    /// Caches these namespaces only, each with an informer of its own. Reads of all namespaces see them together; a read of
    /// another one is an error.
    pub fn namespaces<N: Into<String>>(mut self, namespaces: impl IntoIterator<Item = N>) -> Self {
        for namespace in namespaces {
            self.levels.namespaces.entry(namespace.into()).or_default();
        }
        self
    }

    /// Caches this namespace, with options of its own. The empty name stands for all namespaces that are not named.
    pub fn namespace(mut self, namespace: impl Into<String>, options: InformerOptions) -> Self {
        self.levels.namespaces.insert(namespace.into(), options);
        self
    }

    /// The options of one kind.
    pub fn kind<K: KubeKind>(self, options: InformerOptions) -> Self {
        self.kind_of(&ScopedKind::of::<K>(), options)
    }

    /// The options of a kind that is known at run time only.
    pub fn kind_of(mut self, kind: &ScopedKind, options: InformerOptions) -> Self {
        self.levels.kinds.entry(kind.gvk().clone()).or_default().options = options;
        self
    }

    /// Caches this namespace of one kind, with options of its own; the namespaces of the cache no longer count for the kind.
    /// The empty name stands for all namespaces that are not named.
    pub fn kind_in<K>(mut self, namespace: impl Into<String>, options: InformerOptions) -> Self
    where
        K: KubeKind + Resource<Scope = NamespaceResourceScope>,
    {
        self.namespaces_of::<K>().insert(namespace.into(), options);
        self
    }

    /// Caches one kind in all namespaces, whatever the cache has.
    pub fn kind_everywhere<K>(mut self) -> Self
    where
        K: KubeKind + Resource<Scope = NamespaceResourceScope>,
    {
        self.namespaces_of::<K>().clear();
        self
    }

    fn namespaces_of<K: KubeKind>(&mut self) -> &mut BTreeMap<String, InformerOptions> {
        let kind = self.levels.kinds.entry(ScopedKind::of::<K>().gvk().clone()).or_default();
        kind.namespaces.get_or_insert_default()
    }

    /// Holds a kind in the form `O` alone: a read of it in another form fails, and so does a controller that watches it in one, since it
    /// would be a second watch and a second store that are not of one mind.
    pub fn only_form<O: Representation>(mut self, kind: &ScopedKind) -> Self {
        self.pinned.insert(kind.gvk().clone(), (TypeId::of::<O>(), super::read::form_name::<O>()));
        self
    }

    /// What a read of a kind without an informer does. It makes one by default.
    pub fn missing_informer(mut self, missing: MissingInformer) -> Self {
        self.missing = missing;
        self
    }

    /// How long a read waits for an informer that is not synced. 30 s by default.
    pub fn read_timeout(mut self, timeout: Duration) -> Self {
        self.read_timeout = timeout;
        self
    }

    /// Where the informers show how they are. The manager that the cache is given to shows them, too.
    pub fn metrics(mut self, metrics: Arc<dyn InformerMetrics>) -> Self {
        self.metrics = Some(metrics);
        self
    }

    /// The cache. It asks the server nothing before it is started.
    pub fn build(self) -> Cache {
        let Self { client, levels, missing, read_timeout, metrics, pinned } = self;
        let (observers, table) = (Arc::new(Observers::new(metrics)), Mutex::new(Table::default()));
        let writes = AtomicU64::new(0);
        let shared = Shared { client, levels, missing, read_timeout, observers, pinned, table, writes };
        Cache { shared: Arc::new(shared) }
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

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::settings::ClientSettings;
use super::unchanged::AppliedObjects;
use super::{CachedClient, ClientInner, ClientMetrics};
use crate::observers::Observers;
use crate::{Cache, KubeObject, ResourceKind};
use informer_client::ListKeys;
use informer_core::Gvk;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

/// The default of [`ClientBuilder::read_your_writes`]: the longest time for which a read waits for the
/// program's own writes. A working watch delivers them within milliseconds.
const READ_YOUR_WRITES: Duration = Duration::from_secs(5);

/// Configures a [`CachedClient`]: the kinds that are not read from the cache, the wait for own writes, and
/// metrics.
#[must_use = "call `build` to create the client"]
pub struct ClientBuilder {
    cache: Cache,
    uncached: HashSet<Gvk>,
    cache_dynamic: bool,
    read_your_writes: Option<Duration>,
    metrics: Option<Arc<dyn ClientMetrics>>,
    list_keys: HashMap<Gvk, ListKeys>,
}

impl ClientBuilder {
    pub(super) fn new(cache: Cache) -> Self {
        Self {
            cache,
            uncached: HashSet::new(),
            cache_dynamic: false,
            read_your_writes: Some(READ_YOUR_WRITES),
            metrics: None,
            list_keys: HashMap::new(),
        }
    }

    /// Makes the client read this kind from the API server, for kinds that are too large or too sensitive to
    /// cache.
    pub fn uncached<K: KubeObject>(self) -> Self {
        self.uncached_kind(&ResourceKind::of::<K>())
    }

    /// Makes the client read a kind from the API server, as [`uncached`](Self::uncached) does. The kind is
    /// known only at run time.
    pub fn uncached_kind(mut self, kind: &ResourceKind) -> Self {
        self.uncached.insert(kind.gvk().clone());
        self
    }

    /// Sets whether dynamic objects are read from the cache. By default they are read from the API server,
    /// since the kind may come from user input and its informer may be large.
    pub fn cache_dynamic(mut self, cache: bool) -> Self {
        self.cache_dynamic = cache;
        self
    }

    /// Sets the longest time for which a read waits for the cache to contain the program's own writes; 5 s by
    /// default. With `None`, reads do not wait and may return an older state than this program has written.
    pub fn read_your_writes(mut self, bound: Option<Duration>) -> Self {
        self.read_your_writes = bound;
        self
    }

    /// Adds the list map keys of a custom kind (`x-kubernetes-list-map-keys` in its CRD). An update uses
    /// these keys to match list elements, and so keeps fields that the type does not know in the right
    /// element. Without the keys, elements are matched by fields such as `name`.
    pub fn crd(mut self, definition: &CustomResourceDefinition) -> Self {
        self.list_keys.extend(list_keys(definition));
        self
    }

    /// Sets the receiver of the client's metrics. A manager that serves metrics also receives them.
    pub fn metrics(mut self, metrics: Arc<dyn ClientMetrics>) -> Self {
        self.metrics = Some(metrics);
        self
    }

    /// Creates the client with the configured options.
    pub fn build(self) -> CachedClient {
        let Self { cache, uncached, cache_dynamic, read_your_writes, metrics, list_keys } = self;
        let api = cache.client().clone();
        let metrics = Arc::new(Observers::<dyn ClientMetrics>::new(metrics));
        let observers = Arc::downgrade(&metrics);
        api.observe_unknown_fields(move |kind| {
            observers.upgrade().into_iter().for_each(|observers| observers.unknown_fields(kind));
        });
        let shared = Arc::new(ClientInner {
            api,
            cache,
            uncached,
            cache_dynamic,
            read_your_writes,
            metrics,
            list_keys,
            applied: AppliedObjects::default(),
        });
        CachedClient { shared, settings: Arc::new(ClientSettings::new()) }
    }
}

pub(crate) fn list_keys(definition: &CustomResourceDefinition) -> Vec<(Gvk, ListKeys)> {
    serde_json::to_value(definition).map(|definition| ListKeys::of_crd(&definition)).unwrap_or_default()
}

impl fmt::Debug for ClientBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientBuilder")
            .field("uncached", &self.uncached)
            .field("cache_dynamic", &self.cache_dynamic)
            .finish_non_exhaustive()
    }
}

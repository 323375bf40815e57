use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::own_writes::OwnWrites;
use super::settings::Settings;
use super::{Client, ClientMetrics, Shared};
use crate::observed::Observers;
use crate::{Cache, KubeKind, ScopedKind};
use informer_core::Gvk;

/// How long a read waits for the cache to show own writes, unless said otherwise: a watch that works shows them in milliseconds.
const OWN_WRITES_BOUND: Duration = Duration::from_secs(5);

/// Configures a [`Client`].
#[must_use = "nothing is made before `build`"]
pub struct ClientBuilder {
    cache: Cache,
    uncached: HashSet<Gvk>,
    cache_dynamic: bool,
    own_writes: Option<Duration>,
    metrics: Option<Arc<dyn ClientMetrics>>,
}

impl ClientBuilder {
    pub(super) fn new(cache: Cache) -> Self {
        Self {
            cache,
            uncached: HashSet::new(),
            cache_dynamic: false,
            own_writes: Some(OWN_WRITES_BOUND),
            metrics: None,
        }
    }

    /// Reads this kind from the server: for kinds that are too many or too secret to hold.
    pub fn uncached<K: KubeKind>(self) -> Self {
        self.uncached_kind(&ScopedKind::of::<K>())
    }

    /// As [`uncached`](Self::uncached), of a kind that is known at run time only.
    pub fn uncached_kind(mut self, kind: &ScopedKind) -> Self {
        self.uncached.insert(kind.gvk().clone());
        self
    }

    /// Also reads objects without a type from the cache. By default they are read from the server, since the informer of a kind
    /// that some input names may be large.
    pub fn cache_dynamic(mut self, cache: bool) -> Self {
        self.cache_dynamic = cache;
        self
    }

    /// How long a read waits for the cache to show what was written through the same client. 5 s by default; `None` turns the wait
    /// off: a read may then show less than what was written before.
    pub fn read_your_writes(mut self, bound: Option<Duration>) -> Self {
        self.own_writes = bound;
        self
    }

    /// Where the client shows how it is. A manager that serves metrics shows its client there, too.
    pub fn metrics(mut self, metrics: Arc<dyn ClientMetrics>) -> Self {
        self.metrics = Some(metrics);
        self
    }

    /// The client.
    pub fn build(self) -> Client {
        let Self { cache, uncached, cache_dynamic, own_writes, metrics } = self;
        let api = cache.client().clone();
        let metrics = Arc::new(Observers::new(metrics));
        let own_writes = own_writes.map(|bound| Arc::new(OwnWrites::new(bound, Arc::clone(&metrics) as _)));
        let shared = Arc::new(Shared { api, cache, uncached, cache_dynamic, own_writes, metrics });
        Client { shared, settings: Arc::new(Settings::default()) }
    }
}

impl fmt::Debug for ClientBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientBuilder")
            .field("uncached", &self.uncached)
            .field("cache_dynamic", &self.cache_dynamic)
            .finish_non_exhaustive()
    }
}

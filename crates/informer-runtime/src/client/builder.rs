use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use super::settings::Settings;
use super::{Client, Shared};
use crate::{Cache, KubeKind, ScopedKind};
use informer_core::Gvk;

/// Configures a [`Client`].
#[must_use = "nothing is made before `build`"]
pub struct ClientBuilder {
    cache: Cache,
    uncached: HashSet<Gvk>,
    cache_dynamic: bool,
}

impl ClientBuilder {
    pub(super) fn new(cache: Cache) -> Self {
        Self { cache, uncached: HashSet::new(), cache_dynamic: false }
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

    /// The client.
    pub fn build(self) -> Client {
        let Self { cache, uncached, cache_dynamic } = self;
        let api = cache.client().clone();
        let shared = Arc::new(Shared { api, cache, uncached, cache_dynamic });
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

use std::fmt;

use crate::{Cache, CachedClient, EventRecorder};

/// The services that a manager shares with its runnables.
#[derive(Clone)]
#[non_exhaustive]
pub struct Services {
    /// Reads from the cache and writes to the API server.
    pub client: CachedClient,
    /// The informers.
    pub cache: Cache,
    /// Records Kubernetes events; in a reconciler, with the name of its controller.
    pub recorder: EventRecorder,
}

impl Services {
    /// Creates the services of a client and its cache.
    pub(crate) fn new(client: CachedClient, recorder: EventRecorder) -> Self {
        Self { cache: client.cache().clone(), client, recorder }
    }
}

impl fmt::Debug for Services {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Services").field("client", &self.client).field("cache", &self.cache).finish()
    }
}

use std::fmt;

use crate::{Cache, CachedClient, EventRecorder};

/// What a manager shares with its parts.
#[derive(Clone)]
#[non_exhaustive]
pub struct Services {
    /// Reads from the cache, writes to the server.
    pub client: CachedClient,
    /// The informers.
    pub cache: Cache,
    /// Tells people what happens to objects: in a reconciler, in the name of its controller.
    pub recorder: EventRecorder,
}

impl Services {
    /// The services of a client, with its cache.
    pub(crate) fn new(client: CachedClient, recorder: EventRecorder) -> Self {
        Self { cache: client.cache().clone(), client, recorder }
    }
}

impl fmt::Debug for Services {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Services").field("client", &self.client).field("cache", &self.cache).finish()
    }
}

use std::fmt;
use std::sync::Arc;

use crate::ObjectKey;

/// The last known state of an object that is gone.
///
/// Where the deletion itself was observed, `last` is the object as the deletion showed it. Where it was missed (the
/// watch was down, and a relist no longer had the object), it is the last state that was known before, and
/// [`stale`](Self::stale) is true. Client-go calls the second case `DeletedFinalStateUnknown`; here both are one type
/// whose accessors cannot fail.
pub struct Tombstone<O> {
    key: ObjectKey,
    last: Option<Arc<O>>,
    stale: bool,
}

impl<O> Tombstone<O> {
    /// The deletion was observed and showed `last`.
    pub fn observed(key: ObjectKey, last: Arc<O>) -> Self {
        Self { key, last: Some(last), stale: false }
    }

    /// The deletion was missed; `last` is what was known before, if anything.
    pub fn missed(key: ObjectKey, last: Option<Arc<O>>) -> Self {
        Self { key, last, stale: true }
    }

    /// The key of what is gone.
    pub fn key(&self) -> &ObjectKey {
        &self.key
    }

    /// The last known state. `None` only where the object vanished before anyone saw it.
    pub fn last(&self) -> Option<&Arc<O>> {
        self.last.as_ref()
    }

    /// True where the deletion was missed, so that `last` may be older than the final state.
    pub fn stale(&self) -> bool {
        self.stale
    }

    /// Takes the last known state out.
    pub fn into_last(self) -> Option<Arc<O>> {
        self.last
    }
}

impl<O> Clone for Tombstone<O> {
    fn clone(&self) -> Self {
        Self { key: self.key.clone(), last: self.last.clone(), stale: self.stale }
    }
}

impl<O> fmt::Debug for Tombstone<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tombstone")
            .field("key", &self.key)
            .field("known", &self.last.is_some())
            .field("stale", &self.stale)
            .finish()
    }
}

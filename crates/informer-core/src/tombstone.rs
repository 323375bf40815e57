use std::fmt;
use std::sync::Arc;

use crate::{ObjectKey, ResourceVersion};

/// The last known state of a deleted object.
///
/// If the deletion was observed, `last` is the object that the DELETED event contained. If the deletion was
/// missed (the watch was interrupted, and a relist no longer contained the object), `last` is the last state
/// known before, and [`stale`](Self::stale) is true. client-go calls the second case
/// `DeletedFinalStateUnknown`; here both cases are one type whose accessors cannot fail.
pub struct Tombstone<O> {
    key: ObjectKey,
    last: Option<Arc<O>>,
    version: Option<ResourceVersion>,
    stale: bool,
}

impl<O> Tombstone<O> {
    /// Creates the tombstone of an observed deletion, whose DELETED event contained `last`.
    pub fn observed(key: ObjectKey, last: Arc<O>) -> Self {
        Self { key, last: Some(last), version: None, stale: false }
    }

    /// Creates the tombstone of a missed deletion. `last` is the last state that was known, if any.
    pub fn missed(key: ObjectKey, last: Option<Arc<O>>) -> Self {
        Self { key, last, version: None, stale: true }
    }

    /// Sets the resourceVersion of the deletion, for a deletion that was observed without its final state. An
    /// unset version means that it has no order relative to other versions.
    #[must_use]
    pub fn with_version(self, version: ResourceVersion) -> Self {
        Self { version: Some(version), ..self }
    }

    /// Returns the key of the deleted object.
    pub fn key(&self) -> &ObjectKey {
        &self.key
    }

    /// Returns the last known state; `None` only if the object was deleted before it was ever observed.
    pub fn last(&self) -> Option<&Arc<O>> {
        self.last.as_ref()
    }

    /// Returns the resourceVersion of a deletion that was observed without its final state; `None` for other
    /// deletions. The version of an observed deletion is that of [`last`](Self::last).
    pub fn version(&self) -> Option<&ResourceVersion> {
        self.version.as_ref()
    }

    /// Returns true if the deletion was missed, so that `last` may be older than the final state of the
    /// object.
    pub fn stale(&self) -> bool {
        self.stale
    }

    /// Consumes the tombstone and returns the last known state.
    pub fn into_last(self) -> Option<Arc<O>> {
        self.last
    }
}

impl<O> Clone for Tombstone<O> {
    fn clone(&self) -> Self {
        Self {
            key: self.key.clone(),
            last: self.last.clone(),
            version: self.version.clone(),
            stale: self.stale,
        }
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

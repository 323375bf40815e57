use std::fmt;
use std::sync::Arc;

use informer_core::{Object, ObjectKey};

/// A notification to an event handler.
///
/// Per key, the order of delivery is legal: the first event is `Added`, the `old` of an `Updated` is the
/// state of the event before, and only `Added` can follow `Deleted`. If an object is deleted and re-created
/// with the same name, the handler receives `Deleted`, then `Added`, never an update.
pub enum Event<O> {
    /// The object was added to the cache.
    Added {
        /// The object.
        object: Arc<O>,
        /// True for objects of the informer's first list, and for the replay to a handler that is added
        /// later.
        initial: bool,
    },
    /// The object changed in the cache, or is replayed by a resync.
    Updated {
        /// The state that the cache held before.
        old: Arc<O>,
        /// The current state; the same as `old` in a resync.
        new: Arc<O>,
        /// True if nothing changed and the handler's resync period is due.
        resync: bool,
    },
    /// The object was removed from the cache.
    Deleted {
        /// The last known state. It is always present: a handler receives no delete for an object of which it
        /// received no add.
        last: Arc<O>,
        /// True if the deletion itself was missed, so that `last` may be older than the final state.
        stale: bool,
    },
}

impl<O> Event<O> {
    /// Returns the newest state in the event. For a deletion, this is the last known state.
    pub fn object(&self) -> &Arc<O> {
        match self {
            Self::Added { object, .. } => object,
            Self::Updated { new, .. } => new,
            Self::Deleted { last, .. } => last,
        }
    }

    /// Returns true for deletions.
    pub fn is_deleted(&self) -> bool {
        matches!(self, Self::Deleted { .. })
    }
}

impl<O: Object> Event<O> {
    /// Returns the key of the object.
    pub fn key(&self) -> &ObjectKey {
        self.object().key()
    }
}

impl<O> Clone for Event<O> {
    fn clone(&self) -> Self {
        match self {
            Self::Added { object, initial } => Self::Added { object: Arc::clone(object), initial: *initial },
            Self::Updated { old, new, resync } => {
                Self::Updated { old: Arc::clone(old), new: Arc::clone(new), resync: *resync }
            }
            Self::Deleted { last, stale } => Self::Deleted { last: Arc::clone(last), stale: *stale },
        }
    }
}

impl<O: Object> fmt::Display for Event<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = self.key();
        match self {
            Self::Added { object, initial } => {
                let note = if *initial { " (initial)" } else { "" };
                write!(f, "added {key} @{}{note}", object.resource_version())
            }
            Self::Updated { new, resync: true, .. } => write!(f, "resync {key} @{}", new.resource_version()),
            Self::Updated { old, new, .. } => {
                write!(f, "updated {key} @{} -> @{}", old.resource_version(), new.resource_version())
            }
            Self::Deleted { last, stale } => {
                let note = if *stale { " (last known)" } else { "" };
                write!(f, "deleted {key} @{}{note}", last.resource_version())
            }
        }
    }
}

impl<O: Object> fmt::Debug for Event<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

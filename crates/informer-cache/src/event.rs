use std::fmt;
use std::sync::Arc;

use informer_core::{Object, ObjectKey};

/// What a handler is told.
///
/// The history of one key is legal in the order of delivery: it begins with `Added`, `Updated` carries as `old` what the
/// event before carried as `new`, and after `Deleted` only `Added` can follow. A delete and re-creation under one name is
/// `Deleted`, then `Added`, never an update.
pub enum Event<O> {
    /// The object came into the cache.
    Added {
        /// The object.
        object: Arc<O>,
        /// True for the objects of the informer's first list, and for those that a late handler is told first.
        initial: bool,
    },
    /// The object changed in the cache, or is told again.
    Updated {
        /// What the cache held before.
        old: Arc<O>,
        /// What it holds now; the same as `old` in a resync.
        new: Arc<O>,
        /// True where nothing changed and the handler's resync period is due.
        resync: bool,
    },
    /// The object left the cache.
    Deleted {
        /// The last known state. It is always there: a handler is told of no deletion of what it was never told of.
        last: Arc<O>,
        /// True where the deletion itself was missed, so that `last` may be older than the final state.
        stale: bool,
    },
}

impl<O> Event<O> {
    /// The newest state that the event carries: of a deletion, the last known one.
    pub fn object(&self) -> &Arc<O> {
        match self {
            Self::Added { object, .. } => object,
            Self::Updated { new, .. } => new,
            Self::Deleted { last, .. } => last,
        }
    }

    /// True for deletions.
    pub fn is_deleted(&self) -> bool {
        matches!(self, Self::Deleted { .. })
    }
}

impl<O: Object> Event<O> {
    /// The key of the object.
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

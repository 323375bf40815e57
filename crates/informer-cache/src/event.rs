use std::fmt;
use std::sync::Arc;

use informer_core::{Object, ObjectKey};

/// A notification to an event handler.
///
/// For each key, events are delivered in a legal order: the first event is `Added`, the `old` of an `Updated`
/// is the state of the previous event, and only `Added` can follow `Deleted`. If an object is deleted and
/// re-created with the same name, the handler receives `Deleted`, then `Added`, never an update.
pub enum Event<O> {
    /// The object was added to the cache.
    Added {
        /// The state of the object with which it was added to the cache.
        object: Arc<O>,
        /// True if the object is in the informer's first list, or is replayed to a handler that was added
        /// later.
        initial: bool,
    },
    /// The cached object changed, or a resync replays it.
    Updated {
        /// The cached state that this update replaces. It is the newest state of the previous event of the
        /// object.
        old: Arc<O>,
        /// The state of the object in the cache after this update. In a resync it is the same as `old`.
        new: Arc<O>,
        /// True if the event is a resync: the object did not change, but the handler's resync period has
        /// elapsed.
        resync: bool,
    },
    /// The object was removed from the cache.
    Deleted {
        /// The last known state of the object. It is always present, because a handler receives a delete only
        /// for an object for which it received an add.
        last: Arc<O>,
        /// True if the watch missed the deletion, so that `last` may be older than the final state of the
        /// object.
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

    /// Returns true if the event is a deletion.
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

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use informer_core::{Object, ObjectKey, Tombstone};

/// One change of an object.
pub enum Delta<O> {
    /// The source reported the object as new.
    Added(Arc<O>),
    /// The source reported the object as changed.
    Updated(Arc<O>),
    /// The source reported the object as deleted, or the object is missing in a complete list.
    Deleted(Tombstone<O>),
    /// A complete list contains the object.
    Replaced(Arc<O>),
    /// A resync replays the object unchanged.
    Sync(Arc<O>),
}

impl<O> Delta<O> {
    /// Returns the object of the delta. For a deletion this is its last known state, if there is one.
    pub fn object(&self) -> Option<&Arc<O>> {
        match self {
            Self::Added(object) | Self::Updated(object) | Self::Replaced(object) | Self::Sync(object) => {
                Some(object)
            }
            Self::Deleted(tombstone) => tombstone.last(),
        }
    }

    /// Returns true if the delta is a deletion.
    pub fn is_deleted(&self) -> bool {
        matches!(self, Self::Deleted(_))
    }
}

/// The changes of one object that were queued since it was last popped, oldest first. There is at least one
/// change.
pub struct Deltas<O> {
    key: ObjectKey,
    deltas: Vec<Delta<O>>,
}

impl<O> Deltas<O> {
    /// Creates the deltas of `key` from their first change.
    pub fn new(key: ObjectKey, first: Delta<O>) -> Self {
        Self { key, deltas: vec![first] }
    }

    /// Returns the key of the object.
    pub fn key(&self) -> &ObjectKey {
        &self.key
    }

    /// Returns the oldest change of the object.
    pub fn oldest(&self) -> &Delta<O> {
        self.deltas.first().expect("deltas are never empty")
    }

    /// Returns the newest change of the object.
    pub fn newest(&self) -> &Delta<O> {
        self.deltas.last().expect("deltas are never empty")
    }

    /// Appends a change. Of two consecutive deletions the one with more information is kept, and the other is
    /// returned: an observed deletion rather than a missed one, the earlier of two observed ones, and the
    /// later of two missed ones. No other changes are merged.
    pub fn push(&mut self, next: Delta<O>) -> Option<Delta<O>> {
        match (self.deltas.last_mut(), &next) {
            (Some(last @ Delta::Deleted(_)), Delta::Deleted(_)) => match last {
                Delta::Deleted(tombstone) if tombstone.stale() => Some(std::mem::replace(last, next)),
                _ => Some(next),
            },
            _ => {
                self.deltas.push(next);
                None
            }
        }
    }
}

impl<O> Deref for Deltas<O> {
    type Target = [Delta<O>];

    fn deref(&self) -> &[Delta<O>] {
        &self.deltas
    }
}

impl<O> IntoIterator for Deltas<O> {
    type Item = Delta<O>;
    type IntoIter = std::vec::IntoIter<Delta<O>>;

    fn into_iter(self) -> Self::IntoIter {
        self.deltas.into_iter()
    }
}

impl<'a, O> IntoIterator for &'a Deltas<O> {
    type Item = &'a Delta<O>;
    type IntoIter = std::slice::Iter<'a, Delta<O>>;

    fn into_iter(self) -> Self::IntoIter {
        self.deltas.iter()
    }
}

impl<O> Clone for Delta<O> {
    fn clone(&self) -> Self {
        match self {
            Self::Added(object) => Self::Added(Arc::clone(object)),
            Self::Updated(object) => Self::Updated(Arc::clone(object)),
            Self::Deleted(tombstone) => Self::Deleted(tombstone.clone()),
            Self::Replaced(object) => Self::Replaced(Arc::clone(object)),
            Self::Sync(object) => Self::Sync(Arc::clone(object)),
        }
    }
}

impl<O> Clone for Deltas<O> {
    fn clone(&self) -> Self {
        Self { key: self.key.clone(), deltas: self.deltas.clone() }
    }
}

impl<O: Object> fmt::Debug for Delta<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (word, object) = match self {
            Self::Added(object) => ("Added", object),
            Self::Updated(object) => ("Updated", object),
            Self::Replaced(object) => ("Replaced", object),
            Self::Sync(object) => ("Sync", object),
            Self::Deleted(tombstone) => return f.debug_tuple("Deleted").field(tombstone).finish(),
        };
        write!(f, "{word}({} @{})", object.key(), object.resource_version())
    }
}

impl<O: Object> fmt::Debug for Deltas<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Deltas").field("key", &self.key).field("deltas", &self.deltas).finish()
    }
}

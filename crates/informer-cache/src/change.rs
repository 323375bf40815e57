use std::fmt;
use std::sync::Arc;

use informer_core::{Object, ObjectKey, ResourceVersion, Tombstone};

use crate::Undecodable;
use crate::source::Listed;

/// A change that a reflector writes to a queue.
pub enum Change<O> {
    /// The source reported an object as new.
    Added(Arc<O>),
    /// The source reported an object as changed.
    Updated(Arc<O>),
    /// The source reported an object as deleted.
    Deleted(Tombstone<O>),
    /// The source sent a complete list: all objects that exist at the resourceVersion of the list, and no
    /// others.
    Replaced(Replacement<O>),
    /// A resync is due: the consumer of the queue replays the cached objects to the handlers that have a
    /// resync period. A resync is local: no request is sent to the source.
    Resync,
    /// The source sent a bookmark: it has reached this resourceVersion, and no object changed.
    Bookmark(ResourceVersion),
    /// The source reported an object as added or changed, but its new state could not be decoded.
    Undecodable(Undecodable),
}

/// The objects of a complete list, which replaces the content of the cache.
pub struct Replacement<O> {
    /// The objects of the list, in the order of the source.
    pub items: Vec<Listed<O>>,
    /// Listed objects that could not be decoded. They exist, so they are not reported as deleted.
    pub undecodable: Vec<Undecodable>,
    /// The resourceVersion of the list.
    pub version: ResourceVersion,
    /// True if this list is older than the cache but authoritative: a consistent read of a server that was
    /// restored from a backup. No object of the list is skipped as unchanged or too old.
    pub rewound: bool,
    /// True if every object of this list was decoded again, because another server or another server version
    /// responded. No object of the list is skipped as unchanged, since that server may encode the same state
    /// differently.
    pub reread: bool,
}

impl<O: Object> Change<O> {
    /// Returns the key of the changed object. Returns `None` if the change concerns no single object (a list,
    /// a resync or a bookmark), or if the key of an undecodable object could not be read.
    pub fn key(&self) -> Option<&ObjectKey> {
        match self {
            Self::Added(object) | Self::Updated(object) => Some(object.key()),
            Self::Deleted(tombstone) => Some(tombstone.key()),
            Self::Undecodable(undecodable) => undecodable.key(),
            Self::Replaced(_) | Self::Resync | Self::Bookmark(_) => None,
        }
    }
}

impl<O> Replacement<O> {
    /// Creates a complete list that has no undecodable objects.
    pub fn new(items: Vec<Listed<O>>, version: impl Into<ResourceVersion>) -> Self {
        Self { items, undecodable: Vec::new(), version: version.into(), rewound: false, reread: false }
    }
}

/// Written by hand, because a derived `Clone` would require `O: Clone`. The copy of a change shares its
/// objects by reference count.
impl<O> Clone for Change<O> {
    fn clone(&self) -> Self {
        match self {
            Self::Added(object) => Self::Added(Arc::clone(object)),
            Self::Updated(object) => Self::Updated(Arc::clone(object)),
            Self::Deleted(tombstone) => Self::Deleted(tombstone.clone()),
            Self::Replaced(replacement) => Self::Replaced(replacement.clone()),
            Self::Resync => Self::Resync,
            Self::Bookmark(version) => Self::Bookmark(version.clone()),
            Self::Undecodable(undecodable) => Self::Undecodable(undecodable.clone()),
        }
    }
}

/// Written by hand, because a derived `Clone` would require `O: Clone`. The copy of a list shares its objects
/// by reference count.
impl<O> Clone for Replacement<O> {
    fn clone(&self) -> Self {
        Self {
            items: self.items.clone(),
            undecodable: self.undecodable.clone(),
            version: self.version.clone(),
            rewound: self.rewound,
            reread: self.reread,
        }
    }
}

impl<O: Object> fmt::Debug for Change<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Added(object) => write!(f, "Added({} @{})", object.key(), object.resource_version()),
            Self::Updated(object) => write!(f, "Updated({} @{})", object.key(), object.resource_version()),
            Self::Deleted(tombstone) => f.debug_tuple("Deleted").field(tombstone).finish(),
            Self::Replaced(replacement) => f.debug_tuple("Replaced").field(replacement).finish(),
            Self::Resync => f.write_str("Resync"),
            Self::Bookmark(version) => write!(f, "Bookmark(@{version})"),
            Self::Undecodable(undecodable) => undecodable.fmt(f),
        }
    }
}

impl<O: Object> fmt::Debug for Replacement<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Replacement")
            .field("items", &self.items.len())
            .field("undecodable", &self.undecodable.len())
            .field("version", &self.version)
            .field("rewound", &self.rewound)
            .finish()
    }
}

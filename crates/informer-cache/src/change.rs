use std::fmt;
use std::sync::Arc;

use informer_core::{Object, ObjectKey, ResourceVersion, Tombstone};

use crate::Undecodable;
use crate::source::Listed;

/// What a reflector tells a queue.
pub enum Change<O> {
    /// The source reported the object as new.
    Added(Arc<O>),
    /// The source reported the object as changed.
    Updated(Arc<O>),
    /// The source reported the object as gone.
    Deleted(Tombstone<O>),
    /// A complete list: exactly this is there.
    Replaced(Replacement<O>),
    /// Replay what is held to the handlers that asked for it. Local; never a request.
    Resync,
    /// The source has reached this version.
    Bookmark(ResourceVersion),
    /// An object came or changed that could not be read.
    Undecodable(Undecodable),
}

/// A complete list.
pub struct Replacement<O> {
    /// The objects, in the order of the source.
    pub items: Vec<Listed<O>>,
    /// Objects that are there but could not be read: no reason to report them deleted.
    pub undecodable: Vec<Undecodable>,
    /// The version of the list.
    pub version: ResourceVersion,
    /// True where the list is older than what was seen before and is the truth all the same: a consistent read of a
    /// server that was restored. Nothing is skipped as unchanged or too old.
    pub rewound: bool,
    /// True if the list was read in full because another server, or another version of it, answered. Nothing is skipped as
    /// unchanged: that server may write the same state differently.
    pub reread: bool,
}

impl<O: Object> Change<O> {
    /// The key of the object that changed; `None` where the change is not about one object.
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
    /// A list in which everything could be read.
    pub fn new(items: Vec<Listed<O>>, version: impl Into<ResourceVersion>) -> Self {
        Self { items, undecodable: Vec::new(), version: version.into(), rewound: false, reread: false }
    }
}

/// Copies references, no object.
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

/// Copies references, no object.
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

use std::error::Error;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use informer_core::{Object, ObjectKey, Tombstone};

use super::Transform;
use crate::source::Listed;
use crate::{Change, Replacement, Undecodable};

/// The reason for which a [`Transform`] quarantined an object. The error is part of an [`Undecodable`], which
/// also has the object's key and resourceVersion.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TransformError {
    /// The transform returned an error.
    #[error("the transform of {kind} failed")]
    Failed {
        /// The kind of the object, as configured for the queue.
        kind: Arc<str>,
        /// The error that the transform returned.
        source: Box<dyn Error + Send + Sync>,
    },
    /// The transform panicked. The panic is contained, and other objects are processed.
    #[error("the transform of {kind} panicked")]
    Panicked {
        /// The kind of the object, as configured for the queue.
        kind: Arc<str>,
    },
    /// The transform returned an object with another key. A later deletion of the original object would not
    /// find it.
    #[error("the transform of {kind} changed the key to {key}; a transform must keep the key")]
    KeyChanged {
        /// The kind of the object, as configured for the queue.
        kind: Arc<str>,
        /// The key of the object that the transform returned.
        key: ObjectKey,
    },
}

/// A transform of a queue, together with the kind of the objects, which its error messages contain.
pub(super) struct Transformer<O> {
    kind: Arc<str>,
    transform: Transform<O>,
}

impl<O: Object> Transformer<O> {
    pub(super) fn new(kind: impl Into<Arc<str>>, transform: Transform<O>) -> Self {
        Self { kind: kind.into(), transform }
    }

    /// Transforms the objects of a change. Unchanged objects and those of missed deletions are skipped: these
    /// objects come from the store and are already transformed.
    pub(super) fn change(&self, change: Change<O>) -> Change<O> {
        match change {
            Change::Added(object) => self.object(object).map_or_else(Change::Undecodable, Change::Added),
            Change::Updated(object) => self.object(object).map_or_else(Change::Undecodable, Change::Updated),
            Change::Replaced(replacement) => Change::Replaced(self.replacement(replacement)),
            Change::Deleted(tombstone) => Change::Deleted(self.tombstone(tombstone)),
            other @ (Change::Resync | Change::Bookmark(_) | Change::Undecodable(_)) => other,
        }
    }

    /// Transforms the state in an observed deletion, because consumers that receive transformed objects must
    /// also receive the deleted one transformed. If the transform fails, the deletion counts as missed, so
    /// that it is not lost.
    pub(super) fn tombstone(&self, tombstone: Tombstone<O>) -> Tombstone<O> {
        let key = tombstone.key().clone();
        match tombstone.last() {
            Some(last) if !tombstone.stale() => match self.object(Arc::clone(last)) {
                Ok(last) => Tombstone::observed(key, last),
                Err(_) => Tombstone::missed(key, None),
            },
            _ => tombstone,
        }
    }

    fn replacement(&self, mut replacement: Replacement<O>) -> Replacement<O> {
        let mut items = Vec::with_capacity(replacement.items.len());
        for item in replacement.items {
            match item {
                Listed::Known(object) => items.push(Listed::Known(object)),
                Listed::Fresh(object) => match self.object(object) {
                    Ok(object) => items.push(Listed::Fresh(object)),
                    Err(undecodable) => replacement.undecodable.push(undecodable),
                },
            }
        }
        Replacement { items, ..replacement }
    }

    pub(super) fn object(&self, object: Arc<O>) -> Result<Arc<O>, Undecodable> {
        let (key, version) = (object.key().clone(), object.resource_version().clone());
        let uid: Box<str> = object.uid().into();
        self.run(object, &key).map_err(|error| Undecodable::new(Some(key), error).with_version(&uid, version))
    }

    pub(super) fn run(&self, object: Arc<O>, key: &ObjectKey) -> Result<Arc<O>, TransformError> {
        let kind = || Arc::clone(&self.kind);
        // A panic of the transform cannot leave a partly changed value: the transform receives only one
        // shared object, which it cannot change.
        match catch_unwind(AssertUnwindSafe(|| (self.transform)(object))) {
            Ok(Ok(object)) if object.key() == key => Ok(object),
            Ok(Ok(object)) => Err(TransformError::KeyChanged { kind: kind(), key: object.key().clone() }),
            Ok(Err(source)) => Err(TransformError::Failed { kind: kind(), source }),
            Err(_) => Err(TransformError::Panicked { kind: kind() }),
        }
    }
}

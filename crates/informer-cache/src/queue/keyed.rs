use std::sync::Arc;

use informer_core::{KeyError, Object, ObjectKey};

use super::{QueueClosed, TransformError};

/// A function that returns the key of an object, for objects that are not identified by namespace and name.
/// The default is [`Object::key`]. A queue never calls this function under a lock.
pub type KeyFunction<T> = Arc<dyn Fn(&T) -> Result<ObjectKey, KeyError> + Send + Sync + 'static>;

pub(super) fn object_key<O: Object>() -> KeyFunction<O> {
    Arc::new(|object: &O| Ok(object.key().clone()))
}

/// The reason for which an object could not be queued.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EnqueueError {
    /// The queue is closed.
    #[error("an object was not queued: the queue is closed; create a new queue")]
    Closed(#[from] QueueClosed),
    /// The key function of the queue failed for the object.
    #[error("an object was not queued: the key function failed")]
    Key(#[from] KeyError),
    /// The transform of the queue failed for the object.
    #[error("{key} was not queued: the transform failed; fix the transform or let it accept such objects")]
    Transform {
        /// The key of the object that could not be transformed.
        key: ObjectKey,
        /// The error that the transform of the object returned.
        source: TransformError,
    },
}

/// The result of a process function, which decides whether the item is done. The value in it is returned to
/// the caller of `pop_with`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Processed<R> {
    /// The item was processed and is done.
    Done(R),
    /// The item could not be processed and is queued again, behind the queued items. If a newer item was
    /// queued for the key in the meantime, the newer item stays and this one is dropped.
    Requeue(R),
}

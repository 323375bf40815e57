use std::sync::Arc;

use informer_core::{KeyError, Object, ObjectKey};

use super::{QueueClosed, TransformError};

/// How a queue names the objects it is given, for sources whose objects are not told apart by namespace and
/// name. The default is [`Object::key`]. It never runs under a lock.
pub type KeyFunction<T> = Arc<dyn Fn(&T) -> Result<ObjectKey, KeyError> + Send + Sync + 'static>;

pub(super) fn object_key<O: Object>() -> KeyFunction<O> {
    Arc::new(|object: &O| Ok(object.key().clone()))
}

/// Why an object was not queued.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EnqueueError {
    /// The queue is closed.
    #[error("an object was not queued; make a new queue, a closed one does not open again")]
    Closed(#[from] QueueClosed),
    /// The key function failed.
    #[error("an object was not queued, since it has no key")]
    Key(#[from] KeyError),
    /// The transform failed.
    #[error("{key} was not queued; mend the transform or let it pass such objects")]
    Transform {
        /// The object.
        key: ObjectKey,
        /// What went wrong.
        source: TransformError,
    },
}

/// What a process function says of what it was given, with the answer for the caller of the pop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Processed<R> {
    /// It is processed.
    Done(R),
    /// It could not be processed: queue it again, behind what is queued. What was queued for the key
    /// meanwhile is newer and stays newer.
    Requeue(R),
}

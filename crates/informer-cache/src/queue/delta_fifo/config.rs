use std::fmt;
use std::sync::Arc;

use informer_core::Object;

use crate::UndecodableLog;
use crate::queue::keyed::object_key;
use crate::queue::transform::Transformer;
use crate::queue::{KeyFunction, Transform};
use crate::source::KnownObjects;

/// The configuration of a [`DeltaFifo`](super::DeltaFifo). By default, objects have the keys of
/// [`Object::key`], there are no known objects and no transform, and a list is queued as
/// [`Replaced`](super::Delta::Replaced).
pub struct DeltaFifoConfig<O> {
    pub(super) key: KeyFunction<O>,
    pub(super) known: Option<Arc<dyn KnownObjects<O>>>,
    pub(super) transform: Option<Transformer<O>>,
    pub(super) sync_on_replace: bool,
    pub(super) undecodable: UndecodableLog,
}

impl<O: Object> DeltaFifoConfig<O> {
    /// Sets the function that returns the key of an object, instead of [`Object::key`].
    pub fn with_key_function(mut self, key: KeyFunction<O>) -> Self {
        self.key = key;
        self
    }

    /// Sets the view of known objects, which is the store to which the consumer writes popped objects. The
    /// queue uses it to find objects that a list no longer contains, to resync, and to ignore deletions of
    /// unknown objects.
    pub fn with_known_objects(mut self, known: Arc<dyn KnownObjects<O>>) -> Self {
        self.known = Some(known);
        self
    }

    /// Sets a function that transforms objects before they are queued, including those of observed deletions,
    /// but not objects from the known-objects view. Errors contain `kind`.
    pub fn with_transform(mut self, kind: impl Into<Arc<str>>, transform: Transform<O>) -> Self {
        self.transform = Some(Transformer::new(kind, transform));
        self
    }

    /// Makes the queue report the objects of a list as [`Sync`](super::Delta::Sync), like client-go before it
    /// added `Replaced`.
    pub fn with_sync_on_replace(mut self) -> Self {
        self.sync_on_replace = true;
        self
    }

    /// Sets the log of undecodable objects, which records objects of a reflector that cannot be queued.
    pub fn with_undecodable(mut self, log: UndecodableLog) -> Self {
        self.undecodable = log;
        self
    }
}

impl<O: Object> Default for DeltaFifoConfig<O> {
    fn default() -> Self {
        Self {
            key: object_key(),
            known: None,
            transform: None,
            sync_on_replace: false,
            undecodable: UndecodableLog::default(),
        }
    }
}

impl<O> fmt::Debug for DeltaFifoConfig<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeltaFifoConfig")
            .field("known", &self.known.is_some())
            .field("transform", &self.transform.is_some())
            .field("sync_on_replace", &self.sync_on_replace)
            .finish_non_exhaustive()
    }
}

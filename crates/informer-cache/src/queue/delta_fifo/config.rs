use std::fmt;
use std::sync::Arc;

use informer_core::Object;

use crate::UndecodableLog;
use crate::queue::keyed::object_key;
use crate::queue::transform::Transformer;
use crate::queue::{KeyFunction, Transform};
use crate::source::KnownObjects;

/// How a [`DeltaFifo`](super::DeltaFifo) works. The default: keys of [`Object::key`], no known objects, no
/// transform,
/// [`Replaced`](super::Delta::Replaced) for the objects of a list.
pub struct DeltaFifoConfig<O> {
    pub(super) key: KeyFunction<O>,
    pub(super) known: Option<Arc<dyn KnownObjects<O>>>,
    pub(super) transform: Option<Transformer<O>>,
    pub(super) sync_on_replace: bool,
    pub(super) undecodable: UndecodableLog,
}

impl<O: Object> DeltaFifoConfig<O> {
    /// Names objects by this function instead of [`Object::key`].
    pub fn with_key_function(mut self, key: KeyFunction<O>) -> Self {
        self.key = key;
        self
    }

    /// A view of what the consumer holds: the store that it writes the popped objects into. From it come the
    /// deletions of objects that a list no longer has, the resync, and the knowledge which deletions matter.
    pub fn with_known_objects(mut self, known: Arc<dyn KnownObjects<O>>) -> Self {
        self.known = Some(known);
        self
    }

    /// Transforms objects before they are queued; those of observed deletions included, never known ones.
    /// `kind` is named in errors.
    pub fn with_transform(mut self, kind: impl Into<Arc<str>>, transform: Transform<O>) -> Self {
        self.transform = Some(Transformer::new(kind, transform));
        self
    }

    /// Queues the objects of a list as [`Sync`](super::Delta::Sync), as client-go did before it told the two
    /// apart.
    pub fn with_sync_on_replace(mut self) -> Self {
        self.sync_on_replace = true;
        self
    }

    /// Where objects are reported that a reflector hands over and that cannot be queued.
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

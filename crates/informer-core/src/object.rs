use std::borrow::Cow;

use crate::header::NO_GENERATION;
use crate::{FieldPath, Header, Labels, ObjectKey, OwnerReference, ResourceVersion};

/// Anything that an informer can hold.
///
/// Everything between the decoder and the handlers is generic over this trait: the representation of an object is a
/// parameter, not a second code path. One method is required; it must always return the same header.
///
/// Objects are shared as `Arc<O>` and never changed in place.
pub trait Object: Send + Sync + 'static {
    /// What is known without a decode.
    fn header(&self) -> &Header;

    /// Namespace and name.
    fn key(&self) -> &ObjectKey {
        &self.header().key
    }

    /// `metadata.uid`; empty where the source has none. Two objects of one key with two uids are two objects.
    fn uid(&self) -> &str {
        &self.header().uid
    }

    /// `metadata.resourceVersion`.
    fn resource_version(&self) -> &ResourceVersion {
        &self.header().version
    }

    /// `metadata.generation`, where held.
    fn generation(&self) -> Option<i64> {
        Some(self.header().generation).filter(|generation| *generation != NO_GENERATION)
    }

    /// `metadata.deletionTimestamp` as the server wrote it: set while the object waits for its finalizers.
    fn deletion_timestamp(&self) -> Option<&str> {
        self.header().deletion_timestamp.as_deref()
    }

    /// `metadata.labels`.
    fn labels(&self) -> &Labels {
        &self.header().labels
    }

    /// `metadata.ownerReferences`.
    fn owners(&self) -> &[OwnerReference] {
        &self.header().owners
    }

    /// The owner that manages this object.
    fn controller(&self) -> Option<&OwnerReference> {
        self.owners().iter().find(|owner| owner.is_controller())
    }

    /// One annotation, where the representation holds them.
    fn annotation(&self, name: &str) -> Option<Cow<'_, str>> {
        let _ = name;
        None
    }

    /// `metadata.annotations`, where the representation holds them; empty otherwise. A lazy object scans its text for them.
    fn annotations(&self) -> Cow<'_, Labels> {
        Cow::Owned(Labels::default())
    }

    /// The scalar at `path` as text (`spec.nodeName`): a string as it is, numbers and booleans as JSON writes them.
    /// `None` where the field is absent, null, a list or an object. Representations that hold a body read it there,
    /// without a full decode; the default knows the name and the namespace.
    fn field(&self, path: &FieldPath) -> Option<Cow<'_, str>> {
        self.header().field(path)
    }

    /// Returns true if this object lacks fields that the server has: a newer server encoded them as protobuf
    /// fields with unknown numbers. A complete object of the same version replaces a partial one.
    fn is_partial(&self) -> bool {
        false
    }

    /// Bytes that this object holds, roughly: the figure behind "memory per object" in states and metrics.
    fn held_bytes(&self) -> usize {
        self.header().held_bytes()
    }
}

impl Header {
    /// `metadata.name`, `metadata.namespace`, `metadata.uid` and `metadata.resourceVersion` as field paths. What the object does not
    /// have is `None`, as in every form of objects.
    pub fn field(&self, path: &FieldPath) -> Option<Cow<'_, str>> {
        match path.as_str() {
            "metadata.name" => Some(self.key.name().into()),
            "metadata.namespace" => Some(self.key.namespace()?.into()),
            "metadata.uid" => (!self.uid.is_empty()).then(|| (&*self.uid).into()),
            "metadata.resourceVersion" => (!self.version.is_empty()).then(|| self.version.to_string().into()),
            _ => None,
        }
    }
}

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use informer_core::{FieldPath, Header, Labels, Object};
use kube_core::DynamicObject;

use super::{DecodeError, Origin, RawObject, Representation};
use crate::memory::Charge;
use crate::{ResourceKind, StaticKind, StaticResource};

/// The metadata of an object. The server sends no other fields of the object.
///
/// The smallest representation, for controllers that need only the existence of an object, its labels,
/// annotations, owners and finalizers, and its deletion.
pub struct Metadata<K = DynamicObject> {
    header: Header,
    annotations: Labels,
    finalizers: Box<[Box<str>]>,
    creation_timestamp: Option<Box<str>>,
    _charge: Option<Box<Charge>>,
    kind: PhantomData<fn() -> K>,
}

impl<K> Metadata<K> {
    /// Returns `metadata.annotations`.
    pub fn annotations(&self) -> &Labels {
        &self.annotations
    }

    /// Returns `metadata.finalizers`.
    pub fn finalizers(&self) -> impl ExactSizeIterator<Item = &str> {
        self.finalizers.iter().map(|finalizer| &**finalizer)
    }

    /// Returns `metadata.creationTimestamp` as a string, as the server sent it.
    pub fn creation_timestamp(&self) -> Option<&str> {
        self.creation_timestamp.as_deref()
    }
}

impl<K: 'static> Representation for Metadata<K> {
    const METADATA_ONLY: bool = true;

    fn takes_protobuf() -> bool {
        true
    }

    fn decode(raw: RawObject<'_>) -> Result<Self, DecodeError> {
        let origin = Arc::clone(raw.origin());
        let mut decoded = Self {
            annotations: shared(raw.annotations()?, &origin),
            finalizers: raw.finalizers()?,
            creation_timestamp: raw.creation_timestamp()?,
            header: raw.into_header(),
            _charge: None,
            kind: PhantomData,
        };
        decoded._charge = origin.charge(decoded.held_bytes());
        Ok(decoded)
    }
}

/// Returns equal annotations of an earlier object, if there are any, to save memory: the objects of a
/// workload mostly have equal annotations. Annotations of Secrets are not shared, because
/// `last-applied-configuration` contains the data of a Secret, and the interner would keep it in memory after
/// the Secret is deleted.
fn shared(annotations: Labels, origin: &Origin) -> Labels {
    match origin.interner() {
        Some(interner) if !origin.is_of_secrets() => interner.annotations(annotations),
        _ => annotations,
    }
}

impl<K: 'static> Object for Metadata<K> {
    fn header(&self) -> &Header {
        &self.header
    }

    fn annotation(&self, name: &str) -> Option<Cow<'_, str>> {
        self.annotations.get(name).map(Cow::Borrowed)
    }

    fn annotations(&self) -> Cow<'_, Labels> {
        Cow::Borrowed(&self.annotations)
    }

    fn metadata_finalizers(&self) -> &[Box<str>] {
        &self.finalizers
    }

    /// Returns a field of `metadata`; returns `None` for any other field, because the server did not send it.
    fn field(&self, path: &FieldPath) -> Option<Cow<'_, str>> {
        let segments: Vec<&str> = path.segments().collect();
        match segments.as_slice() {
            ["metadata", "annotations", name] => self.annotation(name),
            ["metadata", "labels", name] => self.labels().get(name).map(Cow::Borrowed),
            ["metadata", "creationTimestamp"] => self.creation_timestamp().map(Cow::Borrowed),
            ["metadata", "deletionTimestamp"] => self.deletion_timestamp().map(Cow::Borrowed),
            ["metadata", "generation"] => self.generation().map(|number| number.to_string().into()),
            _ => self.header.field(path),
        }
    }

    fn held_bytes(&self) -> usize {
        let finalizers: usize =
            self.finalizers().map(|finalizer| finalizer.len() + size_of::<Box<str>>()).sum();
        size_of::<Self>() + self.header.held_bytes() + self.annotations.held_bytes() + finalizers
    }
}

#[diagnostic::do_not_recommend]
impl<K: StaticResource + 'static> StaticKind for Metadata<K> {
    fn resource_kind() -> ResourceKind {
        ResourceKind::of::<K>()
    }
}

impl<K> fmt::Debug for Metadata<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        super::fmt_header(f, "Metadata", &self.header)
    }
}

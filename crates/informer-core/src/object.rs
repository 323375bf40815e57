use std::any::Any;
use std::borrow::Cow;
use std::sync::Arc;

use crate::header::NO_GENERATION;
use crate::{FieldPath, Header, Labels, ObjectKey, OwnerReference, ResourceVersion};

/// An object that an informer can cache.
///
/// All code between the decoder and the handlers is generic over this trait, so the same code handles every
/// representation. Only [`header`](Self::header) is required; it must always return the same header.
///
/// Objects are shared as `Arc<O>` and never modified in place.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an object that an informer can cache",
    label = "not a representation of an object",
    note = "a cache stores a representation of a kind: for `Pod`, write `Lazy<Pod>`, `Typed<Pod>` or \
            `Metadata<Pod>`"
)]
pub trait Object: Any + Send + Sync {
    /// Returns the metadata that needs no decoding.
    fn header(&self) -> &Header;

    /// Returns namespace and name of the object.
    fn key(&self) -> &ObjectKey {
        &self.header().key
    }

    /// Returns `metadata.uid`; empty if the source has none. Objects with equal keys and different UIDs are
    /// different objects.
    fn uid(&self) -> &str {
        &self.header().uid
    }

    /// Returns `metadata.resourceVersion`.
    fn resource_version(&self) -> &ResourceVersion {
        &self.header().version
    }

    /// Returns `metadata.generation`, if it is known.
    fn generation(&self) -> Option<i64> {
        Some(self.header().generation).filter(|generation| *generation != NO_GENERATION)
    }

    /// Returns `metadata.deletionTimestamp` as the server wrote it. It is set while the object waits for its
    /// finalizers.
    fn deletion_timestamp(&self) -> Option<&str> {
        self.header().deletion_timestamp.as_deref()
    }

    /// Returns `metadata.labels`.
    fn labels(&self) -> &Labels {
        &self.header().labels
    }

    /// Returns `metadata.ownerReferences`.
    fn owners(&self) -> &[OwnerReference] {
        &self.header().owners
    }

    /// Returns the owner reference with `controller: true`.
    fn controller(&self) -> Option<&OwnerReference> {
        self.owners().iter().find(|owner| owner.is_controller())
    }

    /// Returns one annotation, if this representation contains annotations. The default implementation reads
    /// it from [`annotations`](Self::annotations).
    fn annotation(&self, name: &str) -> Option<Cow<'_, str>> {
        match self.annotations() {
            Cow::Borrowed(all) => all.get(name).map(Cow::Borrowed),
            Cow::Owned(all) => all.get(name).map(|value| Cow::Owned(value.to_owned())),
        }
    }

    /// Returns `metadata.annotations`, if this representation contains them; otherwise no annotations. A lazy
    /// object scans its bytes for them.
    fn annotations(&self) -> Cow<'_, Labels> {
        Cow::Owned(Labels::default())
    }

    /// Returns the scalar at `path` (such as `spec.nodeName`) as a string: a string unchanged, a number or
    /// boolean as in JSON. Returns `None` if the field is absent, null, a list or an object. Representations
    /// that contain a body read the field from it without a full decode. The default implementation supports
    /// only name, namespace, UID and resourceVersion.
    fn field(&self, path: &FieldPath) -> Option<Cow<'_, str>> {
        self.header().field(path)
    }

    /// Returns the object as JSON text, if this representation contains a body that can be read. A body in
    /// another encoding is converted at each call, which costs as much as decoding it.
    fn json(&self) -> Option<Cow<'_, str>> {
        None
    }

    /// Returns the object as JSON text like [`json`](Self::json), and adds `apiVersion` and `kind` if the API
    /// server omitted them, as it does in lists of built-in kinds. The default implementation returns
    /// [`json`](Self::json), for representations that do not know their kind.
    fn typed_json(&self) -> Option<Cow<'_, str>> {
        self.json()
    }

    /// Returns `metadata.finalizers`, if this representation contains them and has no [`json`](Self::json);
    /// otherwise none.
    fn metadata_finalizers(&self) -> &[Box<str>] {
        &[]
    }

    /// Returns true if this object lacks fields that the server has: a newer server encoded them as protobuf
    /// fields with unknown numbers. A complete object of the same version replaces a partial one.
    fn is_partial(&self) -> bool {
        false
    }

    /// Returns the approximate memory of this object in bytes, which metrics report as memory per object.
    fn held_bytes(&self) -> usize {
        self.header().held_bytes()
    }
}

impl dyn Object {
    /// Returns the object as its type; `None` if it has another type.
    ///
    /// ```
    /// use informer_core::{Header, Object, ObjectKey};
    ///
    /// let object: &dyn Object = &Header::new(ObjectKey::new("default", "web")?);
    /// assert!(object.downcast_ref::<Header>().is_some());
    /// # Ok::<(), informer_core::ParseKeyError>(())
    /// ```
    pub fn downcast_ref<O: Object>(&self) -> Option<&O> {
        let any: &dyn Any = self;
        any.downcast_ref()
    }

    /// Returns a shared object as its type, without a copy.
    ///
    /// # Errors
    ///
    /// Returns the object unchanged if it has another type.
    pub fn downcast<O: Object>(self: Arc<Self>) -> Result<Arc<O>, Arc<Self>> {
        if self.downcast_ref::<O>().is_none() {
            return Err(self);
        }
        let any: Arc<dyn Any + Send + Sync> = self;
        Ok(any.downcast().expect("the type was compared above"))
    }
}

impl Header {
    /// Returns the value of `metadata.name`, `metadata.namespace`, `metadata.uid` or
    /// `metadata.resourceVersion`. Returns `None` if the value is empty, and for every other path.
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

impl Object for Header {
    fn header(&self) -> &Header {
        self
    }

    fn held_bytes(&self) -> usize {
        Header::held_bytes(self)
    }
}

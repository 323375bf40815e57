//! The lazy representation: header and bytes, decoded on first typed access.
//!
//! The bytes never change, so every typed view of one object is equal to every other.

use std::any::TypeId;
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use informer_core::{FieldPath, Header, Labels, Object};
use kube_core::{DynamicObject, Resource};
use serde::de::DeserializeOwned;

use super::body::{Body, OwnBytes};
use super::held_view::HeldView;
use super::stored::{ReadBody, Stored};
use super::{DecodeError, Encoding, Origin, RawObject, Representation};
use crate::{ResourceKind, StaticKind, StaticResource};

/// An object as header and bytes, decoded on typed access.
///
/// The default representation of caches. Its memory is that of the bytes: protobuf for built-in kinds if the
/// server supports it, JSON otherwise. Key, labels, owners and versions are read without decoding,
/// [`field`](Object::field) and [`annotation`](Object::annotation) by a scan of the bytes. Only
/// [`json`](Self::json) and [`encoding`](Self::encoding) expose the encoding.
///
/// [`get`](Self::get) decodes. While a caller holds the result, other calls return the same one; afterwards
/// the next access decodes again, unless views are cached:
/// [`ReadOptions::view_bytes`](crate::ReadOptions::view_bytes).
///
/// A [memory budget](crate::MemoryBudget) compresses the bytes. If they cannot be decompressed, which a lack
/// of memory, corrupted memory or a defect of this crate can cause, [`get`](Self::get) and
/// [`json`](Self::json) return an error. Methods without an error, such as [`field`](Object::field),
/// [`annotation`](Object::annotation) and [`annotations`](Object::annotations), then return nothing. In both
/// cases the object is reported to its informer as undecodable, which logs and counts it.
///
/// ```
/// use informer_client::Lazy;
/// use informer_core::Object;
/// use k8s_openapi::api::core::v1::Pod;
///
/// let pod = Lazy::<Pod>::from_json(
///     r#"{"metadata":{"name":"web","namespace":"default","labels":{"app":"web"}},"spec":{"nodeName":"n1","containers":[]}}"#,
/// )?;
/// assert_eq!(pod.key().as_str(), "default/web");
/// assert_eq!(pod.field(&"spec.nodeName".parse()?).as_deref(), Some("n1"));
/// assert_eq!(pod.get()?.spec.as_ref().unwrap().node_name.as_deref(), Some("n1"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Lazy<K> {
    header: Header,
    pub(super) body: Stored,
    view: HeldView<K>,
    origin: Arc<Origin>,
}

impl<K: DeserializeOwned + Send + Sync + 'static> Lazy<K> {
    /// Returns the typed object.
    ///
    /// # Errors
    ///
    /// When the object does not fit the type. The error names the field. The first failure of each
    /// resourceVersion is also reported to the informer of the object, which counts it.
    pub fn get(&self) -> Result<Arc<K>, DecodeError> {
        self.view.get(&self.body, &self.origin, &self.header)
    }
}

impl<K> Lazy<K> {
    /// Returns the object as JSON, without the pruned fields: the received JSON, or the JSON that the server
    /// would have sent instead of protobuf. Items of a list of a built-in kind have neither `apiVersion` nor
    /// `kind`. A [partial](Object::is_partial) object lacks the fields that the built-in schema does not
    /// contain; the informer then reads the kind again as JSON. Labels, annotations and owners come first in
    /// the metadata if they are shared with other objects.
    ///
    /// # Errors
    ///
    /// When the object was received as invalid protobuf.
    pub fn json(&self) -> Result<Cow<'_, str>, DecodeError> {
        self.body.json(&self.origin, &self.header)
    }

    /// Returns the bytes of the object without the pruned fields: JSON, or a protobuf message without
    /// envelope. The bytes are assembled on each call if a part of the object is shared with other objects,
    /// or if the object is compressed.
    pub fn raw(&self) -> Cow<'_, [u8]> {
        self.body.read(&self.origin, &self.header, |body| Some(body.bytes())).unwrap_or_default()
    }

    /// Returns the encoding in which the object was received, which is the encoding of [`raw`](Self::raw).
    pub fn encoding(&self) -> Encoding {
        self.body.encoding()
    }

    /// Returns the object as JSON, always with `apiVersion` and `kind`.
    pub(super) fn typed_json(&self) -> Result<Cow<'_, str>, DecodeError> {
        self.body.typed_json(&self.origin, &self.header)
    }

    pub(super) fn kind(&self) -> &ResourceKind {
        self.origin.kind()
    }

    /// Creates an object of `origin`, which compresses the body if its memory budget demands it.
    pub(super) fn of_body(header: Header, body: Body, origin: Arc<Origin>) -> Self {
        Self::new(header, Stored::new(body, &origin), origin)
    }

    fn new(header: Header, body: Stored, origin: Arc<Origin>) -> Self {
        let object = Self { header, body, view: HeldView::default(), origin };
        if let Some(memory) = object.origin.memory() {
            memory.charge(object.size());
        }
        object
    }

    fn size(&self) -> usize {
        size_of::<Self>() + self.header.held_bytes() + self.body.len()
    }
}

impl<K: Resource<DynamicType = ()> + Send + Sync + 'static> Lazy<K> {
    /// Creates an object from its JSON text, without pruning.
    ///
    /// # Errors
    ///
    /// Returns an error if the text is not JSON or the header of the object is invalid.
    pub fn from_json(text: &str) -> Result<Self, crate::HeaderError> {
        Self::from_json_of(ResourceKind::of::<K>(), text)
    }
}

impl<K: Send + Sync + 'static> Lazy<K> {
    /// Creates an object of a kind from its JSON text, without pruning, for value types that have no kind,
    /// such as `serde_json::Value`.
    ///
    /// # Errors
    ///
    /// Returns an error if the text is not JSON or the header of the object is invalid.
    pub fn from_json_of(kind: ResourceKind, text: &str) -> Result<Self, crate::HeaderError> {
        let mut raw = crate::header::RawHeader::default();
        raw.scan(crate::scan::Cursor::new(text))?;
        let header = raw.build(text)?;
        let origin = Arc::new(Origin::new(kind, informer_cache::UndecodableLog::default()));
        let body = Body::new(OwnBytes::json(text.into(), raw.has_type()), None);
        Ok(Self::new(header, Stored::Plain(body), origin))
    }
}

impl<K: Send + Sync + 'static> Representation for Lazy<K> {
    /// Returns true if objects can be received as protobuf. The result is false for the value types `Value`
    /// and `DynamicObject`: decoded from protobuf, they would lack fields that the server knows and the
    /// built-in schema does not. Any other type has a fixed set of fields and ignores unknown ones anyway.
    fn takes_protobuf() -> bool {
        let of = TypeId::of::<K>();
        of != TypeId::of::<DynamicObject>() && of != TypeId::of::<serde_json::Value>()
    }

    fn decode(raw: RawObject<'_>) -> Result<Self, DecodeError> {
        let (body, origin) = (raw.body()?, Arc::clone(raw.origin));
        Ok(Self::of_body(raw.header, body, origin))
    }

    fn into_partial(self: Arc<Self>) -> Arc<Self> {
        if self.is_partial() {
            return self;
        }
        let (header, body) = (self.header.clone(), self.body.clone());
        let origin = Arc::new(self.origin.of_partial());
        Arc::new(Self::new(header, body, origin))
    }
}

impl<K: Send + Sync + 'static> Object for Lazy<K> {
    fn header(&self) -> &Header {
        &self.header
    }

    fn annotation(&self, name: &str) -> Option<Cow<'_, str>> {
        self.body.read(&self.origin, &self.header, |body| body.annotation(name, &self.origin))
    }

    fn annotations(&self) -> Cow<'_, Labels> {
        Cow::Owned(self.body.annotations(&self.origin, &self.header))
    }

    fn field(&self, path: &FieldPath) -> Option<Cow<'_, str>> {
        if let known @ Some(_) = self.header.field(path) {
            return known;
        }
        self.body.read(&self.origin, &self.header, |body| body.field(path, &self.origin))
    }

    fn json(&self) -> Option<Cow<'_, str>> {
        Self::json(self).ok()
    }

    fn typed_json(&self) -> Option<Cow<'_, str>> {
        Self::typed_json(self).ok()
    }

    fn is_partial(&self) -> bool {
        let is_partial = self.body.is_partial(&self.origin, &self.header);
        if is_partial {
            self.origin.note_unknown_fields();
        }
        is_partial
    }

    fn held_bytes(&self) -> usize {
        self.size()
    }
}

impl<K> Drop for Lazy<K> {
    fn drop(&mut self) {
        if let Some(memory) = self.origin.memory() {
            memory.release(self.size());
        }
    }
}

#[diagnostic::do_not_recommend]
impl<K: StaticResource + 'static> StaticKind for Lazy<K> {
    fn resource_kind() -> ResourceKind {
        ResourceKind::of::<K>()
    }
}

impl<K> fmt::Debug for Lazy<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        super::fmt_header(f, "Lazy", &self.header)
    }
}

//! The packed representation: header and compressed bytes.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use informer_core::{FieldPath, Header, Labels, Object};
use serde::de::DeserializeOwned;

use super::held_view::HeldView;
use super::stored::{PackedBody, ReadBody};
use super::{DecodeError, Encoding, Lazy, Origin, RawObject, Representation};
use crate::{ResourceKind, StaticKind, StaticResource};

/// An object as header and compressed bytes, decoded on typed access.
///
/// This representation takes a fraction of the memory of [`Lazy`]: the bytes are compressed with a dictionary
/// that is trained on the first objects of the informer, and again when new objects no longer resemble those.
/// Secrets are compressed without a dictionary. Key, labels, owners and versions cost nothing;
/// [`field`](Object::field), [`annotation`](Object::annotation) and [`get`](Self::get) decompress first,
/// which takes a microsecond or two. [`Lazy`] describes what happens if the bytes cannot be decompressed.
///
/// Needs the feature `packed`.
pub struct Packed<K> {
    header: Header,
    pub(super) body: PackedBody,
    view: HeldView<K>,
    origin: Arc<Origin>,
}

impl<K: DeserializeOwned + Send + Sync + 'static> Packed<K> {
    /// Returns the typed object. The object is decoded, unless a caller still holds the result of an earlier
    /// call.
    ///
    /// # Errors
    ///
    /// See [`Lazy::get`].
    pub fn get(&self) -> Result<Arc<K>, DecodeError> {
        self.view.get(&self.body, &self.origin, &self.header)
    }
}

impl<K> Packed<K> {
    /// Returns the object as JSON; see [`Lazy::json`].
    ///
    /// # Errors
    ///
    /// When the object was received as invalid protobuf.
    pub fn json(&self) -> Result<String, DecodeError> {
        self.body.json(&self.origin, &self.header)
    }

    /// Returns the encoding in which the object was received, which is also the encoding of the uncompressed
    /// bytes.
    pub fn encoding(&self) -> Encoding {
        self.body.encoding()
    }

    fn size(&self) -> usize {
        size_of::<Self>() + self.header.held_bytes() + self.body.len()
    }
}

impl<K> Drop for Packed<K> {
    fn drop(&mut self) {
        if let Some(memory) = self.origin.memory() {
            memory.release(self.size());
        }
    }
}

impl<K: Send + Sync + 'static> Representation for Packed<K> {
    fn takes_protobuf() -> bool {
        Lazy::<K>::takes_protobuf()
    }

    fn decode(raw: RawObject<'_>) -> Result<Self, DecodeError> {
        let (body, origin) = (raw.body()?, Arc::clone(raw.origin()));
        let body = PackedBody::new(&body, &origin).map_err(|error| raw.error(error.to_string()))?;
        let object = Self { header: raw.header, body, view: HeldView::default(), origin };
        if let Some(memory) = object.origin.memory() {
            memory.charge(object.size());
        }
        Ok(object)
    }
}

impl<K: Send + Sync + 'static> Object for Packed<K> {
    fn header(&self) -> &Header {
        &self.header
    }

    fn annotation(&self, name: &str) -> Option<Cow<'_, str>> {
        self.body.read(&self.origin, &self.header, |body| body.annotation(name, &self.origin)).map(Cow::Owned)
    }

    fn annotations(&self) -> Cow<'_, Labels> {
        Cow::Owned(self.body.annotations(&self.origin, &self.header))
    }

    fn field(&self, path: &FieldPath) -> Option<Cow<'_, str>> {
        if let known @ Some(_) = self.header.field(path) {
            return known;
        }
        self.body.read(&self.origin, &self.header, |body| body.field(path, &self.origin)).map(Cow::Owned)
    }

    fn json(&self) -> Option<Cow<'_, str>> {
        Self::json(self).ok().map(Cow::Owned)
    }

    fn typed_json(&self) -> Option<Cow<'_, str>> {
        self.body.typed_json(&self.origin, &self.header).ok().map(Cow::Owned)
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

#[diagnostic::do_not_recommend]
impl<K: StaticResource + 'static> StaticKind for Packed<K> {
    fn resource_kind() -> ResourceKind {
        ResourceKind::of::<K>()
    }
}

impl<K> fmt::Debug for Packed<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        super::fmt_header(f, "Packed", &self.header)
    }
}

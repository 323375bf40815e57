//! The packed representation: header and compressed bytes.
//!
//! # Lock order
//!
//! `view` is the only lock. While `view` is locked, no object is decompressed or decoded, and no view is
//! added to the view cache.

use std::borrow::Cow;
use std::fmt;
use std::sync::{Arc, Weak};

use informer_core::{FieldPath, Header, Labels, Object};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;

use super::body::BodyRef;
use super::packing;
use super::template::Template;
use super::{DecodeError, Encoding, Lazy, Origin, RawObject, Representation};
use crate::{ResourceKind, StaticKind, StaticResource};

/// An object as header and compressed bytes, decoded on typed access.
///
/// This representation takes a fraction of the memory of [`Lazy`]: the bytes are compressed with a dictionary
/// that is trained on the first objects of the informer, and again when new objects no longer resemble those.
/// Secrets are compressed without a dictionary. Key, labels, owners and versions cost nothing;
/// [`field`](Object::field), [`annotation`](Object::annotation) and [`get`](Self::get) decompress first,
/// which takes a microsecond or two.
///
/// Needs the feature `packed`.
pub struct Packed<K> {
    header: Header,
    packed: packing::PackedBytes,
    common: Option<Arc<Template>>,
    view: Mutex<Weak<K>>,
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
        if let Some(view) = self.view.lock().upgrade() {
            return Ok(view);
        }
        self.decoded().inspect_err(|error| self.origin.report(&self.header, error))
    }

    fn decoded(&self) -> Result<Arc<K>, DecodeError> {
        let bytes = self.unpacked()?;
        let body = self.body(&bytes)?;
        let decoded = Arc::new(body.decode(&self.origin, &self.header)?);
        let mut view = self.view.lock();
        if let Some(first) = view.upgrade() {
            return Ok(first);
        }
        *view = Arc::downgrade(&decoded);
        drop(view);
        self.origin.keep(&decoded, body);
        Ok(decoded)
    }
}

impl<K> Packed<K> {
    /// Returns the object as JSON; see [`Lazy::json`].
    ///
    /// # Errors
    ///
    /// When the object was received as invalid protobuf.
    pub fn json(&self) -> Result<String, DecodeError> {
        let bytes = self.unpacked()?;
        let body = self.body(&bytes)?;
        if body.is_partial(&self.origin) {
            self.origin.require_json();
        }
        body.json(&self.origin, &self.header).map(Cow::into_owned)
    }

    /// Returns the encoding in which the object was received, which is also the encoding of the uncompressed
    /// bytes.
    pub fn encoding(&self) -> Encoding {
        self.packed.format().encoding()
    }

    fn size(&self) -> usize {
        let common = self.common.as_deref().map_or(0, Template::len);
        size_of::<Self>() + self.header.held_bytes() + self.packed.held_bytes() + common
    }

    fn unpacked(&self) -> Result<Vec<u8>, DecodeError> {
        self.origin.packing().unpack(&self.packed).map_err(|error| self.failed(&error))
    }

    fn body<'a>(&'a self, bytes: &'a [u8]) -> Result<BodyRef<'a>, DecodeError> {
        let body = BodyRef::new(self.packed.format(), bytes, self.common.as_deref());
        body.ok_or_else(|| self.failed("text that is not UTF-8"))
    }

    fn failed(&self, problem: impl ToString) -> DecodeError {
        DecodeError::new(self.origin.kind(), &self.header, "", problem.to_string())
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
        let packed = origin.packing().pack(origin.kind(), body.borrow().own());
        let packed = packed.map_err(|error| raw.error(error.to_string()))?;
        let common = body.into_common();
        let object = Self { header: raw.header, packed, common, view: Mutex::new(Weak::new()), origin };
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
        let bytes = self.unpacked().ok()?;
        let found = self.body(&bytes).ok()?.annotation(name, &self.origin)?;
        Some(Cow::Owned(found.into_owned()))
    }

    fn annotations(&self) -> Cow<'_, Labels> {
        let unpacked = self.unpacked();
        let body = unpacked.as_ref().ok().and_then(|bytes| self.body(bytes).ok());
        Cow::Owned(body.map(BodyRef::annotations).unwrap_or_default())
    }

    fn field(&self, path: &FieldPath) -> Option<Cow<'_, str>> {
        if let known @ Some(_) = self.header.field(path) {
            return known;
        }
        let bytes = self.unpacked().ok()?;
        let found = self.body(&bytes).ok()?.field(path, &self.origin)?;
        Some(Cow::Owned(found.into_owned()))
    }

    fn is_partial(&self) -> bool {
        if self.encoding() == Encoding::Json {
            return false;
        }
        let unpacked = self.unpacked();
        let body = unpacked.as_ref().ok().and_then(|bytes| self.body(bytes).ok());
        let is_partial = body.is_none_or(|body| body.is_partial(&self.origin));
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

//! The lazy object: header and bytes, typed on first access.
//!
//! # Invariants
//!
//! 1. The bytes never change, so every typed view of one object is equal to every other.
//! 2. `view` points to a view that somebody holds, or to none: it keeps nothing alive. Where views are kept,
//!    the source keeps them.
//!
//! # Lock order
//!
//! `view` only. Neither decoding, which runs code of the type, nor keeping a view, which takes another lock,
//! happens under it.

use std::any::TypeId;
use std::borrow::Cow;
use std::fmt;
use std::sync::{Arc, Weak};

use informer_core::{FieldPath, Header, Labels, Object};
use kube_core::{DynamicObject, Resource};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;

use super::body::{Body, Own};
use super::{DecodeError, Encoding, Origin, RawObject, Representation};
use crate::{ResourceKind, StaticKind};

/// An object as header and bytes, typed when it is asked for.
///
/// The form that caches hold by default: what it costs is the bytes themselves, protobuf for built-in kinds
/// where the server speaks it, JSON elsewhere. Key, labels, owners and versions are read without a decode,
/// [`field`](Object::field) and
/// [`annotation`](Object::annotation) by a scan of the bytes. Nothing but [`json`](Self::json) and
/// [`encoding`](Self::encoding) tells the encodings apart.
///
/// [`get`](Self::get) decodes. As long as somebody holds the result, others get the same one; afterwards it is
/// forgotten, and the next access decodes again, unless views are kept:
/// [`ReadOptions::view_bytes`](crate::ReadOptions::view_bytes).
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
    pub(super) body: Body,
    view: Mutex<Weak<K>>,
    origin: Arc<Origin>,
}

impl<K: DeserializeOwned + Send + Sync + 'static> Lazy<K> {
    /// Returns the typed object.
    ///
    /// # Errors
    ///
    /// When the object does not fit the type. The error names the field; the first failure of each version is
    /// also reported to the informer that the object comes from, and counted there.
    pub fn get(&self) -> Result<Arc<K>, DecodeError> {
        if let Some(view) = self.view.lock().upgrade() {
            return Ok(view);
        }
        let decoded = self.body.borrow().decode(&self.origin, &self.header);
        let decoded = Arc::new(decoded.inspect_err(|error| self.origin.report(&self.header, error))?);
        let mut view = self.view.lock();
        if let Some(first) = view.upgrade() {
            return Ok(first);
        }
        *view = Arc::downgrade(&decoded);
        drop(view);
        self.origin.keep(&decoded, self.body.borrow());
        Ok(decoded)
    }
}

impl<K> Lazy<K> {
    /// The object as JSON, without what was pruned: the text that came, or what the server would have sent
    /// instead of protobuf. Items of a list of a built-in kind carry neither `apiVersion` nor `kind`. A
    /// [partial](Object::is_partial) object lacks what the table does not know; the informer then reads the
    /// kind again as JSON. Labels, annotations and owners come first in the metadata where they are held with
    /// other objects.
    ///
    /// # Errors
    ///
    /// When the object came as protobuf that cannot be read.
    pub fn json(&self) -> Result<Cow<'_, str>, DecodeError> {
        if self.body.borrow().is_partial(&self.origin) {
            self.origin.require_json();
        }
        self.body.borrow().json(&self.origin, &self.header)
    }

    /// Returns the bytes, without what was pruned: a text, or a protobuf message without envelope. They are
    /// put together where other objects have a part of them, too.
    pub fn raw(&self) -> Cow<'_, [u8]> {
        self.body.borrow().bytes()
    }

    /// How [`raw`](Self::raw) is written: as the object came.
    pub fn encoding(&self) -> Encoding {
        self.body.borrow().encoding()
    }
}

impl<K: Resource<DynamicType = ()> + Send + Sync + 'static> Lazy<K> {
    /// Returns an object from its JSON text, without pruning.
    ///
    /// # Errors
    ///
    /// When the text is not JSON, or the header in it cannot be read.
    pub fn from_json(text: &str) -> Result<Self, crate::HeaderError> {
        let mut raw = crate::header::RawHeader::default();
        raw.scan(crate::scan::Cursor::new(text))?;
        let header = raw.build(text)?;
        let origin =
            Arc::new(Origin::new(ResourceKind::of::<K>(), informer_cache::UndecodableLog::default()));
        let body = Body::new(Own::json(text.into(), raw.has_type()), None);
        Ok(Self { header, body, view: Mutex::new(Weak::new()), origin })
    }
}

impl<K: Send + Sync + 'static> Representation for Lazy<K> {
    /// Trees of values would miss fields that the server knows and the table of this library does not; they
    /// are read from JSON. Types drop such fields in any case.
    fn takes_protobuf() -> bool {
        let of = TypeId::of::<K>();
        of != TypeId::of::<DynamicObject>() && of != TypeId::of::<serde_json::Value>()
    }

    fn decode(raw: RawObject<'_>) -> Result<Self, DecodeError> {
        let (body, origin) = (raw.body()?, Arc::clone(raw.origin));
        Ok(Self { header: raw.header, body, view: Mutex::new(Weak::new()), origin })
    }

    fn into_partial(self: Arc<Self>) -> Arc<Self> {
        if self.is_partial() {
            return self;
        }
        let (header, body) = (self.header.clone(), self.body.clone());
        let origin = Arc::new(self.origin.of_partial());
        Arc::new(Self { header, body, view: Mutex::new(Weak::new()), origin })
    }
}

impl<K: Send + Sync + 'static> Object for Lazy<K> {
    fn header(&self) -> &Header {
        &self.header
    }

    fn annotation(&self, name: &str) -> Option<Cow<'_, str>> {
        self.body.borrow().annotation(name, &self.origin)
    }

    fn annotations(&self) -> Cow<'_, Labels> {
        Cow::Owned(self.body.borrow().annotations())
    }

    fn field(&self, path: &FieldPath) -> Option<Cow<'_, str>> {
        self.body.borrow().field(path, &self.origin)
    }

    fn is_partial(&self) -> bool {
        let is_partial = self.body.borrow().is_partial(&self.origin);
        if is_partial {
            self.origin.note_unknown_fields();
        }
        is_partial
    }

    fn held_bytes(&self) -> usize {
        size_of::<Self>() + self.header.held_bytes() + self.body.borrow().len()
    }
}

impl<K: Resource<DynamicType = ()> + 'static> StaticKind for Lazy<K> {
    fn resource_kind() -> ResourceKind {
        ResourceKind::of::<K>()
    }
}

impl<K> fmt::Debug for Lazy<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        super::fmt_header(f, "Lazy", &self.header)
    }
}

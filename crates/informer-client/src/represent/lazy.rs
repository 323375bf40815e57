//! The lazy object: header and text, typed on first access.
//!
//! # Invariants
//!
//! 1. The text never changes, so every typed view of one object is equal to every other.
//! 2. `view` points to a view that somebody holds, or to none: it keeps nothing alive.
//!
//! # Lock order
//!
//! `view` only. Decoding, which runs code of the type, never happens under it.

use std::borrow::Cow;
use std::fmt;
use std::sync::{Arc, Weak};

use informer_cache::Undecodable;
use informer_core::{FieldPath, Header, Labels, Object};
use kube_core::Resource;
use parking_lot::Mutex;
use serde::de::DeserializeOwned;

use super::decode_error::decode;
use super::{DecodeError, Origin, RawObject, Representation};
use crate::{ResourceKind, StaticKind, fields};

/// An object as header and text, typed when it is asked for.
///
/// The form that caches hold by default: what it costs is the text itself. Key, labels, owners and versions are read
/// without a decode, [`field`](Object::field) and [`annotation`](Object::annotation) by a scan of the text.
///
/// [`get`](Self::get) decodes. As long as somebody holds the result, others get the same one; afterwards it is
/// forgotten, and the next access decodes again.
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
    text: Box<str>,
    /// True where the text says its `apiVersion` or `kind`.
    has_type: bool,
    view: Mutex<Weak<K>>,
    origin: Arc<Origin>,
}

impl<K: DeserializeOwned> Lazy<K> {
    /// The typed object.
    ///
    /// # Errors
    ///
    /// When the text does not fit the type. The error names the field; the first failure of each version is also
    /// reported to the informer that the object comes from, and counted there.
    pub fn get(&self) -> Result<Arc<K>, DecodeError> {
        if let Some(view) = self.view.lock().upgrade() {
            return Ok(view);
        }
        let decoded = decode(&self.whole_text(), self.origin.kind(), &self.header);
        let decoded = Arc::new(decoded.inspect_err(|error| self.report(error))?);
        let mut view = self.view.lock();
        if let Some(first) = view.upgrade() {
            return Ok(first);
        }
        *view = Arc::downgrade(&decoded);
        Ok(decoded)
    }

    /// The text with `apiVersion` and `kind`, which items of built-in lists do not carry.
    fn whole_text(&self) -> Cow<'_, str> {
        if !self.has_type
            && let Some(rest) = self.text.trim_start().strip_prefix('{')
        {
            let gvk = self.origin.kind().gvk();
            let (api_version, kind) = (gvk.api_version(), &gvk.kind);
            return format!(r#"{{"apiVersion":"{api_version}","kind":"{kind}",{rest}"#).into();
        }
        Cow::Borrowed(&self.text)
    }

    fn report(&self, error: &DecodeError) {
        let undecodable = Undecodable::new(Some(self.header.key().clone()), error.clone())
            .with_version(self.header.uid(), self.header.resource_version().clone());
        if self.origin.undecodable().report(undecodable) {
            tracing::warn!(error = %error, "an object cannot be read");
        }
    }
}

impl<K> Lazy<K> {
    /// The object as JSON text, without what was pruned. Items of a list of a built-in kind carry neither
    /// `apiVersion` nor `kind`.
    pub fn raw_json(&self) -> &[u8] {
        self.text.as_bytes()
    }
}

impl<K: Resource<DynamicType = ()> + Send + Sync + 'static> Lazy<K> {
    /// An object from its JSON text, without pruning.
    ///
    /// # Errors
    ///
    /// When the text is not JSON, or the header in it cannot be read.
    pub fn from_json(text: &str) -> Result<Self, crate::HeaderError> {
        let mut raw = crate::header::RawHeader::default();
        raw.scan(crate::scan::Cursor::new(text), false)?;
        let header = raw.build(text)?;
        let origin =
            Arc::new(Origin::new(ResourceKind::of::<K>(), informer_cache::UndecodableLog::default()));
        let has_type = raw.has_type();
        Ok(Self { header, text: text.into(), has_type, view: Mutex::new(Weak::new()), origin })
    }
}

impl<K: Send + Sync + 'static> Representation for Lazy<K> {
    fn decode(raw: RawObject<'_>) -> Result<Self, DecodeError> {
        let text = raw.cuts.apply(raw.text);
        let (origin, has_type) = (Arc::clone(raw.origin), raw.raw.has_type());
        Ok(Self { header: raw.header, text, has_type, view: Mutex::new(Weak::new()), origin })
    }
}

impl<K: Send + Sync + 'static> Object for Lazy<K> {
    fn header(&self) -> &Header {
        &self.header
    }

    fn annotation(&self, name: &str) -> Option<Cow<'_, str>> {
        fields::scalar(&self.text, ["metadata", "annotations", name])
    }

    fn annotations(&self) -> Cow<'_, Labels> {
        let mut raw = crate::header::RawHeader::default();
        let scanned = raw.scan(crate::scan::Cursor::new(&self.text), false);
        let annotations = scanned.and_then(|()| raw.metadata.annotations(&self.text));
        Cow::Owned(annotations.unwrap_or_default())
    }

    fn field(&self, path: &FieldPath) -> Option<Cow<'_, str>> {
        fields::scalar(&self.text, path.segments())
    }

    fn held_bytes(&self) -> usize {
        size_of::<Self>() + self.header.held_bytes() + self.text.len()
    }
}

impl<K: Resource<DynamicType = ()>> StaticKind for Lazy<K> {
    fn resource_kind() -> ResourceKind {
        ResourceKind::of::<K>()
    }
}

impl<K> fmt::Debug for Lazy<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        super::fmt_header(f, "Lazy", &self.header)
    }
}

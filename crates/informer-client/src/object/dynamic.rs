use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use informer_core::{FieldPath, Header, Labels, Object};
use kube_core::DynamicObject;
use serde_json::Value;

use super::body::{Body, OwnBytes};
use super::decode_error::decode;
use super::{DecodeError, Lazy, RawBytes, RawObject, Representation};

/// An object of a kind that has no Rust type, or whose kind is known only at run time.
///
/// It is stored as [`Lazy`] objects are: the header and the JSON text, without a tree of values. A tree of
/// values takes about nine times the memory of the text. [`field`](Object::field) and
/// [`annotation`](Object::annotation) scan the text; index functions should use them. [`value`](Self::value)
/// parses the whole text.
///
/// `apiVersion` and `kind` are always set, even though items of built-in lists lack them. A [memory
/// budget](crate::MemoryBudget) compresses the text; [`Lazy`] describes what happens if it cannot be
/// decompressed.
pub struct Dynamic(Lazy<Value>);

impl Dynamic {
    /// Returns the whole object as a tree of JSON values.
    ///
    /// While a caller holds the result, other calls return the same one; afterwards the next call parses the
    /// text again, unless views are cached: [`ReadOptions::view_bytes`](crate::ReadOptions::view_bytes).
    ///
    /// # Errors
    ///
    /// When the text cannot be parsed, for example because it is nested more than 128 levels deep. The error
    /// is also reported to the informer of the object, which logs and counts it.
    pub fn value(&self) -> Result<Arc<Value>, DecodeError> {
        self.0.get()
    }

    /// Returns the object as JSON, without the pruned fields.
    ///
    /// # Errors
    ///
    /// When the text is compressed and cannot be decompressed.
    pub fn json(&self) -> Result<Cow<'_, str>, DecodeError> {
        self.0.typed_json()
    }

    /// Decodes the object as kube's [`DynamicObject`].
    ///
    /// # Errors
    ///
    /// When the metadata does not fit the Kubernetes type `ObjectMeta`.
    pub fn to_dynamic_object(&self) -> Result<DynamicObject, DecodeError> {
        decode(&self.json()?, self.0.kind(), self.header())
    }
}

impl Representation for Dynamic {
    fn decode(raw: RawObject<'_>) -> Result<Self, DecodeError> {
        match raw.bytes {
            RawBytes::Json { raw: header, .. } if header.has_type_member && !header.has_complete_type() => {
                with_complete_type(raw).map(Self)
            }
            _ => Lazy::decode(raw).map(Self),
        }
    }
}

/// Builds an object in which `apiVersion` or `kind` is missing, null or empty, and sets it. API servers send
/// no such objects.
#[cold]
fn with_complete_type(raw: RawObject<'_>) -> Result<Lazy<Value>, DecodeError> {
    let kind = raw.origin.kind();
    let mut value: Value = decode(&raw.json()?, kind, &raw.header)?;
    for (name, text) in [("apiVersion", kind.gvk().api_version()), ("kind", kind.kind().to_owned())] {
        if value[name].as_str().is_none_or(str::is_empty) {
            value[name] = Value::String(text);
        }
    }
    let body = Body::new(OwnBytes::json(value.to_string().into(), true), None);
    Ok(Lazy::of_body(raw.header, body, Arc::clone(raw.origin)))
}

impl Object for Dynamic {
    fn header(&self) -> &Header {
        self.0.header()
    }

    fn annotation(&self, name: &str) -> Option<Cow<'_, str>> {
        self.0.annotation(name)
    }

    fn annotations(&self) -> Cow<'_, Labels> {
        self.0.annotations()
    }

    fn field(&self, path: &FieldPath) -> Option<Cow<'_, str>> {
        self.0.field(path)
    }

    fn json(&self) -> Option<Cow<'_, str>> {
        Self::json(self).ok()
    }

    fn is_partial(&self) -> bool {
        self.0.is_partial()
    }

    fn held_bytes(&self) -> usize {
        self.0.held_bytes()
    }
}

impl fmt::Debug for Dynamic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        super::fmt_header(f, "Dynamic", self.header())
    }
}

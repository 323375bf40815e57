use std::borrow::Cow;
use std::fmt;

use informer_core::{FieldPath, Header, Labels, Object};
use kube_core::DynamicObject;
use serde_json::Value;

use super::decode_error::decode;
use super::{DecodeError, RawObject, Representation};
use crate::memory::Charge;
use crate::{ResourceKind, fields};

/// An object as a tree of JSON values, for kinds without a Rust type.
///
/// `apiVersion` and `kind` are always set, even though items of built-in lists lack them.
pub struct Dynamic {
    header: Header,
    value: Value,
    kind: ResourceKind,
    wire_bytes: usize,
    _charge: Option<Box<Charge>>,
}

impl Dynamic {
    /// Returns the whole object.
    pub fn value(&self) -> &Value {
        &self.value
    }

    /// Returns a copy of the object as kube's [`DynamicObject`].
    ///
    /// # Errors
    ///
    /// When the metadata does not fit the Kubernetes type `ObjectMeta`.
    pub fn to_dynamic_object(&self) -> Result<DynamicObject, DecodeError> {
        decode(&self.value.to_string(), &self.kind, &self.header)
    }
}

impl Representation for Dynamic {
    fn decode(raw: RawObject<'_>) -> Result<Self, DecodeError> {
        let kind = raw.origin.kind().clone();
        let mut value: Value = decode(&raw.json()?, &kind, &raw.header)?;
        if let Some(members) = value.as_object_mut() {
            for (name, text) in [("apiVersion", kind.gvk().api_version()), ("kind", kind.kind().to_owned())] {
                let member = members.entry(name).or_insert(Value::Null);
                if member.as_str().is_none_or(str::is_empty) {
                    *member = Value::String(text);
                }
            }
        }
        let wire_bytes = raw.wire_bytes();
        let charge = raw.origin().charge(held_bytes(raw.header(), wire_bytes));
        Ok(Self { wire_bytes, header: raw.header, value, kind, _charge: charge })
    }
}

impl Object for Dynamic {
    fn header(&self) -> &Header {
        &self.header
    }

    fn annotation(&self, name: &str) -> Option<Cow<'_, str>> {
        fields::of_value(&self.value, ["metadata", "annotations", name])
    }

    fn annotations(&self) -> Cow<'_, Labels> {
        Cow::Owned(fields::annotations(&self.value))
    }

    fn field(&self, path: &FieldPath) -> Option<Cow<'_, str>> {
        fields::of_value(&self.value, path.segments())
    }

    fn json(&self) -> Option<Cow<'_, str>> {
        Some(self.value.to_string().into())
    }

    /// Returns an estimate of the memory of this object: trees of values take about nine times the size of
    /// their JSON.
    fn held_bytes(&self) -> usize {
        held_bytes(&self.header, self.wire_bytes)
    }
}

fn held_bytes(header: &Header, wire_bytes: usize) -> usize {
    size_of::<Dynamic>() + header.held_bytes() + 9 * wire_bytes
}

impl fmt::Debug for Dynamic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        super::fmt_header(f, "Dynamic", &self.header)
    }
}

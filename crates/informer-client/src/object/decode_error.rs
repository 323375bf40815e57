use informer_core::{Header, Object, ObjectKey, ResourceVersion};
use serde::de::DeserializeOwned;

use crate::ResourceKind;

/// An object that could not be decoded as its type.
///
/// The error names the object's kind, key and resourceVersion, and the invalid field. It contains no value of
/// the object: only the expected type is taken from the message of the serde error.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot read {kind} {key} at version {version}: {}{problem}", FieldPrefix(.field))]
pub struct DecodeError {
    kind: Box<str>,
    key: ObjectKey,
    version: ResourceVersion,
    field: Box<str>,
    problem: Box<str>,
    needs_json: bool,
}

struct FieldPrefix<'a>(&'a str);

impl std::fmt::Display for FieldPrefix<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.0.is_empty() { Ok(()) } else { write!(f, "field {}: ", self.0) }
    }
}

impl DecodeError {
    /// Returns an error for one object. `problem` must not contain a value of the object.
    pub fn new(kind: &ResourceKind, header: &Header, field: &str, problem: impl Into<Box<str>>) -> Self {
        Self {
            kind: kind.kind().into(),
            key: header.key().clone(),
            version: header.resource_version().clone(),
            field: field.into(),
            problem: problem.into(),
            needs_json: false,
        }
    }

    /// Returns the error for an object that was received as protobuf, if its Rust type has fields that the
    /// built-in schema does not contain.
    pub(crate) fn needs_json(kind: &ResourceKind, header: &Header) -> Self {
        let problem = "the server sends fields of this type that this version of informer cannot decode from \
                       protobuf; the kind is listed again as JSON";
        Self { needs_json: true, ..Self::new(kind, header, "", problem) }
    }

    /// Returns true if the object must be read from the server as JSON. This happens if a newer server sent
    /// it as protobuf with fields that the Rust type has, but the built-in schema of this library lacks. An
    /// informer lists the kind again as JSON soon after this error.
    pub fn is_json_needed(&self) -> bool {
        self.needs_json
    }

    /// Returns the key of the object that could not be decoded.
    pub fn key(&self) -> &ObjectKey {
        &self.key
    }

    /// Returns the kind of the object that could not be decoded.
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// Returns the path of the field that failed to decode, such as `spec.containers[0].name`; empty if it is
    /// unknown.
    pub fn field(&self) -> &str {
        &self.field
    }
}

pub(super) fn decode<K: DeserializeOwned>(
    text: &str,
    kind: &ResourceKind,
    header: &Header,
) -> Result<K, DecodeError> {
    serde_json::from_str(text).map_err(|_| explain::<K>(text, kind, header))
}

/// Decodes an undecodable object again to find the path of the invalid field. The first decode does not track
/// the path, because that costs time.
fn explain<K: DeserializeOwned>(text: &str, kind: &ResourceKind, header: &Header) -> DecodeError {
    let mut reader = serde_json::Deserializer::from_str(text);
    let read: Result<K, _> = serde_path_to_error::deserialize(&mut reader);
    match read {
        Err(error) => {
            let field = error.path().to_string();
            let field = if field == "." { "" } else { &field };
            DecodeError::new(kind, header, field, harmless(&error.into_inner()))
        }
        Ok(_) => DecodeError::new(kind, header, "", "text after the object"),
    }
}

/// Returns the message of a serde error with the invalid value removed.
fn harmless(error: &serde_json::Error) -> String {
    if !error.is_data() {
        return format!("not JSON at line {}, column {}", error.line(), error.column());
    }
    let message = error.to_string();
    if message.starts_with("missing field `") || message.starts_with("duplicate field `") {
        // The message names a field of the Rust type, which is not a value of the object. The message is
        // therefore kept, without the line and column at its end.
        return message.split(" at line ").next().unwrap_or_default().to_owned();
    }
    let what = ["invalid type", "invalid value", "invalid length", "unknown variant"];
    let what =
        what.into_iter().find(|what| message.starts_with(what)).unwrap_or("a value that the type rejects");
    // Keep only the expected type, which follows the invalid value and precedes the line and column at the
    // end of the message.
    match message.rsplit_once(", expected ") {
        Some((_, expected)) if what.starts_with("invalid") => {
            format!("{what}, expected {}", expected.split(" at line ").next().unwrap_or_default())
        }
        _ => what.to_owned(),
    }
}

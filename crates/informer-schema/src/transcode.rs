//! Converts objects between JSON and protobuf. The schema table defines the names, types and numbers of their
//! fields.

mod json;
#[cfg(feature = "server")]
mod protobuf;
pub(crate) mod view;

pub(crate) use json::is_type_meta;

use crate::envelope::Envelope;
use crate::error::{Problem, TranscodeError};
use crate::schema::Schema;
use crate::schema::kind::KindSchema;

/// The maximum nesting of messages, which limits the stack. Objects that a server accepts are nested far
/// less.
pub const MAX_DEPTH: usize = 128;

/// The maximum ratio of JSON size to protobuf size; real objects become two to three times as large. Without
/// a limit, a few megabytes of protobuf could become gigabytes of JSON: an empty message is two bytes in
/// protobuf and hundreds of names and zeros in JSON.
pub const MAX_GROWTH: usize = 64;

/// The JSON size in bytes that is allowed in addition to [`MAX_GROWTH`] times the input, so that small
/// objects never exceed the limit.
const FREE_GROWTH: usize = 1 << 16;

impl Schema {
    /// Converts a protobuf object in its envelope to the JSON that a server would write: without white space,
    /// fields in the order of their Go types, maps sorted by key.
    ///
    /// # Errors
    ///
    /// Returns an error if the bytes are not an object, or its kind is not in the schema table. Unknown
    /// fields are dropped, as a server does.
    ///
    /// ```
    /// let schema = informer_schema::Schema::builtin();
    /// let json = br#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a"},"data":{"k":"v"}}"#;
    /// let wire = schema.to_protobuf(json)?;
    /// assert!(wire.starts_with(b"k8s\0"));
    /// assert_eq!(schema.to_json(&wire)?, json);
    /// # Ok::<(), informer_schema::TranscodeError>(())
    /// ```
    pub fn to_json(&self, object: &[u8]) -> Result<Vec<u8>, TranscodeError> {
        let mut out = Vec::with_capacity(object.len() * 2);
        self.append_json(object, &mut out)?;
        Ok(out)
    }

    fn append_json(&self, object: &[u8], out: &mut Vec<u8>) -> Result<(), TranscodeError> {
        let envelope = Envelope::parse(object)?;
        let kind = self.kind_of_envelope(&envelope)?;
        let type_meta = Some((envelope.kind, envelope.api_version));
        json::write(self, kind.data.message, envelope.raw, type_meta, out)
            .map_err(|fault| fault.into_error("read", envelope.describe()))
    }

    pub(crate) fn kind_of_envelope(&self, envelope: &Envelope<'_>) -> Result<KindSchema<'_>, TranscodeError> {
        let unknown = || TranscodeError {
            operation: "read",
            kind: envelope.describe(),
            path: String::new(),
            problem: Problem::UnknownKind,
        };
        self.kind_by_api_version(envelope.api_version, envelope.kind).ok_or_else(unknown)
    }

    /// Converts one watch event to JSON. `event` is a frame that [`frame`](crate::frame) returned.
    ///
    /// # Errors
    ///
    /// Returns an error if the bytes are not a watch event, or its object is invalid.
    pub fn watch_event_to_json(&self, event: &[u8]) -> Result<Vec<u8>, TranscodeError> {
        let (event_type, object) = crate::envelope::watch_event(event)?;
        let mut out = Vec::with_capacity(event.len() * 2);
        out.extend_from_slice(b"{\"type\":");
        crate::text::write_string(&mut out, event_type);
        out.extend_from_slice(b",\"object\":");
        self.append_json(object, &mut out)?;
        out.push(b'}');
        Ok(out)
    }
}

impl KindSchema<'_> {
    /// Converts a message of this kind, without envelope, to JSON without `kind` and `apiVersion`. Lists
    /// contain their items in these two forms.
    ///
    /// # Errors
    ///
    /// Returns an error if the bytes are not a message of this kind.
    pub fn message_to_json(self, raw: &[u8]) -> Result<Vec<u8>, TranscodeError> {
        let mut out = Vec::with_capacity(raw.len() * 2);
        json::write(self.schema, self.data.message, raw, None, &mut out)
            .map_err(|fault| fault.into_error("read", self.describe()))?;
        Ok(out)
    }

    pub(crate) fn describe(self) -> String {
        format!("{} {}", self.gvk().api_version(), self.data.kind)
    }
}

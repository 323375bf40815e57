//! Typed objects straight from the wire: a deserializer of serde that says what JSON would.
//!
//! `stream` reads messages as a server of the table's version writes them: each field is known and occurs once,
//! and the values of a list are contiguous. It buffers nothing. For any other message it gives up, and `general`
//! reads the message from its beginning; it accepts everything that the format allows. Both yield the same members.

mod general;
mod stream;

use std::fmt;

use serde::de::{self, Expected, Unexpected};
use thiserror::Error;

use crate::envelope::Envelope;
use crate::error::{Fault, Problem, TranscodeError};
use crate::kind::KindSchema;
use crate::schema::Schema;
use crate::transcode::view::MessageView;

/// Why bytes are no value of a type. Values are never told.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ProtobufDecodeError {
    /// The bytes are no object of the kind.
    #[error(transparent)]
    Wire(TranscodeError),
    /// The object is none that the type takes.
    #[error("cannot decode {kind}{}{path}: {expected}", if path.is_empty() { "" } else { " at " })]
    Type {
        /// The kind, as `v1 Pod`.
        kind: String,
        /// The field, as `spec.containers[0].image`.
        path: String,
        /// What the type takes.
        expected: String,
    },
    /// A newer server wrote the object: it has fields that the table does not know, and the type has fields
    /// that may be those.
    #[error("cannot decode {kind}: the type asks for fields that the table does not know")]
    Newer {
        /// The kind, as `v1 Pod`.
        kind: String,
    },
}

impl Schema {
    /// Reads a typed object from protobuf in its envelope, as if from the JSON that a server would write.
    ///
    /// ```
    /// use informer_schema::Schema;
    /// use k8s_openapi::api::core::v1::Pod;
    ///
    /// let schema = Schema::builtin();
    /// let wire = schema.to_protobuf(br#"{"apiVersion":"v1","kind":"Pod","spec":{"nodeName":"n1"}}"#)?;
    /// let pod: Pod = schema.decode(&wire)?;
    /// assert_eq!(pod.spec.and_then(|spec| spec.node_name).as_deref(), Some("n1"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// When the bytes are no object of a built-in kind, or the type does not take it.
    pub fn decode<'a, T: de::Deserialize<'a>>(&self, object: &'a [u8]) -> Result<T, ProtobufDecodeError> {
        let envelope = Envelope::parse(object).map_err(ProtobufDecodeError::Wire)?;
        let kind = self.kind_of_envelope(&envelope).map_err(ProtobufDecodeError::Wire)?;
        kind.decode_as(envelope.raw, (envelope.kind, envelope.api_version), Unknown::Skipped)
    }
}

impl KindSchema<'_> {
    /// Reads a typed object from a message of this kind without envelope, such as an item of a list.
    ///
    /// # Errors
    ///
    /// As [`Schema::decode`].
    pub fn decode_message<'a, T: de::Deserialize<'a>>(self, raw: &'a [u8]) -> Result<T, ProtobufDecodeError> {
        self.decode_as(raw, (self.data.kind, &self.gvk().api_version()), Unknown::Skipped)
    }

    /// As [`decode_message`](Self::decode_message), but fails if the value would lack something that JSON has:
    /// the message has fields that the table does not know, and the type has members there that the table does
    /// not know, or accepts any member.
    ///
    /// # Errors
    ///
    /// [`ProtobufDecodeError::Newer`] then; otherwise as [`Schema::decode`].
    pub fn decode_complete<'a, T: de::Deserialize<'a>>(
        self,
        raw: &'a [u8],
    ) -> Result<T, ProtobufDecodeError> {
        self.decode_as(raw, (self.data.kind, &self.gvk().api_version()), Unknown::Refused)
    }

    fn decode_as<'a, T: de::Deserialize<'a>>(
        self,
        raw: &'a [u8],
        type_meta: (&str, &str),
        unknown: Unknown,
    ) -> Result<T, ProtobufDecodeError> {
        let object = stream::Object::new(self.schema, self.data.message, raw, Some(type_meta));
        match T::deserialize(object) {
            Err(error) if matches!(error.0.cause, Cause::Irregular | Cause::Newer) => {
                let message = MessageView::new(self.schema, self.data.message, raw);
                T::deserialize(general::Members { message, type_meta: Some(type_meta), unknown })
            }
            read => read,
        }
        .map_err(|error| self.told(*error.0))
    }

    #[cold]
    fn told(self, failure: Failure) -> ProtobufDecodeError {
        if matches!(failure.cause, Cause::Newer) {
            return ProtobufDecodeError::Newer { kind: self.describe() };
        }
        let mut fault = Fault::from(match failure.cause {
            Cause::Wire(problem) => problem,
            Cause::Type(_) | Cause::Irregular | Cause::Newer => Problem::Truncated,
        });
        for name in failure.path.iter() {
            fault = fault.within(name);
        }
        let error = fault.told("read", self.describe());
        match failure.cause {
            Cause::Wire(_) | Cause::Irregular | Cause::Newer => ProtobufDecodeError::Wire(error),
            Cause::Type(expected) => {
                ProtobufDecodeError::Type { kind: error.kind, path: error.path, expected }
            }
        }
    }
}

/// How fields that the table does not know are treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unknown {
    /// They are skipped.
    Skipped,
    /// They are an error if the type may have them.
    Refused,
}

/// What went wrong below a visitor. Small, because every value that is read comes beside one.
#[derive(Debug)]
struct Error(Box<Failure>);

/// The cause, and the way to it from the inside out.
#[derive(Debug)]
struct Failure {
    cause: Cause,
    path: Vec<String>,
}

#[derive(Debug)]
enum Cause {
    /// The bytes are none that `stream` reads; `general` may.
    Irregular,
    /// The table does not know all fields of the type.
    Newer,
    Wire(Problem),
    Type(String),
}

impl Error {
    #[cold]
    fn new(cause: Cause) -> Self {
        Self(Box::new(Failure { cause, path: Vec::new() }))
    }

    #[cold]
    fn within(mut self, name: &str) -> Self {
        self.0.path.push(name.to_owned());
        self
    }
}

impl From<Problem> for Error {
    fn from(problem: Problem) -> Self {
        Self::new(Cause::Wire(problem))
    }
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Self {
        let told = fault.told("", "");
        let error = Self::new(Cause::Wire(told.problem));
        if told.path.is_empty() { error } else { error.within(&told.path) }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0.cause {
            Cause::Irregular => f.write_str("expected every field once"),
            Cause::Newer => f.write_str("expected fields that the table does not know"),
            Cause::Wire(problem) => problem.fmt(f),
            Cause::Type(expected) => f.write_str(expected),
        }
    }
}

impl std::error::Error for Error {}

fn refused(expected: impl fmt::Display) -> Error {
    Error::new(Cause::Type(format!("expected {expected}")))
}

/// What visitors say of values would show them; what they expect does not.
impl de::Error for Error {
    fn custom<T: fmt::Display>(_: T) -> Self {
        refused("another value")
    }

    fn invalid_type(_: Unexpected<'_>, expected: &dyn Expected) -> Self {
        refused(expected)
    }

    fn invalid_value(_: Unexpected<'_>, expected: &dyn Expected) -> Self {
        refused(expected)
    }

    fn invalid_length(_: usize, expected: &dyn Expected) -> Self {
        refused(expected)
    }

    fn unknown_variant(_: &str, _: &'static [&'static str]) -> Self {
        refused("one of the known words")
    }

    fn missing_field(field: &'static str) -> Self {
        refused("a field that is not there").within(field)
    }
}

//! A serde deserializer for protobuf. It yields the same fields and values as the JSON of the object.
//!
//! The module `stream` reads a message in one pass and buffers nothing. It accepts only messages as a server
//! writes them whose release the schema table (`builtin.txt`) describes: each field is known and occurs once,
//! the values of a list are contiguous, and the keys of a map are sorted. The module `general` reads every
//! other message, again from its beginning; it accepts everything that the protobuf format allows. Both
//! modules yield the same fields.

mod general;
mod stream;

use std::fmt;

use serde::de::{self, Expected, Unexpected};
use thiserror::Error;

use crate::envelope::Envelope;
use crate::error::{Fault, Problem, TranscodeError};
use crate::schema::Schema;
use crate::schema::kind::KindSchema;
use crate::transcode::view::MessageView;

/// The error of decoding protobuf into a Rust type. The error never contains a value.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ProtobufDecodeError {
    /// The bytes are not an object of the given kind.
    #[error(transparent)]
    Wire(TranscodeError),
    /// The Rust type rejects the object, for example because a value has another JSON type than the Rust type
    /// expects.
    #[error("cannot decode {kind}{}{path}: {expected}", if path.is_empty() { "" } else { " at " })]
    Type {
        /// The kind of the object, such as `v1 Pod`.
        kind: String,
        /// The path of the field, such as `spec.containers[0].image`.
        path: String,
        /// The JSON type that the Rust type expects.
        expected: String,
    },
    /// A newer server wrote the object, and decoding would lose data: the object has fields that the schema
    /// table does not know, and the Rust type has fields that may be among these.
    #[error(
        "cannot decode {kind}: the object has fields that the schema table does not contain, and the \
         type may need them"
    )]
    Newer {
        /// The kind of the object, such as `v1 Pod`.
        kind: String,
    },
}

impl Schema {
    /// Decodes a typed object from protobuf in its envelope, as if from the JSON that a server would write.
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
    /// Returns an error if the bytes are not an object of a built-in kind, or if the Rust type rejects the
    /// object.
    pub fn decode<'a, T: de::Deserialize<'a>>(&self, object: &'a [u8]) -> Result<T, ProtobufDecodeError> {
        let envelope = Envelope::parse(object).map_err(ProtobufDecodeError::Wire)?;
        let kind = self.kind_of_envelope(&envelope).map_err(ProtobufDecodeError::Wire)?;
        kind.decode_as(envelope.raw, (envelope.kind, envelope.api_version), Unknown::Skipped)
    }
}

impl KindSchema<'_> {
    /// Decodes a typed object from a message of this kind without envelope, such as an item of a list.
    ///
    /// # Errors
    ///
    /// The same errors as [`Schema::decode`].
    pub fn decode_message<'a, T: de::Deserialize<'a>>(self, raw: &'a [u8]) -> Result<T, ProtobufDecodeError> {
        self.decode_as(raw, (self.data.kind, &self.gvk().api_version()), Unknown::Skipped)
    }

    /// Like [`decode_message`](Self::decode_message), but returns an error if the value would lack data that
    /// the JSON of the object has: the message has fields that the schema table does not know, and the Rust
    /// type has fields that the table does not know either, or accepts any field.
    ///
    /// # Errors
    ///
    /// Returns [`ProtobufDecodeError::Newer`] if the value would lack data; other errors are those of
    /// [`Schema::decode`].
    pub fn decode_complete<'a, T: de::Deserialize<'a>>(
        self,
        raw: &'a [u8],
    ) -> Result<T, ProtobufDecodeError> {
        self.decode_as(raw, (self.data.kind, &self.gvk().api_version()), Unknown::Rejected)
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
                T::deserialize(general::MessageMembers { message, type_meta: Some(type_meta), unknown })
            }
            read => read,
        }
        .map_err(|error| self.into_decode_error(*error.0))
    }

    #[cold]
    fn into_decode_error(self, failure: Failure) -> ProtobufDecodeError {
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
        let error = fault.into_error("read", self.describe());
        match failure.cause {
            Cause::Wire(_) | Cause::Irregular | Cause::Newer => ProtobufDecodeError::Wire(error),
            Cause::Type(expected) => {
                ProtobufDecodeError::Type { kind: error.kind, path: error.path, expected }
            }
        }
    }
}

/// The policy for fields of a message that the schema table does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unknown {
    Skipped,
    /// Returns an error if the Rust type may have the unknown fields.
    Rejected,
}

/// The error that serde returns while it decodes; [`ProtobufDecodeError`] is the public one. It is boxed,
/// because its size would be added to the `Result` of every value.
#[derive(Debug)]
struct Error(Box<Failure>);

/// The cause of an error, and the field path from the innermost field outwards.
#[derive(Debug)]
struct Failure {
    cause: Cause,
    path: Vec<String>,
}

#[derive(Debug)]
enum Cause {
    /// The module `stream` cannot read the message, so the module `general` must read it from the beginning.
    Irregular,
    /// The message has fields that the schema table does not know, and the Rust type may have these fields.
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
        let wire = fault.into_error("", "");
        let error = Self::new(Cause::Wire(wire.problem));
        if wire.path.is_empty() { error } else { error.within(&wire.path) }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0.cause {
            Cause::Irregular => f.write_str("expected every field once"),
            Cause::Newer => f.write_str("expected fields that the schema table does not contain"),
            Cause::Wire(problem) => problem.fmt(f),
            Cause::Type(expected) => f.write_str(expected),
        }
    }
}

impl std::error::Error for Error {}

fn type_error(expected: impl fmt::Display) -> Error {
    Error::new(Cause::Type(format!("expected {expected}")))
}

/// Drops the value from serde's messages and keeps the expected type, because errors must not contain values.
impl de::Error for Error {
    fn custom<T: fmt::Display>(_: T) -> Self {
        type_error("another value")
    }

    fn invalid_type(_: Unexpected<'_>, expected: &dyn Expected) -> Self {
        type_error(expected)
    }

    fn invalid_value(_: Unexpected<'_>, expected: &dyn Expected) -> Self {
        type_error(expected)
    }

    fn invalid_length(_: usize, expected: &dyn Expected) -> Self {
        type_error(expected)
    }

    fn unknown_variant(_: &str, _: &'static [&'static str]) -> Self {
        type_error("a known enum variant")
    }

    fn missing_field(field: &'static str) -> Self {
        type_error("a value of this required field").within(field)
    }
}

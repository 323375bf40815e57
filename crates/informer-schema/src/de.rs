//! Typed objects straight from the wire: a deserializer of serde that says what JSON would.

use std::fmt;

use serde::de::value::StrDeserializer;
use serde::de::{self, DeserializeSeed, Deserializer, Expected, IntoDeserializer, Unexpected, Visitor};
use serde::forward_to_deserialize_any;
use thiserror::Error;

use crate::envelope::Envelope;
use crate::error::{Fault, Problem, TranscodeError};
use crate::kind::Kind;
use crate::schema::Schema;
use crate::transcode::is_type_meta;
use crate::transcode::view::{Found, Many, MessageView, View};

/// Why bytes are no value of a type. Values are never told.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum DecodeError {
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
    pub fn decode<'a, T: de::Deserialize<'a>>(&self, object: &'a [u8]) -> Result<T, DecodeError> {
        let envelope = Envelope::parse(object).map_err(DecodeError::Wire)?;
        let kind = self.kind_of_envelope(&envelope).map_err(DecodeError::Wire)?;
        kind.decode_as(envelope.raw, (envelope.kind, envelope.api_version))
    }
}

impl Kind<'_> {
    /// Reads a typed object from a message of this kind without envelope, such as an item of a list.
    ///
    /// # Errors
    ///
    /// As [`Schema::decode`].
    pub fn decode_message<'a, T: de::Deserialize<'a>>(self, raw: &'a [u8]) -> Result<T, DecodeError> {
        self.decode_as(raw, (self.data.kind, &self.gvk().api_version()))
    }

    fn decode_as<'a, T: de::Deserialize<'a>>(
        self,
        raw: &'a [u8],
        type_meta: (&str, &str),
    ) -> Result<T, DecodeError> {
        let message = MessageView::new(self.schema, self.data.message, raw);
        T::deserialize(Members { message, type_meta: Some(type_meta) }).map_err(|error| match error.cause {
            Cause::Wire(problem) => {
                let mut fault = Fault::from(problem);
                for name in error.path.iter() {
                    fault = fault.within(name);
                }
                DecodeError::Wire(fault.told("read", self.describe()))
            }
            Cause::Type(expected) => {
                let mut path = Fault::from(Problem::Truncated);
                for name in error.path.iter() {
                    path = path.within(name);
                }
                let path = path.told("", "").path;
                DecodeError::Type { kind: self.describe(), path, expected }
            }
        })
    }
}

/// What went wrong below a visitor, and the way to it from the inside out.
#[derive(Debug)]
struct Error {
    cause: Cause,
    path: Vec<String>,
}

#[derive(Debug)]
enum Cause {
    Wire(Problem),
    Type(String),
}

impl Error {
    fn within(mut self, name: &str) -> Self {
        self.path.push(name.to_owned());
        self
    }
}

impl From<Problem> for Error {
    fn from(problem: Problem) -> Self {
        Self { cause: Cause::Wire(problem), path: Vec::new() }
    }
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Self {
        let told = fault.told("", "");
        let path = if told.path.is_empty() { Vec::new() } else { vec![told.path] };
        Self { cause: Cause::Wire(told.problem), path }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.cause {
            Cause::Wire(problem) => problem.fmt(f),
            Cause::Type(expected) => f.write_str(expected),
        }
    }
}

impl std::error::Error for Error {}

fn refused(expected: impl fmt::Display) -> Error {
    Error { cause: Cause::Type(format!("expected {expected}")), path: Vec::new() }
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

/// An object with names and values.
struct Members<'s, 'a, 't> {
    message: MessageView<'s, 'a>,
    type_meta: Option<(&'t str, &'t str)>,
}

impl<'a> Deserializer<'a> for Members<'_, 'a, '_> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_map(MemberAccess {
            innermost: Frame::new(self.message)?,
            outer: Vec::new(),
            type_meta: self.type_meta,
            names: Vec::new(),
            value: None,
        })
    }

    fn deserialize_option<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'a>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    forward_to_deserialize_any! {
        <W: Visitor<'a>>
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map struct enum identifier ignored_any
    }
}

/// A message that is being read.
struct Frame<'s, 'a> {
    message: MessageView<'s, 'a>,
    found: Found<'a>,
}

impl<'s, 'a> Frame<'s, 'a> {
    fn new(message: MessageView<'s, 'a>) -> Result<Self, Error> {
        let found = message.find()?;
        Ok(Self { message, found })
    }
}

/// The members of a message as JSON has them; those of embedded types stand among them.
struct MemberAccess<'s, 'a, 't> {
    innermost: Frame<'s, 'a>,
    outer: Vec<Frame<'s, 'a>>,
    type_meta: Option<(&'t str, &'t str)>,
    /// The names of the object, the last one first.
    names: Vec<(&'static str, &'t str)>,
    value: Option<(&'s str, View<'s, 'a>)>,
}

impl<'s, 'a> MemberAccess<'s, 'a, '_> {
    fn next_member(&mut self) -> Result<Option<(&'s str, View<'s, 'a>)>, Error> {
        loop {
            if let Some((name, text)) = self.names.pop() {
                return Ok(Some((name, View::Text(text.to_owned().into()))));
            }
            let frame = &mut self.innermost;
            let Some((place, raws)) = frame.found.next() else {
                let Some(outer) = self.outer.pop() else { return Ok(None) };
                self.innermost = outer;
                continue;
            };
            let field = &frame.message.fields()[place];
            if is_type_meta(field) {
                let (kind, api_version) = self.type_meta.take().unwrap_or_default();
                self.names = vec![("apiVersion", api_version), ("kind", kind)];
                self.names.retain(|(_, text)| !text.is_empty());
                continue;
            }
            match frame.message.view(field, raws)? {
                None => {}
                Some(View::Message(embedded)) if field.flags.inline => {
                    let outer = std::mem::replace(frame, Frame::new(embedded)?);
                    self.outer.push(outer);
                }
                Some(view) => return Ok(Some((field.name, view))),
            }
        }
    }
}

impl<'a> de::MapAccess<'a> for MemberAccess<'_, 'a, '_> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'a>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        self.value = self.next_member()?;
        let key = self.value.as_ref().map(|(name, _)| *name);
        key.map(|name| seed.deserialize(StrDeserializer::new(name))).transpose()
    }

    fn next_value_seed<S: DeserializeSeed<'a>>(&mut self, seed: S) -> Result<S::Value, Error> {
        let (name, view) = self.value.take().ok_or_else(|| refused("a name before each value"))?;
        seed.deserialize(Value(view)).map_err(|error| error.within(name))
    }
}

/// One value.
struct Value<'s, 'a>(View<'s, 'a>);

impl<'a> Deserializer<'a> for Value<'_, 'a> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Error> {
        use std::borrow::Cow;
        match self.0 {
            View::Null => visitor.visit_unit(),
            View::Bool(value) => visitor.visit_bool(value),
            View::Integer(value) => visitor.visit_i64(value),
            View::Double(value) => visitor.visit_f64(value),
            View::Text(Cow::Borrowed(text)) => visitor.visit_borrowed_str(text),
            View::Text(Cow::Owned(text)) => visitor.visit_string(text),
            View::Json(json) => embedded(json, visitor),
            View::Message(message) => Members { message, type_meta: None }.deserialize_any(visitor),
            View::List(many) => visitor.visit_seq(EntryAccess { many, at: 0 }),
            View::Map(many) => {
                let entries = many.sorted()?;
                visitor.visit_map(MapAccess { rest: entries.into_iter(), value: None })
            }
        }
    }

    fn deserialize_option<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.0 {
            View::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'a>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'a>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        match self.0 {
            View::Text(text) => visitor.visit_enum(text.into_owned().into_deserializer()),
            _ => Err(refused("a word")),
        }
    }

    fn deserialize_ignored_any<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        <W: Visitor<'a>>
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map struct identifier
    }
}

/// JSON from elsewhere that stands in an object.
fn embedded<'a, V: Visitor<'a>>(json: &'a [u8], visitor: V) -> Result<V::Value, Error> {
    let mut reader = serde_json::Deserializer::from_slice(json);
    let value = reader.deserialize_any(visitor).map_err(|_| refused("another JSON value"))?;
    reader.end().map_err(|_| refused("one JSON value"))?;
    Ok(value)
}

struct EntryAccess<'s, 'a> {
    many: Many<'s, 'a>,
    at: usize,
}

impl<'a> de::SeqAccess<'a> for EntryAccess<'_, 'a> {
    type Error = Error;

    fn next_element_seed<S: DeserializeSeed<'a>>(&mut self, seed: S) -> Result<Option<S::Value>, Error> {
        let Some(raw) = self.many.raws.get(self.at) else { return Ok(None) };
        let view = self.many.entry(*raw).map_err(Error::from);
        let value = view.and_then(|view| seed.deserialize(Value(view)));
        let value = value.map_err(|error| error.within(&format!("[{}]", self.at)))?;
        self.at += 1;
        Ok(Some(value))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.many.raws.len() - self.at)
    }
}

struct MapAccess<'s, 'a> {
    rest: std::vec::IntoIter<(&'a str, View<'s, 'a>)>,
    value: Option<(&'a str, View<'s, 'a>)>,
}

impl<'a> de::MapAccess<'a> for MapAccess<'_, 'a> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'a>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        self.value = self.rest.next();
        let key = self.value.as_ref().map(|(name, _)| *name);
        key.map(|name| seed.deserialize(de::value::BorrowedStrDeserializer::new(name))).transpose()
    }

    fn next_value_seed<S: DeserializeSeed<'a>>(&mut self, seed: S) -> Result<S::Value, Error> {
        let (name, view) = self.value.take().ok_or_else(|| refused("a name before each value"))?;
        seed.deserialize(Value(view)).map_err(|error| error.within(name))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.rest.len())
    }
}

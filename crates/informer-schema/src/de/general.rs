//! Deserializes any valid protobuf message, such as one with repeated or unknown fields. All fields of the
//! message are collected and sorted first, which costs more than the single pass of the module `stream`.

use std::borrow::Cow;

use serde::de::value::StrDeserializer;
use serde::de::{self, DeserializeSeed, Deserializer, IntoDeserializer, Visitor};
use serde::forward_to_deserialize_any;

use super::{Cause, Error, Unknown, type_error};
use crate::transcode::is_type_meta;
use crate::transcode::view::{Many, MessageView, View, WireFields};

/// A protobuf message that serde visits as a map from field names to values.
pub(super) struct MessageMembers<'s, 'a, 't> {
    pub(super) message: MessageView<'s, 'a>,
    pub(super) type_meta: Option<(&'t str, &'t str)>,
    pub(super) unknown: Unknown,
}

impl<'a> MessageMembers<'_, 'a, '_> {
    fn visit<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_map(MemberAccess {
            innermost: MessageFrame::new(self.message)?,
            outer: Vec::new(),
            type_meta: self.type_meta,
            names: Vec::new(),
            value: None,
            unknown: self.unknown,
        })
    }

    /// Returns true if the message itself has fields that the schema table does not know, and the policy for
    /// unknown fields rejects them.
    fn is_refused(&self) -> Result<bool, Error> {
        Ok(self.unknown == Unknown::Rejected && self.message.has_unknown_members()?)
    }
}

impl<'a> Deserializer<'a> for MessageMembers<'_, 'a, '_> {
    type Error = Error;

    /// Rust types that accept any field, such as `serde_json::Value`, call this method. Their decoded values
    /// would lack each field that the schema table does not know.
    fn deserialize_any<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Error> {
        if self.is_refused()? { Err(Error::new(Cause::Newer)) } else { self.visit(visitor) }
    }

    fn deserialize_struct<V: Visitor<'a>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        let message = self.message.schema.message_at(self.message.id);
        let asks_for_more = || fields.iter().any(|name| message.field(name).is_none());
        if self.is_refused()? && asks_for_more() {
            Err(Error::new(Cause::Newer))
        } else {
            self.visit(visitor)
        }
    }

    fn deserialize_ignored_any<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_unit()
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
        tuple_struct map enum identifier
    }
}

struct MessageFrame<'s, 'a> {
    message: MessageView<'s, 'a>,
    found: WireFields<'a>,
}

impl<'s, 'a> MessageFrame<'s, 'a> {
    fn new(message: MessageView<'s, 'a>) -> Result<Self, Error> {
        let found = message.find()?;
        Ok(Self { message, found })
    }
}

/// The fields of a message, in the order and with the names that they have in JSON. Like in JSON, the fields
/// of an embedded Go struct are yielded as fields of the message.
struct MemberAccess<'s, 'a, 't> {
    innermost: MessageFrame<'s, 'a>,
    outer: Vec<MessageFrame<'s, 'a>>,
    type_meta: Option<(&'t str, &'t str)>,
    /// `apiVersion` and `kind` with their values, as far as they have not been yielded. The last element is
    /// yielded next.
    names: Vec<(&'static str, &'t str)>,
    value: Option<(&'s str, View<'s, 'a>)>,
    unknown: Unknown,
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
                    let outer = std::mem::replace(frame, MessageFrame::new(embedded)?);
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
        let (name, view) = self.value.take().ok_or_else(|| type_error("a key before each value"))?;
        seed.deserialize(ViewValue(view, self.unknown)).map_err(|error| error.within(name))
    }
}

pub(super) struct ViewValue<'s, 'a>(pub(super) View<'s, 'a>, pub(super) Unknown);

impl<'a> Deserializer<'a> for ViewValue<'_, 'a> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.0 {
            View::Null => visitor.visit_unit(),
            View::Bool(value) => visitor.visit_bool(value),
            View::Integer(value) => visitor.visit_i64(value),
            View::Double(value) => visitor.visit_f64(value),
            View::Text(Cow::Borrowed(text)) => visitor.visit_borrowed_str(text),
            View::Text(Cow::Owned(text)) => visitor.visit_string(text),
            View::Json(json) => embedded(json, visitor),
            View::Message(message) => {
                MessageMembers { message, type_meta: None, unknown: self.1 }.deserialize_any(visitor)
            }
            View::List(many) => visitor.visit_seq(EntryAccess { many, at: 0, unknown: self.1 }),
            View::Map(many) => {
                let entries = many.sorted()?;
                visitor.visit_map(MapAccess { rest: entries.into_iter(), value: None, unknown: self.1 })
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
            _ => Err(type_error("a string")),
        }
    }

    fn deserialize_struct<V: Visitor<'a>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        match self.0 {
            View::Message(message) => {
                let members = MessageMembers { message, type_meta: None, unknown: self.1 };
                members.deserialize_struct(name, fields, visitor)
            }
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_ignored_any<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        <W: Visitor<'a>>
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map identifier
    }
}

fn embedded<'a, V: Visitor<'a>>(json: &'a [u8], visitor: V) -> Result<V::Value, Error> {
    let mut reader = serde_json::Deserializer::from_slice(json);
    let value = reader.deserialize_any(visitor).map_err(|_| type_error("a JSON value of another type"))?;
    reader.end().map_err(|_| type_error("exactly one JSON value"))?;
    Ok(value)
}

struct EntryAccess<'s, 'a> {
    many: Many<'s, 'a>,
    at: usize,
    unknown: Unknown,
}

impl<'a> de::SeqAccess<'a> for EntryAccess<'_, 'a> {
    type Error = Error;

    fn next_element_seed<S: DeserializeSeed<'a>>(&mut self, seed: S) -> Result<Option<S::Value>, Error> {
        let Some(raw) = self.many.raws.get(self.at) else { return Ok(None) };
        let view = self.many.entry(*raw).map_err(Error::from);
        let value = view.and_then(|view| seed.deserialize(ViewValue(view, self.unknown)));
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
    unknown: Unknown,
}

impl<'a> de::MapAccess<'a> for MapAccess<'_, 'a> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'a>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        self.value = self.rest.next();
        let key = self.value.as_ref().map(|(name, _)| *name);
        key.map(|name| seed.deserialize(de::value::BorrowedStrDeserializer::new(name))).transpose()
    }

    fn next_value_seed<S: DeserializeSeed<'a>>(&mut self, seed: S) -> Result<S::Value, Error> {
        let (name, view) = self.value.take().ok_or_else(|| type_error("a key before each value"))?;
        seed.deserialize(ViewValue(view, self.unknown)).map_err(|error| error.within(name))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.rest.len())
    }
}

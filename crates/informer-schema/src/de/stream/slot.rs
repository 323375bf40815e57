//! The value that a serde visitor reads next.

use serde::de::{Deserializer, Visitor};

use super::Object;
use super::value::{Entries, Map};
use crate::de::{Error, Unknown, general};
use crate::schema::field::Base;
use crate::schema::{MessageId, Schema};
use crate::transcode::view::{Instant, View, one};
use crate::wire::Raw;

/// The next value for a serde visitor. One slot is overwritten for each value and passed by reference,
/// because moving it for each value would be slow.
pub(super) struct Slot<'s, 'a, 't> {
    pub(super) schema: &'s Schema,
    pub(super) depth: usize,
    pub(super) content: Content,
    /// The type of the value, or of the elements of a list or map.
    pub(super) base: Base,
    pub(super) count: u32,
    /// The value in the protobuf message. For a list or map, the bytes of the message from its first value
    /// on.
    pub(super) raw: Raw<'a>,
    pub(super) name: &'t str,
    pub(super) instant: Option<Instant>,
    view: Option<Box<View<'s, 'a>>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Content {
    One,
    List,
    Map,
    Null,
    Name,
    Instant,
    /// A value that is rare in objects, such as bytes, a duration or embedded JSON, or the zero value of an
    /// absent field. A `View` contains it.
    View,
}

impl<'s, 'a, 't> Slot<'s, 'a, 't> {
    pub(super) fn new(schema: &'s Schema, depth: usize) -> Self {
        Self {
            schema,
            depth,
            content: Content::Null,
            base: Base::Any,
            count: 0,
            raw: Raw::Varint(0),
            name: "",
            instant: None,
            view: None,
        }
    }

    /// Returns a slot for one value that has not been read yet.
    pub(super) fn of(schema: &'s Schema, depth: usize, base: Base) -> Self {
        Self { content: Content::One, base, ..Self::new(schema, depth) }
    }

    pub(super) fn set(&mut self, content: Content, base: Base) {
        (self.content, self.base) = (content, base);
    }

    #[cold]
    pub(super) fn set_view(&mut self, view: View<'s, 'a>) {
        match view {
            View::Null => self.content = Content::Null,
            view => (self.content, self.view) = (Content::View, Some(Box::new(view))),
        }
    }

    pub(super) fn taken(&mut self) -> View<'s, 'a> {
        self.view.take().map_or(View::Null, |view| *view)
    }

    /// Returns the bytes of the value, if it is a single value of the type `base`.
    #[inline]
    pub(super) fn bytes_of(&self, base: Base) -> Option<&'a [u8]> {
        match self.raw {
            Raw::Bytes(bytes) if self.content == Content::One && self.base == base => Some(bytes),
            _ => None,
        }
    }

    /// Returns the value as an object, if it is a single message.
    #[inline]
    pub(super) fn message(&self) -> Option<Object<'s, 'a, 'static>> {
        match (self.content, self.base, self.raw) {
            (Content::One, Base::Message(id), Raw::Bytes(data)) => Some(self.object(id, data)),
            _ => None,
        }
    }

    fn object(&self, id: MessageId, data: &'a [u8]) -> Object<'s, 'a, 'static> {
        Object { schema: self.schema, id, data, depth: self.depth, type_meta: None }
    }

    /// Returns the values if the slot contains a list.
    #[inline]
    pub(super) fn entries(&self) -> Option<Entries<'s, 'a>> {
        match (self.content, self.raw) {
            (Content::List, Raw::Bytes(rest)) => {
                Some(Entries::new(rest, self.count, Slot::of(self.schema, self.depth, self.base)))
            }
            _ => None,
        }
    }

    #[inline]
    pub(super) fn map(&self) -> Option<Map<'s, 'a>> {
        match (self.content, self.raw) {
            (Content::Map, Raw::Bytes(rest)) => {
                Some(Map::new(rest, self.count, Slot::of(self.schema, self.depth, self.base)))
            }
            _ => None,
        }
    }

    #[inline(never)]
    pub(super) fn any<V: Visitor<'a>>(&mut self, visitor: V) -> Result<V::Value, Error> {
        let raw = self.raw;
        match self.content {
            Content::One => match self.base {
                Base::String => visitor.visit_borrowed_str(raw.text()?),
                Base::Bool => visitor.visit_bool(raw.varint()? != 0),
                Base::Int32 => visitor.visit_i64(truncated(raw.varint()?)),
                Base::Int64 => visitor.visit_i64(raw.varint()?.cast_signed()),
                Base::Double => visitor.visit_f64(raw.double()?),
                Base::Message(id) => self.object(id, raw.bytes()?).deserialize_any(visitor),
                base => {
                    let view = one(self.schema, base, &[(0, raw)], self.depth)?;
                    general::ViewValue(view, Unknown::Rejected).deserialize_any(visitor)
                }
            },
            Content::List => match self.entries() {
                Some(mut entries) => visitor.visit_seq(&mut entries),
                None => visitor.visit_unit(),
            },
            Content::Map => match self.map() {
                Some(mut map) => visitor.visit_map(&mut map),
                None => visitor.visit_unit(),
            },
            Content::Null => visitor.visit_unit(),
            Content::Name => visitor.visit_str(self.name),
            Content::Instant => match self.instant {
                Some(instant) => instant.with_text(|text| visitor.visit_str(text)),
                None => visitor.visit_unit(),
            },
            Content::View => general::ViewValue(self.taken(), Unknown::Rejected).deserialize_any(visitor),
        }
    }
}

/// Truncates a varint to its lower 32 bits, as Go does.
pub(super) fn truncated(value: u64) -> i64 {
    i64::from(value as i32)
}

//! Serde deserializers for the values in a protobuf message: one value, a list, and a map.

use serde::de::value::BorrowedStrDeserializer;
use serde::de::{self, DeserializeSeed, Deserializer, Visitor};
use serde::forward_to_deserialize_any;

use super::slot::{Content, Slot, truncated};
use crate::de::{Cause, Error, Unknown, general, type_error};
use crate::schema::field::Base;
use crate::transcode::view::{View, map_entry, one};
use crate::wire::{Raw, Reader};

/// Returns true if `raw` is a list of packed numbers. Kubernetes instead writes each number of type `base` as
/// a varint field of its own.
pub(super) fn is_packed_block(base: Base, raw: &Raw<'_>) -> bool {
    matches!((base, raw), (Base::Int32 | Base::Int64 | Base::Bool, Raw::Bytes(_)))
}

pub(super) struct StreamValue<'v, 's, 'a, 't>(pub(super) &'v mut Slot<'s, 'a, 't>);

impl<'a> Deserializer<'a> for StreamValue<'_, '_, 'a, '_> {
    type Error = Error;

    #[inline]
    fn deserialize_any<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Error> {
        self.0.any(visitor)
    }

    #[inline]
    fn deserialize_str<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.0.bytes_of(Base::String).map(std::str::from_utf8) {
            Some(Ok(text)) => visitor.visit_borrowed_str(text),
            _ => self.0.any(visitor),
        }
    }

    #[inline]
    fn deserialize_string<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_str(visitor)
    }

    #[inline]
    fn deserialize_bool<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Error> {
        match (self.0.content, self.0.base, self.0.raw) {
            (Content::One, Base::Bool, Raw::Varint(value)) => visitor.visit_bool(value != 0),
            _ => self.0.any(visitor),
        }
    }

    #[inline]
    fn deserialize_i32<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Error> {
        match (self.0.content, self.0.base, self.0.raw) {
            (Content::One, Base::Int32, Raw::Varint(value)) => visitor.visit_i64(truncated(value)),
            _ => self.0.any(visitor),
        }
    }

    #[inline]
    fn deserialize_i64<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Error> {
        match (self.0.content, self.0.base, self.0.raw) {
            (Content::One, Base::Int64, Raw::Varint(value)) => visitor.visit_i64(value.cast_signed()),
            _ => self.0.any(visitor),
        }
    }

    #[inline]
    fn deserialize_seq<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.0.entries() {
            Some(mut entries) => visitor.visit_seq(&mut entries),
            None => self.0.any(visitor),
        }
    }

    #[inline]
    fn deserialize_map<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.0.map() {
            Some(mut map) => visitor.visit_map(&mut map),
            None => self.0.any(visitor),
        }
    }

    #[inline]
    fn deserialize_struct<V: Visitor<'a>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        match self.0.message() {
            Some(message) => message.deserialize_any(visitor),
            None => self.0.any(visitor),
        }
    }

    #[inline]
    fn deserialize_option<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.0.content {
            Content::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    #[inline]
    fn deserialize_newtype_struct<V: Visitor<'a>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'a>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        let slot = self.0;
        let view = match slot.content {
            Content::Name => View::Text(slot.name.to_owned().into()),
            Content::One => one(slot.schema, slot.base, &[(0, slot.raw)], slot.depth)?,
            Content::View => slot.taken(),
            _ => return Err(type_error("a string")),
        };
        general::ViewValue(view, Unknown::Rejected).deserialize_enum(name, variants, visitor)
    }

    fn deserialize_ignored_any<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        <W: Visitor<'a>>
        i8 i16 i128 u8 u16 u32 u64 u128 f32 f64 char bytes byte_buf unit unit_struct tuple tuple_struct identifier
    }
}

pub(super) struct Entries<'s, 'a> {
    reader: Reader<'a>,
    left: u32,
    at: usize,
    value: Slot<'s, 'a, 'static>,
}

impl<'s, 'a> Entries<'s, 'a> {
    /// Returns the deserializer of `left` contiguous values of the type of `value`.
    pub(super) fn new(rest: &'a [u8], left: u32, value: Slot<'s, 'a, 'static>) -> Self {
        Self { reader: Reader::new(rest), left, at: 0, value }
    }
}

impl<'a> de::SeqAccess<'a> for Entries<'_, 'a> {
    type Error = Error;

    #[inline]
    fn next_element_seed<S: DeserializeSeed<'a>>(&mut self, seed: S) -> Result<Option<S::Value>, Error> {
        let Some(left) = self.left.checked_sub(1) else { return Ok(None) };
        self.left = left;
        self.reader.read(&mut self.value.raw)?;
        if is_packed_block(self.value.base, &self.value.raw) {
            return Err(Error::new(Cause::Irregular));
        }
        match seed.deserialize(StreamValue(&mut self.value)) {
            Ok(value) => {
                self.at += 1;
                Ok(Some(value))
            }
            Err(error) => Err(error.within(&format!("[{}]", self.at))),
        }
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.left as usize)
    }
}

pub(super) struct Map<'s, 'a> {
    reader: Reader<'a>,
    left: u32,
    /// The last key that was read; `None` before the first entry.
    key: Option<&'a str>,
    value: Slot<'s, 'a, 'static>,
}

impl<'s, 'a> Map<'s, 'a> {
    /// Returns the deserializer of `left` contiguous entries with values of the type of `value`.
    pub(super) fn new(rest: &'a [u8], left: u32, value: Slot<'s, 'a, 'static>) -> Self {
        Self { reader: Reader::new(rest), left, key: None, value }
    }

    /// Reads the next entry, and returns its key.
    fn advance(&mut self) -> Result<Option<&'a str>, Error> {
        let Some(left) = self.left.checked_sub(1) else { return Ok(None) };
        self.left = left;
        let mut raw = Raw::Varint(0);
        self.reader.read(&mut raw)?;
        let key = self.enter(raw)?;
        // Servers sort the keys of a map, and strictly ascending keys contain no duplicates. The module
        // `general` reads a map in another order.
        if self.key.is_some_and(|last| last >= key) {
            return Err(Error::new(Cause::Irregular));
        }
        self.key = Some(key);
        Ok(self.key)
    }

    fn enter(&mut self, entry: Raw<'a>) -> Result<&'a str, Error> {
        // Fast path: every known encoder writes the key of a map entry before its value.
        let (mut reader, mut key) = (Reader::new(entry.bytes()?), Raw::Varint(0));
        if reader.read(&mut key)? == 1 && reader.read(&mut self.value.raw)? == 2 && reader.is_at_end() {
            self.value.content = Content::One;
            return Ok(key.text()?);
        }
        let (key, value) = map_entry(entry)?;
        match value {
            Some((_, raw)) => (self.value.content, self.value.raw) = (Content::One, raw),
            None => {
                let view = one(self.value.schema, self.value.base, &[], self.value.depth);
                self.value.set_view(view.map_err(|fault| fault.within(key))?);
            }
        }
        Ok(key)
    }
}

impl<'a> de::MapAccess<'a> for Map<'_, 'a> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'a>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        let Some(key) = self.advance()? else { return Ok(None) };
        seed.deserialize(BorrowedStrDeserializer::new(key)).map(Some)
    }

    #[inline]
    fn next_value_seed<S: DeserializeSeed<'a>>(&mut self, seed: S) -> Result<S::Value, Error> {
        match seed.deserialize(StreamValue(&mut self.value)) {
            Err(error) => Err(error.within(self.key.unwrap_or_default())),
            read => read,
        }
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.left as usize)
    }
}

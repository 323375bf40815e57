//! Deserializes a message in one pass, provided it is encoded as servers write it.
//!
//! Fields are yielded in the order of the protobuf message; no serde visitor relies on another order. Fields
//! that JSON contains although the message does not are yielded last.
//!
//! Visitors usually call the method for the type they expect (`deserialize_string`, `deserialize_struct`,
//! ..), which is nearly always the type of the value. These methods are fast paths; all other cases use
//! [`Slot::any`].

mod slot;
mod value;

use serde::de::value::StrDeserializer;
use serde::de::{self, DeserializeSeed, Deserializer, Visitor};
use serde::forward_to_deserialize_any;

use self::slot::{Content, Slot, truncated};
use self::value::{StreamValue, is_packed_block};
use super::{Cause, Error};
use crate::error::{Fault, Problem};
use crate::schema::field::{Base, FieldData, Shape};
use crate::schema::{MessageId, Schema};
use crate::transcode::MAX_DEPTH;
use crate::transcode::is_type_meta;
use crate::transcode::view::{IndexedRaw, Instant, MessageView, Pieces, View};
use crate::wire::{Raw, Reader};

pub(super) struct Object<'s, 'a, 't> {
    schema: &'s Schema,
    id: MessageId,
    data: &'a [u8],
    depth: usize,
    type_meta: Option<(&'t str, &'t str)>,
}

impl<'s, 'a, 't> Object<'s, 'a, 't> {
    pub(super) fn new(
        schema: &'s Schema,
        id: MessageId,
        data: &'a [u8],
        type_meta: Option<(&'t str, &'t str)>,
    ) -> Self {
        Self { schema, id, data, depth: 0, type_meta }
    }
}

impl<'a> Deserializer<'a> for Object<'_, 'a, '_> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Error> {
        let Self { schema, id, data, depth, type_meta } = self;
        let frame = StreamFrame::begin(schema, id, data, depth)?;
        let value = Slot::new(schema, depth + 1);
        // `StreamMembers` is passed by reference, because it is large and serde would move it.
        visitor.visit_map(&mut StreamMembers {
            frame,
            outer: Vec::new(),
            type_meta,
            kind: None,
            name: "",
            value,
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

    fn deserialize_ignored_any<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        <W: Visitor<'a>>
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map struct enum identifier
    }
}

struct StreamFrame<'s, 'a> {
    reader: Reader<'a>,
    /// The offset of the first byte of the field that was read last.
    before: usize,
    fields: &'s [FieldData],
    numbers: &'s [u8],
    /// The fields that were read, one bit per field index.
    seen: u64,
    /// The fields that JSON contains even if the message does not, one bit per field index. Once the end of
    /// the message is reached, the bits of fields that were read or yielded are cleared.
    always: u64,
    depth: usize,
}

impl<'s, 'a> StreamFrame<'s, 'a> {
    fn begin(schema: &'s Schema, id: MessageId, data: &'a [u8], depth: usize) -> Result<Self, Problem> {
        if depth > MAX_DEPTH {
            return Err(Problem::TooDeep);
        }
        Ok(Self {
            reader: Reader::new(data),
            before: 0,
            fields: schema.fields_of(id),
            numbers: schema.numbers_of(id),
            seen: 0,
            always: schema.message_at(id).data.always,
            depth,
        })
    }

    /// Reads the next field. Unknown and repeated fields are errors. `run` reads all contiguous entries of a
    /// list or map as one field, so they do not count as repeated fields.
    #[inline]
    fn next(&mut self, raw: &mut Raw<'a>) -> Result<Option<&'s FieldData>, Error> {
        self.before = self.reader.position();
        let number = self.reader.read(raw)?;
        if number == 0 {
            return Ok(None);
        }
        // The field is from a newer server. `general` applies the policy for unknown fields.
        let Some(place) = place(self.numbers, number) else { return Err(Error::new(Cause::Irregular)) };
        let (field, bit) = (&self.fields[place], 1 << place);
        if self.seen & bit != 0 || is_packed(field, raw) {
            return Err(Error::new(Cause::Irregular));
        }
        self.seen |= bit;
        Ok(Some(field))
    }

    fn next_absent(&mut self) -> Option<&'s FieldData> {
        self.always &= !self.seen;
        let field = self.fields.get(self.always.trailing_zeros() as usize)?;
        self.always &= self.always - 1;
        Some(field)
    }

    /// Skips the remaining values of a list or map whose first value has just been read. Returns the number
    /// of all its values, and the bytes of the message from the first value on.
    fn run(&mut self, field: &FieldData) -> Result<(u32, &'a [u8]), Problem> {
        let (mut count, mut raw) = (1, Raw::Varint(0));
        loop {
            let here = self.reader.clone();
            if self.reader.read(&mut raw)? != u32::from(field.number) {
                self.reader = here;
                return Ok((count, self.reader.bytes_from(self.before)));
            }
            count += 1;
        }
    }
}

fn place(numbers: &[u8], number: u32) -> Option<usize> {
    usize::from(*numbers.get(number as usize)?).checked_sub(1)
}

/// Returns true if the field is a list of numbers in packed encoding.
fn is_packed(field: &FieldData, raw: &Raw<'_>) -> bool {
    field.shape == Shape::List && is_packed_block(field.base, raw)
}

/// A serde map of the fields of a message. The fields of an embedded Go struct appear as fields of the
/// message, as in JSON.
struct StreamMembers<'s, 'a, 't> {
    frame: StreamFrame<'s, 'a>,
    outer: Vec<StreamFrame<'s, 'a>>,
    type_meta: Option<(&'t str, &'t str)>,
    /// The `kind` of the object, which is yielded as the field after `apiVersion`; `None` before and
    /// afterwards.
    kind: Option<&'t str>,
    /// The name of the field whose value is next.
    name: &'s str,
    value: Slot<'s, 'a, 't>,
}

impl<'s, 'a> StreamMembers<'s, 'a, '_> {
    /// Advances to the next field; returns false at the end.
    #[inline]
    fn advance(&mut self) -> Result<bool, Error> {
        loop {
            if let Some(kind) = self.kind.take().filter(|kind| !kind.is_empty()) {
                (self.name, self.value.name, self.value.content) = ("kind", kind, Content::Name);
                break;
            }
            let is_member = match self.frame.next(&mut self.value.raw)? {
                Some(field) => {
                    self.name = field.name;
                    self.present(field)?
                }
                None => match self.frame.next_absent() {
                    Some(field) => {
                        self.name = field.name;
                        self.absent(field)?
                    }
                    None => match self.outer.pop() {
                        Some(outer) => {
                            self.frame = outer;
                            false
                        }
                        None => return Ok(false),
                    },
                },
            };
            if is_member {
                break;
            }
        }
        self.value.depth = self.frame.depth + 1;
        Ok(true)
    }

    fn enter(&mut self, id: MessageId, data: &'a [u8]) -> Result<(), Error> {
        let frame = StreamFrame::begin(self.value.schema, id, data, self.frame.depth + 1)?;
        self.outer.push(std::mem::replace(&mut self.frame, frame));
        Ok(())
    }

    /// Sets `value` for a field that the message contains. Returns false if JSON omits the field, or if it is
    /// an embedded Go struct, whose fields follow.
    #[inline]
    fn present(&mut self, field: &'s FieldData) -> Result<bool, Error> {
        match (field.shape, field.base) {
            (Shape::List | Shape::Map, base) => {
                let (count, rest) = self.frame.run(field)?;
                (self.value.count, self.value.raw) = (count, Raw::Bytes(rest));
                let is_list = field.shape == Shape::List;
                self.value.set(if is_list { Content::List } else { Content::Map }, base);
            }
            (_, Base::Message(id)) if field.flags.inline => {
                self.enter(id, self.value.raw.bytes()?)?;
                return Ok(false);
            }
            (_, Base::String | Base::Bool | Base::Int32 | Base::Int64 | Base::Double)
                if is_omitted(field, &self.value.raw) =>
            {
                return Ok(false);
            }
            (
                _,
                base @ (Base::String
                | Base::Bool
                | Base::Int32
                | Base::Int64
                | Base::Double
                | Base::Quantity
                | Base::IntOrString
                | Base::Message(_)),
            ) => self.value.set(Content::One, base),
            (_, base @ (Base::Time | Base::MicroTime)) => {
                self.value.instant = Instant::read(self.value.raw.bytes()?, base == Base::MicroTime)?;
                if self.value.instant.is_none() && field.flags.omit_zero {
                    return Ok(false);
                }
                let is_there = self.value.instant.is_some();
                self.value.set(if is_there { Content::Instant } else { Content::Null }, base);
            }
            _ => return self.set_view(field, &[(0, self.value.raw)]),
        }
        Ok(true)
    }

    /// Sets `value` for a field that is absent in the message: to the type of the object for `apiVersion` and
    /// `kind`, otherwise to the zero value. Returns false if JSON omits the field, or if it is an embedded Go
    /// struct, whose fields follow.
    fn absent(&mut self, field: &'s FieldData) -> Result<bool, Error> {
        if is_type_meta(field) {
            let (kind, api_version) = self.type_meta.take().unwrap_or_default();
            self.kind = Some(kind);
            (self.name, self.value.name, self.value.content) = ("apiVersion", api_version, Content::Name);
            return Ok(!api_version.is_empty());
        }
        match (field.shape, field.base) {
            (Shape::Value, Base::Message(id)) if field.flags.inline => {
                self.enter(id, &[])?;
                Ok(false)
            }
            (Shape::Value, base @ Base::Message(_)) => {
                self.value.set(Content::One, base);
                self.value.raw = Raw::Bytes(&[]);
                Ok(true)
            }
            _ => self.set_view(field, &[]),
        }
    }

    #[cold]
    fn set_view(&mut self, field: &FieldData, raws: &[IndexedRaw<'a>]) -> Result<bool, Error> {
        let view = self.view(field, raws)?;
        let is_member = view.is_some();
        view.into_iter().for_each(|view| self.value.set_view(view));
        Ok(is_member)
    }

    fn view(&self, field: &FieldData, raws: &[IndexedRaw<'a>]) -> Result<Option<View<'s, 'a>>, Fault> {
        let depth = self.frame.depth;
        // `MessageView::view` reads only `schema` and `depth` of the message; the other members are
        // placeholders.
        MessageView { schema: self.value.schema, id: MessageId(0), pieces: Pieces::None, depth }
            .view(field, raws)
    }
}

/// Returns true if JSON omits the field because its value is zero and Go's `omitempty` is set.
fn is_omitted(field: &FieldData, raw: &Raw<'_>) -> bool {
    field.flags.omit_empty
        && field.shape == Shape::Value
        && match (field.base, raw) {
            (Base::String, Raw::Bytes(text)) => text.is_empty(),
            (Base::Bool | Base::Int64, Raw::Varint(value)) => *value == 0,
            (Base::Int32, Raw::Varint(value)) => truncated(*value) == 0,
            (Base::Double, Raw::Fixed64(bits)) => f64::from_bits(*bits) == 0.0,
            _ => false,
        }
}

impl<'a> de::MapAccess<'a> for StreamMembers<'_, 'a, '_> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'a>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        if self.advance()? { seed.deserialize(StrDeserializer::new(self.name)).map(Some) } else { Ok(None) }
    }

    #[inline]
    fn next_value_seed<S: DeserializeSeed<'a>>(&mut self, seed: S) -> Result<S::Value, Error> {
        // `map_err` is avoided, because it would move the decoded value, which may be large.
        match seed.deserialize(StreamValue(&mut self.value)) {
            Err(error) => Err(error.within(self.name)),
            read => read,
        }
    }
}

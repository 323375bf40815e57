//! A message as servers write it, handed on while it is read.
//!
//! The order of members is that of the wire; no visitor of serde relies on another. What the wire does not have and JSON has
//! all the same comes last.

use serde::de::value::{BorrowedStrDeserializer, StrDeserializer};
use serde::de::{self, DeserializeSeed, Deserializer, Visitor};
use serde::forward_to_deserialize_any;

use super::{Cause, Error, general, refused};
use crate::error::{Fault, Problem};
use crate::field::{Base, FieldData, Shape};
use crate::schema::{MessageId, Schema};
use crate::transcode::MAX_DEPTH;
use crate::transcode::is_type_meta;
use crate::transcode::view::{Instant, MessageView, Pieces, Placed, View, map_entry, one};
use crate::wire::{Raw, Reader};

/// A message.
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
        let frame = Frame::begin(schema, id, data, depth)?;
        let value = Slot::new(schema, depth + 1);
        visitor.visit_map(Members { frame, outer: Vec::new(), type_meta, kind: None, name: "", value })
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

/// A message that is being read.
struct Frame<'s, 'a> {
    reader: Reader<'a>,
    fields: &'s [FieldData],
    numbers: &'s [u8],
    /// The fields that were read, by their places.
    seen: u64,
    /// The fields that JSON has whether or not the wire has them; once that is over, those that it had not and were not told yet.
    always: u64,
    depth: usize,
}

impl<'s, 'a> Frame<'s, 'a> {
    fn begin(schema: &'s Schema, id: MessageId, data: &'a [u8], depth: usize) -> Result<Self, Problem> {
        if depth > MAX_DEPTH {
            return Err(Problem::TooDeep);
        }
        Ok(Self {
            reader: Reader::new(data),
            fields: schema.fields_of(id),
            numbers: schema.numbers_of(id),
            seen: 0,
            always: schema.message_at(id).data.always,
            depth,
        })
    }

    /// The next field that the table knows, and where it stands. A field that was there before is an error: runs of lists and
    /// maps were passed as one.
    #[inline]
    fn next(&mut self) -> Result<Option<(usize, &'s FieldData, Raw<'a>)>, Error> {
        loop {
            let before = self.reader.position();
            let Some((number, raw)) = self.reader.next()? else { return Ok(None) };
            if let Some(place) = place(self.numbers, number) {
                let (field, bit) = (&self.fields[place], 1 << place);
                if self.seen & bit != 0 || is_packed(field, raw) {
                    return Err(Error::new(Cause::Irregular));
                }
                self.seen |= bit;
                return Ok(Some((before, field, raw)));
            }
        }
    }

    fn next_absent(&mut self) -> Option<&'s FieldData> {
        self.always &= !self.seen;
        let field = self.fields.get(self.always.trailing_zeros() as usize)?;
        self.always &= self.always - 1;
        Some(field)
    }

    /// Goes over the other values of a list or map, of which `before` stands before the first.
    fn run(&mut self, before: usize, field: &FieldData) -> Result<Run<'a>, Problem> {
        let mut count = 1;
        loop {
            let here = self.reader.clone();
            match self.reader.next()? {
                Some((number, _)) if number == u32::from(field.number) => count += 1,
                _ => {
                    self.reader = here;
                    return Ok(Run { rest: self.reader.behind(before), count });
                }
            }
        }
    }
}

fn place(numbers: &[u8], number: u32) -> Option<usize> {
    usize::from(*numbers.get(number as usize)?).checked_sub(1)
}

/// Numbers of a list may come as one block.
fn is_packed(field: &FieldData, raw: Raw<'_>) -> bool {
    field.shape == Shape::List && is_block(field.base, raw)
}

fn is_block(base: Base, raw: Raw<'_>) -> bool {
    matches!((base, raw), (Base::Int32 | Base::Int64 | Base::Bool, Raw::Bytes(_)))
}

/// Values side by side.
#[derive(Clone, Copy)]
struct Run<'a> {
    /// The message from the first of them on.
    rest: &'a [u8],
    count: u32,
}

impl<'a> Run<'a> {
    #[inline]
    fn next(&mut self) -> Result<Option<Raw<'a>>, Problem> {
        let Some(left) = self.count.checked_sub(1) else { return Ok(None) };
        self.count = left;
        let mut reader = Reader::new(self.rest);
        let raw = reader.next()?.map(|(_, raw)| raw);
        self.rest = &self.rest[reader.position()..];
        Ok(raw)
    }
}

/// A value that is to be handed on. It is written where it is read from, and lent: moved about, what was just stored in parts would be
/// loaded as a whole, for which the processor waits.
struct Slot<'s, 'a, 't> {
    schema: &'s Schema,
    /// How deep the value stands.
    depth: usize,
    content: Content<'a, 't>,
    /// What [`Content::View`] stands for.
    view: Option<View<'s, 'a>>,
}

#[derive(Clone, Copy)]
enum Content<'a, 't> {
    Name(&'t str),
    One(Base, Raw<'a>),
    List(Base, Run<'a>),
    Map(Base, Run<'a>),
    /// A message of which the wire has nothing.
    Empty(MessageId),
    Null,
    Instant(Instant),
    /// All that is seldom.
    View,
}

impl<'s, 'a, 't> Slot<'s, 'a, 't> {
    fn new(schema: &'s Schema, depth: usize) -> Self {
        Self { schema, depth, content: Content::Null, view: None }
    }

    #[cold]
    fn set_view(&mut self, view: View<'s, 'a>) {
        match view {
            View::Null => self.content = Content::Null,
            view => (self.content, self.view) = (Content::View, Some(view)),
        }
    }

    fn taken(&mut self) -> View<'s, 'a> {
        self.view.take().unwrap_or(View::Null)
    }

    fn object(&self, id: MessageId, data: &'a [u8]) -> Object<'s, 'a, 'static> {
        Object { schema: self.schema, id, data, depth: self.depth, type_meta: None }
    }
}

/// The members of a message; those of embedded types stand among them.
struct Members<'s, 'a, 't> {
    frame: Frame<'s, 'a>,
    outer: Vec<Frame<'s, 'a>>,
    type_meta: Option<(&'t str, &'t str)>,
    /// The kind, once the version was handed on.
    kind: Option<&'t str>,
    /// The name of the member whose value is next.
    name: &'s str,
    value: Slot<'s, 'a, 't>,
}

impl<'s, 'a, 't> Members<'s, 'a, 't> {
    /// Goes to the next member; false where there is none.
    fn advance(&mut self) -> Result<bool, Error> {
        loop {
            if let Some(kind) = self.kind.take().filter(|kind| !kind.is_empty()) {
                (self.name, self.value.content) = ("kind", Content::Name(kind));
                break;
            }
            let is_member = match self.frame.next()? {
                Some((before, field, raw)) => {
                    self.name = field.name;
                    self.present(before, field, raw)?
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
        let frame = Frame::begin(self.value.schema, id, data, self.frame.depth + 1)?;
        self.outer.push(std::mem::replace(&mut self.frame, frame));
        Ok(())
    }

    /// What the wire has of a field; false where JSON has no such member, or it is entered.
    fn present(&mut self, before: usize, field: &'s FieldData, raw: Raw<'a>) -> Result<bool, Error> {
        match (field.shape, field.base) {
            (Shape::List, base) => self.value.content = Content::List(base, self.frame.run(before, field)?),
            (Shape::Map, base) => self.value.content = Content::Map(base, self.frame.run(before, field)?),
            (_, Base::Message(id)) if field.flags.inline => {
                self.enter(id, raw.bytes()?)?;
                return Ok(false);
            }
            (_, Base::String | Base::Bool | Base::Int32 | Base::Int64 | Base::Double)
                if is_left_out(field, raw) =>
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
            ) => self.value.content = Content::One(base, raw),
            (_, Base::Time | Base::MicroTime) => {
                match Instant::read(raw.bytes()?, field.base == Base::MicroTime)? {
                    None if field.flags.omit_zero => return Ok(false),
                    None => self.value.content = Content::Null,
                    Some(instant) => self.value.content = Content::Instant(instant),
                }
            }
            _ => return self.set_view(field, &[(0, raw)]),
        }
        Ok(true)
    }

    /// What JSON has of a field that the wire does not have; false where that is nothing.
    fn absent(&mut self, field: &'s FieldData) -> Result<bool, Error> {
        if is_type_meta(field) {
            let (kind, api_version) = self.type_meta.take().unwrap_or_default();
            self.kind = Some(kind);
            (self.name, self.value.content) = ("apiVersion", Content::Name(api_version));
            return Ok(!api_version.is_empty());
        }
        match (field.shape, field.base) {
            (Shape::Value, Base::Message(id)) if field.flags.inline => {
                self.enter(id, &[])?;
                Ok(false)
            }
            (Shape::Value, Base::Message(id)) => {
                self.value.content = Content::Empty(id);
                Ok(true)
            }
            _ => self.set_view(field, &[]),
        }
    }

    fn set_view(&mut self, field: &FieldData, raws: &[Placed<'a>]) -> Result<bool, Error> {
        let view = self.view(field, raws)?;
        let is_member = view.is_some();
        view.into_iter().for_each(|view| self.value.set_view(view));
        Ok(is_member)
    }

    fn view(&self, field: &FieldData, raws: &[Placed<'a>]) -> Result<Option<View<'s, 'a>>, Fault> {
        let depth = self.frame.depth;
        // Only the table and the depth matter where the field itself is given.
        MessageView { schema: self.value.schema, id: MessageId(0), pieces: Pieces::None, depth }
            .view(field, raws)
    }
}

/// Whether `omitempty` leaves a scalar out.
fn is_left_out(field: &FieldData, raw: Raw<'_>) -> bool {
    field.flags.omit_empty
        && field.shape == Shape::Value
        && match (field.base, raw) {
            (Base::String, Raw::Bytes(text)) => text.is_empty(),
            (Base::Bool | Base::Int64, Raw::Varint(value)) => value == 0,
            // Upstream keeps the lower 32 bits of whatever is there.
            (Base::Int32, Raw::Varint(value)) => value as u32 == 0,
            (Base::Double, Raw::Fixed64(bits)) => f64::from_bits(bits) == 0.0,
            _ => false,
        }
}

impl<'a> de::MapAccess<'a> for Members<'_, 'a, '_> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'a>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        match self.advance()? {
            true => seed.deserialize(StrDeserializer::new(self.name)).map(Some),
            false => Ok(None),
        }
    }

    fn next_value_seed<S: DeserializeSeed<'a>>(&mut self, seed: S) -> Result<S::Value, Error> {
        seed.deserialize(Value(&mut self.value)).map_err(|error| error.within(self.name))
    }
}

/// One value.
struct Value<'v, 's, 'a, 't>(&'v mut Slot<'s, 'a, 't>);

impl<'a> Deserializer<'a> for Value<'_, '_, 'a, '_> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Error> {
        let slot = self.0;
        let (schema, depth) = (slot.schema, slot.depth);
        match slot.content {
            Content::Name(text) => visitor.visit_str(text),
            Content::One(base, raw) => match base {
                Base::String => visitor.visit_borrowed_str(raw.text()?),
                Base::Bool => visitor.visit_bool(raw.varint()? != 0),
                // Upstream keeps the lower 32 bits of whatever is there.
                Base::Int32 => visitor.visit_i64(i64::from(raw.varint()? as i32)),
                Base::Int64 => visitor.visit_i64(raw.varint()?.cast_signed()),
                Base::Double => visitor.visit_f64(raw.double()?),
                Base::Message(id) => slot.object(id, raw.bytes()?).deserialize_any(visitor),
                base => general::Value(one(schema, base, &[(0, raw)], depth)?).deserialize_any(visitor),
            },
            Content::List(base, run) => {
                visitor.visit_seq(Entries { base, run, at: 0, value: Slot::new(schema, depth) })
            }
            Content::Map(base, run) => {
                visitor.visit_map(Map { base, run, key: None, value: Slot::new(schema, depth) })
            }
            Content::Empty(id) => slot.object(id, &[]).deserialize_any(visitor),
            Content::Null => visitor.visit_unit(),
            Content::Instant(instant) => instant.told(|text| visitor.visit_str(text)),
            Content::View => general::Value(slot.taken()).deserialize_any(visitor),
        }
    }

    fn deserialize_option<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.0.content {
            Content::Null => visitor.visit_none(),
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
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        let slot = self.0;
        let view = match slot.content {
            Content::Name(text) => View::Text(text.to_owned().into()),
            Content::One(base, raw) => one(slot.schema, base, &[(0, raw)], slot.depth)?,
            Content::View => slot.taken(),
            _ => return Err(refused("a word")),
        };
        general::Value(view).deserialize_enum(name, variants, visitor)
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

struct Entries<'s, 'a> {
    base: Base,
    run: Run<'a>,
    at: usize,
    value: Slot<'s, 'a, 'static>,
}

impl<'a> de::SeqAccess<'a> for Entries<'_, 'a> {
    type Error = Error;

    fn next_element_seed<S: DeserializeSeed<'a>>(&mut self, seed: S) -> Result<Option<S::Value>, Error> {
        let Some(raw) = self.run.next()? else { return Ok(None) };
        if is_block(self.base, raw) {
            return Err(Error::new(Cause::Irregular));
        }
        self.value.content = Content::One(self.base, raw);
        let value = seed.deserialize(Value(&mut self.value));
        let value = value.map_err(|error| error.within(&format!("[{}]", self.at)))?;
        self.at += 1;
        Ok(Some(value))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.run.count as usize)
    }
}

struct Map<'s, 'a> {
    base: Base,
    run: Run<'a>,
    /// The key whose value is next, or the last one.
    key: Option<&'a str>,
    value: Slot<'s, 'a, 'static>,
}

impl<'a> de::MapAccess<'a> for Map<'_, 'a> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'a>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        let Some(raw) = self.run.next()? else { return Ok(None) };
        let (key, value) = map_entry(raw)?;
        // Servers write keys in their order; then none is there twice.
        if self.key.is_some_and(|last| last >= key) {
            return Err(Error::new(Cause::Irregular));
        }
        self.key = Some(key);
        match value {
            Some((_, raw)) => self.value.content = Content::One(self.base, raw),
            None => {
                let view = one(self.value.schema, self.base, &[], self.value.depth);
                self.value.set_view(view.map_err(|fault| fault.within(key))?);
            }
        }
        seed.deserialize(BorrowedStrDeserializer::new(key)).map(Some)
    }

    fn next_value_seed<S: DeserializeSeed<'a>>(&mut self, seed: S) -> Result<S::Value, Error> {
        let value = seed.deserialize(Value(&mut self.value));
        value.map_err(|error| error.within(self.key.unwrap_or_default()))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.run.count as usize)
    }
}

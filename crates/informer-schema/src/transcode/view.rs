//! Decodes a protobuf message with the schema table into fields and the values that they have in JSON.
//!
//! The JSON writer and the serde deserializer both use this view, which ensures that they yield the same
//! fields.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::MAX_DEPTH;
use crate::error::{Fault, Problem};
use crate::schema::field::{Base, FieldData, Shape};
use crate::schema::{MessageId, Schema};
use crate::wire::{Raw, Reader, each_field};
use crate::{duration, quantity, time};

/// The bytes of one message. Protobuf allows a message to be split into several pieces, which are merged.
#[derive(Clone, Debug)]
pub(crate) enum Pieces<'a> {
    /// No bytes: every field is absent.
    None,
    /// One piece, as every encoder writes it.
    One(&'a [u8]),
    /// Several pieces, which the protobuf format allows.
    Many(Vec<&'a [u8]>),
}

impl<'a> Pieces<'a> {
    fn of(raws: &[IndexedRaw<'a>]) -> Result<Self, Problem> {
        match *raws {
            [] => Ok(Self::None),
            [(_, one)] => one.bytes().map(Self::One),
            _ => raws.iter().map(|(_, raw)| raw.bytes()).collect::<Result<_, _>>().map(Self::Many),
        }
    }

    pub(crate) fn as_slice(&self) -> &[&'a [u8]] {
        match self {
            Self::None => &[],
            Self::One(one) => std::slice::from_ref(one),
            Self::Many(many) => many,
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct MessageView<'s, 'a> {
    pub(crate) schema: &'s Schema,
    pub(crate) id: MessageId,
    pub(crate) pieces: Pieces<'a>,
    pub(crate) depth: usize,
}

/// One value in its JSON representation.
#[derive(Clone, Debug)]
pub(crate) enum View<'s, 'a> {
    Null,
    Bool(bool),
    Integer(i64),
    Double(f64),
    Text(Cow<'a, str>),
    Json(&'a [u8]),
    Message(MessageView<'s, 'a>),
    List(Many<'s, 'a>),
    /// The entries of a map, which are not decoded yet.
    Map(Many<'s, 'a>),
}

/// The values of a list or map.
#[derive(Clone, Debug)]
pub(crate) struct Many<'s, 'a> {
    pub(crate) schema: &'s Schema,
    pub(crate) base: Base,
    pub(crate) raws: Vec<IndexedRaw<'a>>,
    pub(crate) depth: usize,
}

/// The value of a field in the protobuf message, with the index of the field in its message type.
pub(crate) type IndexedRaw<'a> = (u8, Raw<'a>);

/// The fields of a protobuf message, sorted by field index, and by position for equal indexes.
#[derive(Debug)]
pub(crate) struct WireFields<'a> {
    pairs: Vec<IndexedRaw<'a>>,
    at: usize,
    /// The fields that JSON may contain and that were not returned yet, one bit per field index.
    remaining: u64,
}

impl<'s, 'a> MessageView<'s, 'a> {
    pub(crate) fn new(schema: &'s Schema, id: MessageId, data: &'a [u8]) -> Self {
        Self { schema, id, pieces: Pieces::One(data), depth: 0 }
    }

    pub(crate) fn fields(&self) -> &'s [FieldData] {
        self.schema.fields_of(self.id)
    }

    pub(crate) fn find(&self) -> Result<WireFields<'a>, Problem> {
        if self.depth > MAX_DEPTH {
            return Err(Problem::TooDeep);
        }
        let mut pairs: Vec<IndexedRaw<'a>> = Vec::with_capacity(8);
        let mut sorted = true;
        let mut remaining = self.schema.message_at(self.id).data.always;
        for piece in self.pieces.as_slice() {
            let mut reader = Reader::new(piece);
            while let Some((number, raw)) = reader.next()? {
                // Fields that the schema table does not know are skipped.
                let Some(place) = self.schema.index_by_number(self.id, number) else { continue };
                let place = place as u8;
                sorted &= pairs.last().is_none_or(|(last, _)| *last <= place);
                remaining |= 1 << place;
                pairs.push((place, raw));
            }
        }
        if !sorted {
            pairs.sort_by_key(|(place, _)| *place);
        }
        Ok(WireFields { pairs, at: 0, remaining })
    }

    /// Returns true if the message itself, or a Go struct embedded in it, has fields that the schema table
    /// does not know. Nested values are not checked.
    pub(crate) fn has_unknown_members(&self) -> Result<bool, Problem> {
        let (fields, mut unknown) = (self.fields(), false);
        for piece in self.pieces.as_slice() {
            each_field(piece, |number, raw| {
                match self.schema.index_by_number(self.id, number).map(|place| &fields[place]) {
                    None => unknown = true,
                    Some(FieldData { base: Base::Message(id), flags, .. }) if flags.inline => {
                        let embedded = MessageView::new(self.schema, *id, raw.bytes()?);
                        unknown |= embedded.has_unknown_members()?;
                    }
                    Some(_) => {}
                }
                Ok(())
            })?;
        }
        Ok(unknown)
    }

    /// Returns the value for the key `wanted` in the map `field` of this message. If the key occurs more than
    /// once, the last value is used.
    pub(crate) fn entry(&self, field: &FieldData, wanted: &str) -> Result<Option<View<'s, 'a>>, Fault> {
        let mut found = None;
        for piece in self.pieces.as_slice() {
            each_field(piece, |number, raw| {
                if number == u32::from(field.number) {
                    let (key, value) = map_entry(raw)?;
                    found = if key == wanted { Some((key, value)) } else { found };
                }
                Ok(())
            })?;
        }
        let Some((key, value)) = found else { return Ok(None) };
        let context = Context { schema: self.schema, depth: self.depth + 1 };
        context.one(field.base, value.as_slice()).map(Some).map_err(|fault| fault.within(key))
    }

    /// Returns the value of a field; `None` if JSON omits it.
    pub(crate) fn view(
        &self,
        field: &FieldData,
        raws: &[IndexedRaw<'a>],
    ) -> Result<Option<View<'s, 'a>>, Fault> {
        let view = self.value(field, raws).map_err(|fault| fault.within(field.name))?;
        let flags = field.flags;
        let left_out = |view: &View<'_, '_>| {
            flags.omit_empty && is_empty(field, view) || flags.omit_zero && matches!(view, View::Null)
        };
        Ok(view.filter(|view| !left_out(view)))
    }

    fn value(&self, field: &FieldData, raws: &[IndexedRaw<'a>]) -> Result<Option<View<'s, 'a>>, Fault> {
        let context = Context { schema: self.schema, depth: self.depth + 1 };
        let absent = if field.flags.omit_empty { None } else { Some(View::Null) };
        let many = |raws| Many { schema: self.schema, base: field.base, raws, depth: self.depth + 1 };
        match field.shape {
            // A server always writes the items of a list of objects to JSON, because protobuf cannot
            // distinguish an absent list from an empty one.
            Shape::List if raws.is_empty() && self.depth == 0 && field.name == "items" => {
                Ok(Some(View::List(many(Vec::new()))))
            }
            Shape::List | Shape::Map if raws.is_empty() => Ok(absent),
            Shape::List => Ok(Some(View::List(many(unpacked(field.base, raws)?)))),
            Shape::Map => Ok(Some(View::Map(many(raws.to_vec())))),
            Shape::Pointer if raws.is_empty() => Ok(absent),
            Shape::Value if raws.is_empty() && matches!(field.base, Base::Bytes | Base::Strings(_)) => {
                Ok(absent)
            }
            Shape::Pointer | Shape::Value => context.one(field.base, raws).map(Some),
        }
    }
}

/// Returns true if Go's `omitempty` omits this value. Structs and pointers are never omitted.
fn is_empty(field: &FieldData, view: &View<'_, '_>) -> bool {
    match (field.shape, view) {
        (Shape::Value, View::Bool(value)) => !value,
        (Shape::Value, View::Double(value)) => *value == 0.0,
        (Shape::Value, View::Integer(value)) => *value == 0 && field.base != Base::IntOrString,
        (Shape::Value, View::Text(text)) => {
            text.is_empty() && matches!(field.base, Base::String | Base::Bytes)
        }
        (Shape::Value, View::List(many)) => many.raws.is_empty(),
        _ => false,
    }
}

fn unpacked<'a>(base: Base, raws: &[IndexedRaw<'a>]) -> Result<Vec<IndexedRaw<'a>>, Problem> {
    if !matches!(base, Base::Int32 | Base::Int64 | Base::Bool)
        || !raws.iter().any(|(_, raw)| matches!(raw, Raw::Bytes(_)))
    {
        return Ok(raws.to_vec());
    }
    let mut all = Vec::new();
    for (_, raw) in raws {
        let Raw::Bytes(block) = raw else {
            all.push((0, *raw));
            continue;
        };
        let mut reader = Reader::new(block);
        while reader.position() < block.len() {
            all.push((0, Raw::Varint(reader.varint()?)));
        }
    }
    Ok(all)
}

impl<'a> WireFields<'a> {
    /// Returns the index of the next field that JSON may contain, and all values of this field in the
    /// message, which may be none.
    pub(crate) fn next(&mut self) -> Option<(usize, &[IndexedRaw<'a>])> {
        let place = self.remaining.trailing_zeros() as usize;
        if self.remaining == 0 {
            return None;
        }
        self.remaining &= self.remaining - 1;
        let start = self.at;
        while self.pairs.get(self.at).is_some_and(|(found, _)| usize::from(*found) == place) {
            self.at += 1;
        }
        Some((place, &self.pairs[start..self.at]))
    }
}

impl<'s, 'a> Many<'s, 'a> {
    pub(crate) fn entry(&self, raw: IndexedRaw<'a>) -> Result<View<'s, 'a>, Fault> {
        Context { schema: self.schema, depth: self.depth }.one(self.base, &[raw])
    }

    /// Returns the value for a key of this map. If the key occurs more than once, the last value is used.
    pub(crate) fn get(&self, name: &str) -> Result<Option<View<'s, 'a>>, Fault> {
        let context = Context { schema: self.schema, depth: self.depth };
        for (_, raw) in self.raws.iter().rev() {
            let (key, value) = map_entry(*raw)?;
            if key == name {
                return context.one(self.base, value.as_slice()).map(Some).map_err(|fault| fault.within(key));
            }
        }
        Ok(None)
    }

    /// Returns the entries of a map, sorted by key; of a duplicate key the last value is used.
    pub(crate) fn sorted(&self) -> Result<Vec<(&'a str, View<'s, 'a>)>, Fault> {
        let context = Context { schema: self.schema, depth: self.depth };
        let mut entries = Vec::with_capacity(self.raws.len());
        for (_, raw) in &self.raws {
            let (key, value) = map_entry(*raw)?;
            let view = context.one(self.base, value.as_slice());
            entries.push((key, view.map_err(|fault| fault.within(key))?));
        }
        entries.sort_by_key(|(key, _)| *key);
        let mut kept: Vec<(&'a str, View<'s, 'a>)> = Vec::with_capacity(entries.len());
        for entry in entries {
            match kept.last_mut() {
                Some(last) if last.0 == entry.0 => *last = entry,
                _ => kept.push(entry),
            }
        }
        Ok(kept)
    }
}

/// Returns one value from its bytes in the protobuf message.
pub(crate) fn one<'s, 'a>(
    schema: &'s Schema,
    base: Base,
    raws: &[IndexedRaw<'a>],
    depth: usize,
) -> Result<View<'s, 'a>, Fault> {
    Context { schema, depth }.one(base, raws)
}

pub(crate) fn map_entry(raw: Raw<'_>) -> Result<(&str, Option<IndexedRaw<'_>>), Problem> {
    // Fast path: every known encoder writes the key of a map entry before its value.
    let mut reader = Reader::new(raw.bytes()?);
    if let Some((1, key)) = reader.next()?
        && let Some((2, value)) = reader.next()?
        && reader.is_at_end()
    {
        return Ok((key.text()?, Some((0, value))));
    }
    let (mut key, mut value) = ("", None);
    each_field(raw.bytes()?, |number, raw| {
        match number {
            1 => key = raw.text()?,
            2 => value = Some((0, raw)),
            _ => {}
        }
        Ok(())
    })?;
    Ok((key, value))
}

#[derive(Clone, Copy)]
struct Context<'s> {
    schema: &'s Schema,
    depth: usize,
}

impl<'s> Context<'s> {
    /// Decodes the value of a field from its occurrences in the message. Without any occurrence, the result
    /// is the zero value. Of several occurrences, messages are merged; of other types the last one is used.
    fn one<'a>(self, base: Base, raws: &[IndexedRaw<'a>]) -> Result<View<'s, 'a>, Fault> {
        if let Base::Message(id) = base {
            let pieces = Pieces::of(raws)?;
            return Ok(View::Message(MessageView { schema: self.schema, id, pieces, depth: self.depth }));
        }
        let last = raws.last().map(|(_, raw)| *raw);
        Ok(match base {
            Base::String => View::Text(last.map_or(Ok(""), Raw::text)?.into()),
            Base::Bool => View::Bool(last.map_or(Ok(0), Raw::varint)? != 0),
            // The value is truncated to its lower 32 bits, as in Go.
            Base::Int32 => View::Integer(i64::from(last.map_or(Ok(0), Raw::varint)? as i32)),
            Base::Int64 => View::Integer(last.map_or(Ok(0), Raw::varint)?.cast_signed()),
            Base::Double => View::Double(last.map_or(Ok(0.0), Raw::double)?),
            Base::Bytes => View::Text(STANDARD.encode(block(last)?).into()),
            Base::Time => instant(block(last)?, false)?,
            Base::MicroTime => instant(block(last)?, true)?,
            Base::Duration => duration(block(last)?)?,
            Base::Quantity => quantity(block(last)?)?,
            Base::IntOrString => int_or_string(&Pieces::of(raws)?)?,
            Base::Raw | Base::Fields | Base::Json => match embedded(&Pieces::of(raws)?)? {
                [] => View::Null,
                json => View::Json(json),
            },
            Base::Strings(_) => View::List(self.strings(&Pieces::of(raws)?, 1)?),
            Base::SchemaOrArray(id) | Base::SchemaOrBool(id) | Base::SchemaOrStrings(id) => {
                self.union(base, id, &Pieces::of(raws)?)?
            }
            Base::Any | Base::Message(_) => View::Null,
        })
    }

    fn strings<'a>(self, pieces: &Pieces<'a>, number: u32) -> Result<Many<'s, 'a>, Problem> {
        let raws = occurrences(pieces, number)?;
        Ok(Many { schema: self.schema, base: Base::String, raws, depth: self.depth })
    }

    /// Returns the value of a union type of apiextensions such as `JSONSchemaPropsOrBool`, whose message has
    /// one field for each type. The value is that of the field that is set.
    fn union<'a>(self, base: Base, id: MessageId, pieces: &Pieces<'a>) -> Result<View<'s, 'a>, Fault> {
        let schema_at = if matches!(base, Base::SchemaOrBool(_)) { 2 } else { 1 };
        let other_at = 3 - schema_at;
        let (schema, other) = (occurrences(pieces, schema_at)?, occurrences(pieces, other_at)?);
        let many = |base| Many { schema: self.schema, base, raws: other.clone(), depth: self.depth + 1 };
        Ok(match base {
            Base::SchemaOrArray(_) if !other.is_empty() => View::List(many(Base::Message(id))),
            Base::SchemaOrStrings(_) if !other.is_empty() => View::List(many(Base::String)),
            _ if !schema.is_empty() => {
                Self { depth: self.depth + 1, ..self }.one(Base::Message(id), &schema)?
            }
            Base::SchemaOrBool(_) => self.one(Base::Bool, &other)?,
            _ => View::Null,
        })
    }
}

fn block(raw: Option<Raw<'_>>) -> Result<&[u8], Problem> {
    raw.map_or(Ok(&[]), Raw::bytes)
}

/// Returns all values of one field of a message.
pub(crate) fn occurrences<'a>(pieces: &Pieces<'a>, wanted: u32) -> Result<Vec<IndexedRaw<'a>>, Problem> {
    let mut raws = Vec::new();
    for piece in pieces.as_slice() {
        each_field(piece, |number, raw| {
            if number == wanted {
                raws.push((0, raw));
            }
            Ok(())
        })?;
    }
    Ok(raws)
}

/// A timestamp that is not Go's zero time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Instant {
    seconds: i64,
    micros: Option<i64>,
}

impl Instant {
    /// Parses a timestamp; `None` for Go's zero time.
    pub(crate) fn read(data: &[u8], micro: bool) -> Result<Option<Self>, Problem> {
        if data.is_empty() {
            return Ok(None);
        }
        let (mut seconds, mut nanos) = (0_i64, 0_i64);
        each_field(data, |number, raw| {
            match number {
                1 => seconds = raw.varint()?.cast_signed(),
                2 => nanos = i64::from(raw.varint()? as i32),
                _ => {}
            }
            Ok(())
        })?;
        let micros = micro.then_some(nanos / 1_000);
        let carried = micros.map_or(0, |micros| micros.div_euclid(1_000_000));
        let seconds = seconds.saturating_add(carried);
        let micros = micros.map(|micros| micros.rem_euclid(1_000_000));
        let is_zero = seconds == time::ZERO && micros.unwrap_or(0) == 0;
        Ok((!is_zero).then_some(Self { seconds, micros }))
    }

    /// Calls a function with the timestamp as formatted in JSON.
    pub(crate) fn with_text<R>(self, read: impl FnOnce(&str) -> R) -> R {
        let mut text = Vec::with_capacity(28);
        time::write(&mut text, self.seconds, self.micros);
        read(std::str::from_utf8(&text).expect("timestamps are ASCII"))
    }
}

fn instant<'s, 'a>(data: &'a [u8], micro: bool) -> Result<View<'s, 'a>, Problem> {
    let read = Instant::read(data, micro)?;
    Ok(read.map_or(View::Null, |instant| instant.with_text(|text| View::Text(text.to_owned().into()))))
}

fn duration<'s, 'a>(data: &'a [u8]) -> Result<View<'s, 'a>, Problem> {
    let mut nanos = 0;
    each_field(data, |number, raw| {
        if number == 1 {
            nanos = raw.varint()?.cast_signed();
        }
        Ok(())
    })?;
    let mut text = Vec::with_capacity(16);
    duration::write(&mut text, nanos);
    written(text)
}

fn written<'s, 'a>(text: Vec<u8>) -> Result<View<'s, 'a>, Problem> {
    String::from_utf8(text).map(|text| View::Text(text.into())).map_err(|_| Problem::Utf8)
}

fn quantity<'s, 'a>(data: &'a [u8]) -> Result<View<'s, 'a>, Problem> {
    let mut text = Cow::Borrowed("0");
    each_field(data, |number, raw| {
        if number == 1 {
            text = quantity::canonical(raw.text()?)?;
        }
        Ok(())
    })?;
    Ok(View::Text(text))
}

fn int_or_string<'s, 'a>(pieces: &Pieces<'a>) -> Result<View<'s, 'a>, Problem> {
    let (mut kind, mut number, mut text) = (0, 0, "");
    for piece in pieces.as_slice() {
        each_field(piece, |field, raw| {
            match field {
                1 => kind = raw.varint()?,
                2 => number = i64::from(raw.varint()? as i32),
                3 => text = raw.text()?,
                _ => {}
            }
            Ok(())
        })?;
    }
    match kind {
        0 => Ok(View::Integer(number)),
        1 => Ok(View::Text(text.into())),
        _ => Err(Problem::Value { expected: "a number or a string" }),
    }
}

/// Returns the JSON bytes in a message whose only field contains JSON, such as `RawExtension`.
fn embedded<'a>(pieces: &Pieces<'a>) -> Result<&'a [u8], Problem> {
    let mut json: &[u8] = &[];
    for piece in pieces.as_slice() {
        each_field(piece, |number, raw| {
            if number == 1 {
                json = raw.bytes()?;
            }
            Ok(())
        })?;
    }
    Ok(json)
}

//! Converts JSON to protobuf. The message is written backwards from its last field, so that the lengths of
//! nested messages are known.

use std::ops::Range;

use base64::Engine;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

use super::MAX_DEPTH;
use crate::duration::parse::read_duration;
use crate::envelope::{MAGIC, close};
use crate::error::{Fault, Problem, TranscodeError};
use crate::schema::field::{Base, FieldData, Shape};
use crate::schema::kind::KindSchema;
use crate::schema::{MessageId, Schema};
use crate::text::{At, JsonKind, Tape};
use crate::wire::Writer;
use crate::{quantity, time};

/// The variant of Base64 that Go decodes: padding is required, and trailing bits are ignored.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::RequireCanonical),
);

impl Schema {
    /// Converts a JSON object to protobuf in its envelope, with the same bytes as a server. The `apiVersion`
    /// and `kind` of the object determine its type.
    ///
    /// # Errors
    ///
    /// Returns an error if the text is not JSON, a value has the wrong type, or the kind is not in the schema
    /// table. Unknown fields are dropped.
    pub fn to_protobuf(&self, json: &[u8]) -> Result<Vec<u8>, TranscodeError> {
        let failed = |problem| TranscodeError {
            operation: "read",
            kind: "an object".to_owned(),
            path: String::new(),
            problem,
        };
        let tape = Tape::parse(json).map_err(failed)?;
        let text = |name| tape.member(tape.root(), name).and_then(|at| tape.string(at));
        let (kind, api_version) = (text("kind").unwrap_or_default(), text("apiVersion").unwrap_or_default());
        let found = self.kind_by_api_version(&api_version, &kind).ok_or_else(|| TranscodeError {
            kind: format!("{api_version} {kind}"),
            ..failed(Problem::UnknownKind)
        })?;
        found.write_protobuf(&tape, (&api_version, &kind))
    }
}

impl KindSchema<'_> {
    /// Converts a JSON object of this kind to protobuf in its envelope, ignoring the object's `apiVersion`
    /// and `kind`.
    ///
    /// # Errors
    ///
    /// The same errors as [`Schema::to_protobuf`].
    pub fn to_protobuf(self, json: &[u8]) -> Result<Vec<u8>, TranscodeError> {
        let tape = Tape::parse(json).map_err(|problem| TranscodeError {
            operation: "read",
            kind: self.describe(),
            path: String::new(),
            problem,
        })?;
        self.write_protobuf(&tape, (&self.gvk().api_version(), self.data.kind))
    }

    fn write_protobuf(self, tape: &Tape<'_>, type_meta: (&str, &str)) -> Result<Vec<u8>, TranscodeError> {
        let failed = |fault: Fault| fault.into_error("write", self.describe());
        if !self.has_protobuf() {
            return Err(failed(Problem::NoProtobuf.into()));
        }
        // Protobuf is almost always shorter than JSON.
        let mut out = Writer::with_capacity(tape.text_len());
        close(&mut out, type_meta, |out| write(self.schema, self.data.message, tape, out).map_err(failed))?;
        out.put(&MAGIC);
        Ok(out.into_bytes())
    }
}

fn write(schema: &Schema, id: MessageId, tape: &Tape<'_>, out: &mut Writer) -> Result<(), Fault> {
    let mut writer = MessageWriter { schema, tape, out, depth: 0, members: Vec::new(), entries: Vec::new() };
    match tape.kind(tape.root()) {
        JsonKind::Object => writer.message(id, &[tape.root()]),
        _ => Err(Problem::Value { expected: "an object" }.into()),
    }
}

struct MessageWriter<'w, 't> {
    schema: &'w Schema,
    tape: &'w Tape<'t>,
    out: &'w mut Writer,
    depth: usize,
    /// The members of the message that is being written, after those of the messages around it. One stack for
    /// all messages takes fewer allocations than a list for each.
    members: Vec<(u8, At)>,
    /// The entries of the list that is being written, after those of the lists around it.
    entries: Vec<At>,
}

impl<'t> MessageWriter<'_, 't> {
    /// Writes one message from JSON objects. `objects` has several elements if the key of the object occurred
    /// more than once in the JSON: Go merges the values of duplicate keys into one message.
    fn message(&mut self, id: MessageId, objects: &[At]) -> Result<(), Fault> {
        if self.depth > MAX_DEPTH {
            return Err(Problem::TooDeep.into());
        }
        self.depth += 1;
        let schema = self.schema;
        let fields = schema.fields_of(id);
        let first = self.members.len();
        self.push_members(id, objects)?;
        // This mask with one bit per field index modulo 64 skips absent fields quickly: most fields of most
        // types are absent.
        let there = self.members[first..].iter().fold(0_u64, |there, (place, _)| there | 1 << (place % 64));
        for place in schema.indexes_by_descending_number(id) {
            let field = &fields[place];
            if field.flags.inline {
                let Base::Message(embedded) = field.base else { continue };
                let before = self.out.len();
                self.message(embedded, objects)?;
                self.out.close(field.number, before);
                continue;
            }
            let own = match there & 1 << (place % 64) {
                0 => first..first,
                _ => {
                    let members = &self.members[first..];
                    let start = members.partition_point(|(found, _)| usize::from(*found) < place);
                    let count = members[start..].iter().take_while(|(found, _)| usize::from(*found) == place);
                    first + start..first + start + count.count()
                }
            };
            self.field(field, own).map_err(|fault| fault.within(field.name))?;
        }
        self.members.truncate(first);
        self.depth -= 1;
        Ok(())
    }

    /// Adds the members of the objects that are known fields to `self.members`, sorted by the index of the
    /// field in its message. Duplicate keys keep their order in the document.
    fn push_members(&mut self, id: MessageId, objects: &[At]) -> Result<(), Fault> {
        let first = self.members.len();
        for object in objects {
            if self.tape.kind(*object) != JsonKind::Object {
                return Err(Problem::Value { expected: "an object" }.into());
            }
            for (key, value) in self.tape.members(*object) {
                let Some(name) = self.tape.string(key) else { continue };
                let place = self.schema.index_by_name(id, &name);
                self.members.extend(place.map(|place| (place as u8, value)));
            }
        }
        self.members[first..].sort_by_key(|(place, _)| *place);
        Ok(())
    }

    /// Writes a field from the range of `self.members` with its values.
    fn field(&mut self, field: &FieldData, members: Range<usize>) -> Result<(), Fault> {
        match self.members[members.clone()] {
            // Almost all fields occur at most once, and are not null.
            [] => self.values(field, &[]),
            [(_, value)] if self.tape.kind(value) != JsonKind::Null => self.values(field, &[value]),
            _ => {
                let values = self.merged(field, &self.members[members]);
                self.values(field, &values)
            }
        }
    }

    /// Returns the values of a field that are used if it occurs more than once or is null.
    fn merged(&self, field: &FieldData, members: &[(u8, At)]) -> Vec<At> {
        let null = |member: &(u8, At)| self.tape.kind(member.1) == JsonKind::Null;
        // If a key occurs more than once, a null removes the earlier values of a field that can be absent.
        // Other fields ignore the null.
        let cleared = match field.shape {
            Shape::Value if !matches!(field.base, Base::Bytes | Base::Strings(_)) => 0,
            _ => members.iter().rposition(null).map_or(0, |at| at + 1),
        };
        members[cleared..].iter().filter(|member| !null(member)).map(|member| member.1).collect()
    }

    fn values(&mut self, field: &FieldData, values: &[At]) -> Result<(), Fault> {
        match field.shape {
            Shape::Value if matches!(field.base, Base::Bytes | Base::Strings(_)) && values.is_empty() => {
                Ok(())
            }
            Shape::Pointer if values.is_empty() => Ok(()),
            Shape::Value | Shape::Pointer => self.value(field.number, field.base, values),
            Shape::List => values.last().map_or(Ok(()), |list| self.list(field.number, field.base, *list)),
            Shape::Map => self.map(field.number, field.base, values),
        }
    }

    fn list(&mut self, number: u8, base: Base, list: At) -> Result<(), Fault> {
        if self.tape.kind(list) != JsonKind::Array {
            return Err(Problem::Value { expected: "a list" }.into());
        }
        let first = self.entries.len();
        self.entries.extend(self.tape.entries(list));
        for at in (first..self.entries.len()).rev() {
            self.nullable(number, base, self.entries[at]).map_err(|fault| fault.entry(at - first))?;
        }
        self.entries.truncate(first);
        Ok(())
    }

    /// Writes an entry of a list or the value of a map entry, which cannot be absent in protobuf. A JSON null
    /// is written as the zero value.
    fn nullable(&mut self, number: u8, base: Base, value: At) -> Result<(), Fault> {
        match self.tape.kind(value) {
            JsonKind::Null => self.value(number, base, &[]),
            _ => self.value(number, base, &[value]),
        }
    }

    fn map(&mut self, number: u8, base: Base, maps: &[At]) -> Result<(), Fault> {
        let mut entries = Vec::new();
        for map in maps {
            if self.tape.kind(*map) != JsonKind::Object {
                return Err(Problem::Value { expected: "an object" }.into());
            }
            entries.extend(
                self.tape.members(*map).filter_map(|(key, value)| Some((self.tape.string(key)?, value))),
            );
        }
        entries.sort_by(|(a, _), (b, _)| a.cmp(b));
        for (index, (key, value)) in entries.iter().enumerate().rev() {
            // If a map key occurs more than once, the last value is used.
            if entries.get(index + 1).is_some_and(|(next, _)| next == key) {
                continue;
            }
            let before = self.out.len();
            let null = self.tape.kind(*value) == JsonKind::Null;
            if !(null && base == Base::Bytes) {
                self.nullable(2, base, *value).map_err(|fault| fault.within(key))?;
            }
            self.out.block(1, key.as_bytes());
            self.out.close(number, before);
        }
        Ok(())
    }

    /// Writes the value of a field. If `values` is empty, the zero value is written.
    fn value(&mut self, number: u8, base: Base, values: &[At]) -> Result<(), Fault> {
        let last = values.last().copied();
        match base {
            Base::Message(id) => {
                let before = self.out.len();
                self.message(id, values)?;
                self.out.close(number, before);
            }
            Base::String => {
                let text = last.map_or(Ok("".into()), |at| self.string(at))?;
                self.out.block(number, text.as_bytes());
            }
            Base::Bool => {
                let value = last.map_or(Ok(false), |at| self.boolean(at))?;
                self.out.number(number, u64::from(value));
            }
            Base::Int32 => {
                let value = last.map_or(Ok(0), |at| self.integer::<i32>(at))?;
                self.out.number(number, i64::from(value).cast_unsigned());
            }
            Base::Int64 => {
                let value = last.map_or(Ok(0), |at| self.integer::<i64>(at))?;
                self.out.number(number, value.cast_unsigned());
            }
            Base::Double => {
                let value = last.map_or(Ok(0.0), |at| self.double(at))?;
                self.out.put(&value.to_le_bytes());
                self.out.tag(number, 1);
            }
            Base::Bytes => {
                let text = last.map_or(Ok("".into()), |at| self.string(at))?;
                let clean: String = text.chars().filter(|c| !matches!(c, '\r' | '\n')).collect();
                let bytes = BASE64.decode(clean).map_err(|_| Problem::Value { expected: "base64" })?;
                self.out.block(number, &bytes);
            }
            _ => {
                let before = self.out.len();
                self.own_encoding(base, last)?;
                self.out.close(number, before);
            }
        }
        Ok(())
    }

    /// Writes the content of a type whose JSON does not have the fields of its protobuf message, such as
    /// `Quantity` or `IntOrString`.
    fn own_encoding(&mut self, base: Base, last: Option<At>) -> Result<(), Fault> {
        match base {
            Base::Time | Base::MicroTime => {
                let Some(at) = last else { return Ok(()) };
                let micro = base == Base::MicroTime;
                let (seconds, nanos) = time::parse::read(&self.string(at)?, micro)?;
                let nanos = if micro { nanos } else { 0 };
                if (seconds, nanos) != (time::ZERO, 0) {
                    self.out.number(2, nanos.cast_unsigned());
                    self.out.number(1, seconds.cast_unsigned());
                }
            }
            Base::Duration => {
                const EXPECTED: Problem = Problem::Value { expected: "a duration such as 1h30m" };
                let read = |at| read_duration(&self.string(at)?).map_err(|_| EXPECTED);
                let nanos = last.map_or(Ok(0), read)?;
                self.out.number(1, nanos.cast_unsigned());
            }
            Base::Quantity => self.quantity(last)?,
            Base::IntOrString => {
                let text = last
                    .filter(|at| self.tape.kind(*at) == JsonKind::String)
                    .map(|at| self.string(at))
                    .transpose()?;
                let number = match (&text, last) {
                    (None, Some(at)) => self.integer::<i32>(at)?,
                    _ => 0,
                };
                self.out.block(3, text.as_deref().unwrap_or_default().as_bytes());
                self.out.number(2, i64::from(number).cast_unsigned());
                self.out.number(1, u64::from(text.is_some()));
            }
            Base::Raw | Base::Fields | Base::Json => {
                if let Some(at) = last {
                    self.out.block(1, self.tape.slice(at).as_bytes());
                }
            }
            Base::Strings(_) => last.map_or(Ok(()), |at| self.list(1, Base::String, at))?,
            Base::SchemaOrArray(id) | Base::SchemaOrBool(id) | Base::SchemaOrStrings(id) => {
                self.union(base, id, last)?
            }
            _ => {}
        }
        Ok(())
    }

    fn quantity(&mut self, last: Option<At>) -> Result<(), Fault> {
        const EXPECTED: Problem = Problem::Value { expected: "a quantity such as 250Mi or 100m" };
        let text = match last.map(|at| (self.tape.kind(at), self.tape.slice(at))) {
            None => "0",
            // Go parses the text between the quotes as a quantity, without unescaping it.
            Some((JsonKind::String, text)) => text[1..text.len() - 1].trim(),
            Some((JsonKind::Number, text)) => text,
            Some(_) => return Err(EXPECTED.into()),
        };
        self.out.block(1, quantity::canonical(text)?.as_bytes());
        Ok(())
    }

    fn union(&mut self, base: Base, id: MessageId, last: Option<At>) -> Result<(), Fault> {
        let Some(at) = last else { return self.boolean_of(base, false) };
        let before = self.out.len();
        match (base, self.tape.kind(at)) {
            (Base::SchemaOrBool(_), JsonKind::Object) => {
                self.message(id, &[at])?;
                self.out.close(2, before);
                self.boolean_of(base, true)
            }
            (Base::SchemaOrBool(_), JsonKind::True | JsonKind::False) => {
                self.boolean_of(base, self.tape.kind(at) == JsonKind::True)
            }
            (Base::SchemaOrBool(_), _) => Err(Problem::Value { expected: "a boolean or an object" }.into()),
            (_, JsonKind::Object) => {
                self.message(id, &[at])?;
                self.out.close(1, before);
                Ok(())
            }
            (Base::SchemaOrArray(_), JsonKind::Array) => self.list(2, Base::Message(id), at),
            (Base::SchemaOrStrings(_), JsonKind::Array) => self.list(2, Base::String, at),
            // For these union types, Go ignores JSON that is neither an object nor an array, so the message
            // stays empty.
            _ => Ok(()),
        }
    }

    fn boolean_of(&mut self, base: Base, value: bool) -> Result<(), Fault> {
        if matches!(base, Base::SchemaOrBool(_)) {
            self.out.number(1, u64::from(value));
        }
        Ok(())
    }

    fn string(&self, at: At) -> Result<std::borrow::Cow<'t, str>, Problem> {
        self.tape.string(at).ok_or(Problem::Value { expected: "a string" })
    }

    fn boolean(&self, at: At) -> Result<bool, Problem> {
        match self.tape.kind(at) {
            JsonKind::True => Ok(true),
            JsonKind::False => Ok(false),
            _ => Err(Problem::Value { expected: "a boolean" }),
        }
    }

    fn integer<T: std::str::FromStr>(&self, at: At) -> Result<T, Problem> {
        let number =
            (self.tape.kind(at) == JsonKind::Number).then(|| self.tape.slice(at).parse().ok()).flatten();
        let expected = if size_of::<T>() == 4 { "an integer of 32 bits" } else { "an integer of 64 bits" };
        number.ok_or(Problem::Value { expected })
    }

    fn double(&self, at: At) -> Result<f64, Problem> {
        let number =
            (self.tape.kind(at) == JsonKind::Number).then(|| self.tape.slice(at).parse().ok()).flatten();
        number.filter(|number: &f64| number.is_finite()).ok_or(Problem::Value { expected: "a number" })
    }
}

//! Finds protobuf fields that the schema table does not know, because a newer server wrote them.
//!
//! The decoders of this crate skip unknown fields, so an object that has such fields is incomplete after
//! decoding. A message is searched for unknown fields only when a caller needs to know, not when the message
//! arrives, because the search visits every field.

use crate::schema::field::{Base, FieldData, Shape};
use crate::schema::kind::KindSchema;
use crate::schema::{MessageId, Schema};
use crate::transcode::MAX_DEPTH;
use crate::wire::{Raw, Reader};

impl<'s> KindSchema<'s> {
    /// Returns true if a message of this kind has a field that the schema table does not know, at any depth.
    /// The decoders of this crate skip unknown fields, so the decoded object lacks this data.
    ///
    /// An unknown field counts even if its value is empty: servers always write a field that is not a
    /// pointer, and only the schema table contains which fields are pointers. Bytes that are not a message of
    /// this kind count as an unknown field.
    ///
    /// ```
    /// use informer_schema::{Envelope, ExtraField, Schema};
    ///
    /// let newer = Schema::with_extra_fields(&[ExtraField::new("core.v1.Container", "shell", 200, "string")])?;
    /// let json = br#"{"apiVersion":"v1","kind":"Pod","spec":{"containers":[{"name":"a","shell":"sh"}]}}"#;
    /// let wire = newer.to_protobuf(json)?;
    /// let (message, table) = (Envelope::parse(&wire)?.raw, Schema::builtin());
    /// assert!(table.kind_by_api_version("v1", "Pod").ok_or("no such kind")?.has_unknown_fields(message));
    /// assert!(!newer.kind_by_api_version("v1", "Pod").ok_or("no such kind")?.has_unknown_fields(message));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn has_unknown_fields(self, message: &[u8]) -> bool {
        has_unknown(self.schema, self.data.message, message, 0)
    }

    /// Returns true if the schema table knows every segment of a path in this kind. Keys of maps and members
    /// of free-form JSON count as known.
    pub fn has_path<'p>(self, path: impl IntoIterator<Item = &'p str>) -> bool {
        let (mut message, mut path) = (self.message(), path.into_iter());
        while let Some(name) = path.next() {
            let Some(field) = message.field(name) else { return false };
            // The path segment after a map is a key, so it is skipped.
            if field.data.shape == Shape::Map && path.next().is_none() {
                return true;
            }
            match field.message() {
                Some(inner) if field.data.shape != Shape::List => message = inner,
                _ => return true,
            }
        }
        true
    }
}

fn has_unknown(schema: &Schema, id: MessageId, message: &[u8], depth: usize) -> bool {
    if depth > MAX_DEPTH {
        return true;
    }
    let (fields, numbers) = (schema.fields_of(id), schema.numbers_of(id));
    let (mut reader, mut raw) = (Reader::new(message), Raw::Varint(0));
    loop {
        match reader.read(&mut raw) {
            Ok(0) => return false,
            Ok(number) => {
                let place = numbers.get(number as usize).and_then(|place| usize::from(*place).checked_sub(1));
                let Some(place) = place else { return true };
                if has_unknown_value(schema, &fields[place], raw, depth + 1) {
                    return true;
                }
            }
            Err(_) => return true,
        }
    }
}

fn has_unknown_value(schema: &Schema, field: &FieldData, raw: Raw<'_>, depth: usize) -> bool {
    match field.shape {
        Shape::Map => any_field(raw, |number, raw| match number {
            1 => false,
            2 => is_unknown(schema, field.base, raw, depth),
            _ => true,
        }),
        Shape::Value | Shape::Pointer | Shape::List => is_unknown(schema, field.base, raw, depth),
    }
}

fn is_unknown(schema: &Schema, base: Base, raw: Raw<'_>, depth: usize) -> bool {
    let beyond = |last| any_field(raw, |number, _| number > last);
    match base {
        Base::Message(id) => match raw {
            Raw::Bytes(message) => has_unknown(schema, id, message, depth),
            _ => true,
        },
        Base::SchemaOrArray(id) | Base::SchemaOrStrings(id) | Base::SchemaOrBool(id) => {
            any_field(raw, |number, raw| match (number, base) {
                (1, Base::SchemaOrBool(_)) | (2, Base::SchemaOrStrings(_)) => false,
                (1 | 2, _) => is_unknown(schema, Base::Message(id), raw, depth + 1),
                _ => true,
            })
        }
        Base::Time | Base::MicroTime => beyond(2),
        Base::IntOrString => beyond(3),
        Base::Duration | Base::Quantity | Base::Raw | Base::Fields | Base::Json | Base::Strings(_) => {
            beyond(1)
        }
        Base::String | Base::Bool | Base::Int32 | Base::Int64 | Base::Double | Base::Bytes | Base::Any => {
            false
        }
    }
}

/// Returns true if `found` returns true for any field of the message `raw`, or if `raw` is not a valid
/// message.
fn any_field<'a>(raw: Raw<'a>, mut found: impl FnMut(u32, Raw<'a>) -> bool) -> bool {
    let Raw::Bytes(message) = raw else { return true };
    let mut reader = Reader::new(message);
    loop {
        match reader.next() {
            Ok(Some((number, raw))) if !found(number, raw) => {}
            Ok(None) => return false,
            Ok(Some(_)) | Err(_) => return true,
        }
    }
}

//! Converts protobuf messages to JSON.

use super::view::{MessageView, View};
use super::{FREE_GROWTH, MAX_GROWTH};
use crate::error::{Fault, Problem};
use crate::schema::field::{Base, FieldData};
use crate::schema::{MessageId, Schema};
use crate::text;

/// `kind` and `apiVersion` of the outermost object. In protobuf, the envelope of this object contains them,
/// and nested objects have neither.
type TypeMeta<'a> = Option<(&'a str, &'a str)>;

pub(super) fn write(
    schema: &Schema,
    id: MessageId,
    data: &[u8],
    type_meta: TypeMeta<'_>,
    out: &mut Vec<u8>,
) -> Result<(), Fault> {
    let limit = out.len() + FREE_GROWTH + data.len().saturating_mul(MAX_GROWTH);
    JsonWriter { out, limit }.object(&MessageView::new(schema, id, data), type_meta)
}

/// Writes JSON to `out`, and fails when the length of `out` exceeds `limit`.
struct JsonWriter<'o> {
    out: &'o mut Vec<u8>,
    limit: usize,
}

impl JsonWriter<'_> {
    fn object(&mut self, message: &MessageView<'_, '_>, type_meta: TypeMeta<'_>) -> Result<(), Fault> {
        if self.out.len() > self.limit {
            return Err(Problem::TooLong.into());
        }
        self.out.push(b'{');
        self.members(message, type_meta)?;
        // Every field is written with a trailing comma, and the closing bracket replaces the last comma.
        if self.out.last() == Some(&b',') {
            self.out.pop();
        }
        self.out.push(b'}');
        Ok(())
    }

    fn members(&mut self, message: &MessageView<'_, '_>, type_meta: TypeMeta<'_>) -> Result<(), Fault> {
        let mut found = message.find()?;
        while let Some((place, raws)) = found.next() {
            let field = &message.fields()[place];
            if is_type_meta(field) {
                write_type_meta(type_meta, self.out);
                continue;
            }
            match message.view(field, raws)? {
                None => {}
                Some(View::Message(embedded)) if field.flags.inline => self.members(&embedded, None)?,
                Some(view) => {
                    self.out.push(b'"');
                    self.out.extend_from_slice(field.name.as_bytes());
                    self.out.extend_from_slice(b"\":");
                    self.value(&view).map_err(|fault| fault.within(field.name))?;
                    self.out.push(b',');
                }
            }
        }
        Ok(())
    }

    fn value(&mut self, view: &View<'_, '_>) -> Result<(), Fault> {
        match view {
            View::Null => self.out.extend_from_slice(b"null"),
            View::Bool(value) => self.out.extend_from_slice(if *value { b"true" } else { b"false" }),
            View::Integer(value) => self.out.extend_from_slice(value.to_string().as_bytes()),
            View::Double(value) => text::write_double(self.out, *value)?,
            View::Text(value) => text::write_string(self.out, value),
            View::Json(json) => text::write_compact(self.out, json)?,
            View::Message(message) => self.object(message, None)?,
            View::List(many) => {
                self.out.push(b'[');
                for (index, raw) in many.raws.iter().enumerate() {
                    if index > 0 {
                        self.out.push(b',');
                    }
                    let written = many.entry(*raw).and_then(|entry| self.value(&entry));
                    written.map_err(|fault| fault.entry(index))?;
                }
                self.out.push(b']');
            }
            View::Map(many) => {
                self.out.push(b'{');
                for (index, (key, entry)) in many.sorted()?.iter().enumerate() {
                    if index > 0 {
                        self.out.push(b',');
                    }
                    text::write_string(self.out, key);
                    self.out.push(b':');
                    self.value(entry).map_err(|fault| fault.within(key))?;
                }
                self.out.push(b'}');
            }
        }
        Ok(())
    }
}

/// Returns true for the embedded Go struct `TypeMeta` (`kind` and `apiVersion`), the only one that protobuf
/// messages do not contain.
pub(crate) fn is_type_meta(field: &FieldData) -> bool {
    field.flags.inline && field.number == 0 && matches!(field.base, Base::Message(_))
}

fn write_type_meta(type_meta: TypeMeta<'_>, out: &mut Vec<u8>) {
    let (kind, api_version) = type_meta.unwrap_or_default();
    for (name, value) in [("\"kind\":", kind), ("\"apiVersion\":", api_version)] {
        if !value.is_empty() {
            out.extend_from_slice(name.as_bytes());
            text::write_string(out, value);
            out.push(b',');
        }
    }
}

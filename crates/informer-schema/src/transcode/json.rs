//! From the wire to JSON.

use super::view::{MessageView, View};
use crate::error::Fault;
use crate::field::{Base, FieldData};
use crate::schema::{MessageId, Schema};
use crate::text;

/// Kind and version of the outermost object: only it has them on the wire, in its envelope.
type TypeMeta<'a> = Option<(&'a str, &'a str)>;

pub(super) fn write(
    schema: &Schema,
    id: MessageId,
    data: &[u8],
    type_meta: TypeMeta<'_>,
    out: &mut Vec<u8>,
) -> Result<(), Fault> {
    object(&MessageView::new(schema, id, data), type_meta, out)
}

fn object(message: &MessageView<'_, '_>, type_meta: TypeMeta<'_>, out: &mut Vec<u8>) -> Result<(), Fault> {
    out.push(b'{');
    members(message, type_meta, out)?;
    // Every member ends in a comma; the last one gives way.
    if out.last() == Some(&b',') {
        out.pop();
    }
    out.push(b'}');
    Ok(())
}

fn members(message: &MessageView<'_, '_>, type_meta: TypeMeta<'_>, out: &mut Vec<u8>) -> Result<(), Fault> {
    let mut found = message.find()?;
    for (place, field) in message.fields().iter().enumerate() {
        let raws = found.take(place);
        if is_type_meta(field) {
            write_type_meta(type_meta, out);
            continue;
        }
        match message.view(field, raws)? {
            None => {}
            Some(View::Message(embedded)) if field.flags.inline => members(&embedded, None, out)?,
            Some(view) => {
                out.push(b'"');
                out.extend_from_slice(field.name.as_bytes());
                out.extend_from_slice(b"\":");
                value(&view, out).map_err(|fault| fault.within(field.name))?;
                out.push(b',');
            }
        }
    }
    Ok(())
}

/// The one embedded type that is not on the wire.
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

fn value(view: &View<'_, '_>, out: &mut Vec<u8>) -> Result<(), Fault> {
    match view {
        View::Null => out.extend_from_slice(b"null"),
        View::Bool(value) => out.extend_from_slice(if *value { b"true" } else { b"false" }),
        View::Integer(value) => out.extend_from_slice(value.to_string().as_bytes()),
        View::Double(value) => text::write_double(out, *value)?,
        View::Text(value) => text::write_string(out, value),
        View::Json(json) => text::write_compact(out, json)?,
        View::Message(message) => object(message, None, out)?,
        View::List(many) => {
            out.push(b'[');
            for (index, raw) in many.raws.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                let written = many.entry(*raw).and_then(|entry| value(&entry, out));
                written.map_err(|fault| fault.entry(index))?;
            }
            out.push(b']');
        }
        View::Map(many) => {
            out.push(b'{');
            for (index, (key, entry)) in many.sorted()?.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                text::write_string(out, key);
                out.push(b':');
                value(entry, out).map_err(|fault| fault.within(key))?;
            }
            out.push(b'}');
        }
    }
    Ok(())
}

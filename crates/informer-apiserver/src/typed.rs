//! Objects of built-in kinds held against the fields of their types.

mod form;

pub(crate) use form::{form, zero};

use base64::engine::general_purpose::STANDARD;
use base64::{DecodeError, Engine};
use informer_schema::{BaseType, Field, Message, Shape};
use serde_json::{Map, Value};

use crate::write::json_type;

/// Takes unknown fields out of an object, and nulls where they mean nothing. Answers the paths of what was unknown.
///
/// # Errors
///
/// When a value is not of the type of its field: which one, in the words of Go's decoder.
pub(crate) fn fit(message: Message<'_>, object: &mut Map<String, Value>) -> Result<Vec<String>, String> {
    let mut fit = Fit { unknown: Vec::new() };
    fit.members(message, object, "", "")?;
    Ok(fit.unknown)
}

struct Fit {
    unknown: Vec<String>,
}

impl Fit {
    /// `path` is told with the indexes of lists for unknown fields; `plain` without, as type errors have it.
    fn members(
        &mut self,
        message: Message<'_>,
        object: &mut Map<String, Value>,
        path: &str,
        plain: &str,
    ) -> Result<(), String> {
        let names: Vec<String> = object.keys().cloned().collect();
        for name in names {
            let join = |path: &str| if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            let (path, plain) = (join(path), join(plain));
            let Some(field) = message.field(&name) else {
                object.remove(&name);
                self.unknown.push(path);
                continue;
            };
            let Some(value) = object.get_mut(&name) else { continue };
            if value.is_null() {
                if field.omits_empty() {
                    object.remove(&name);
                }
                continue;
            }
            let owner = Owner { message, plain: &plain };
            self.field(&owner, field, value, &path)?;
        }
        Ok(())
    }

    fn field(
        &mut self,
        owner: &Owner<'_>,
        field: Field<'_>,
        value: &mut Value,
        path: &str,
    ) -> Result<(), String> {
        match (field.shape(), value) {
            (Shape::List, Value::Array(items)) => {
                for (index, item) in items.iter_mut().enumerate() {
                    self.value(owner, field, item, &format!("{path}[{index}]"))?;
                }
                Ok(())
            }
            (Shape::Map, Value::Object(members)) => {
                for (name, member) in members.iter_mut() {
                    self.value(owner, field, member, &format!("{path}.{name}"))?;
                }
                Ok(())
            }
            // Bytes are one text, though Go has a list.
            (Shape::List, value @ Value::String(_)) if matches!(field.base(), BaseType::Bytes) => {
                self.value(owner, field, value, path)
            }
            (Shape::List, value) => Err(owner.wrong(value, &format!("[]{}", go_name(field.base())))),
            (Shape::Map, value) => Err(owner.wrong(value, &format!("map[string]{}", go_name(field.base())))),
            (_, value) => self.value(owner, field, value, path),
        }
    }

    fn value(
        &mut self,
        owner: &Owner<'_>,
        field: Field<'_>,
        value: &mut Value,
        path: &str,
    ) -> Result<(), String> {
        let base = field.base();
        let right = match base {
            BaseType::Message(message) => {
                if let Value::Object(members) = value {
                    return self.members(message, members, path, owner.plain);
                }
                value.is_null()
            }
            BaseType::String
            | BaseType::Bytes
            | BaseType::Time
            | BaseType::MicroTime
            | BaseType::Duration => value.is_string() || value.is_null(),
            BaseType::Bool => value.is_boolean() || value.is_null(),
            BaseType::Int32 | BaseType::Int64 => value.is_i64() || value.is_u64() || value.is_null(),
            BaseType::Double => value.is_number() || value.is_null(),
            BaseType::IntOrString | BaseType::Quantity => {
                value.is_number() || value.is_string() || value.is_null()
            }
            _ => true,
        };
        match (base, &*value) {
            (BaseType::Bytes, Value::String(text)) => check_base64(text)?,
            (BaseType::Quantity, Value::String(text)) => check_amount(text)?,
            _ => {}
        }
        if right { Ok(()) } else { Err(owner.wrong(value, go_name(base))) }
    }
}

fn check_base64(text: &str) -> Result<(), String> {
    let told = |at: usize| Err(format!("illegal base64 data at input byte {at}"));
    match STANDARD.decode(text) {
        Ok(_) => Ok(()),
        Err(DecodeError::InvalidByte(at, _)) => told(at),
        Err(_) => told(text.len() / 4 * 4),
    }
}

fn check_amount(text: &str) -> Result<(), String> {
    match informer_schema::canonical_quantity(text) {
        Ok(_) => Ok(()),
        Err(_) => Err("quantities must match the regular expression \
             '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
            .to_owned()),
    }
}

/// The type that a field belongs to, for errors.
struct Owner<'a> {
    message: Message<'a>,
    plain: &'a str,
}

impl Owner<'_> {
    fn wrong(&self, value: &Value, wanted: &str) -> String {
        let owner = self.message.short_name().rsplit('.').next().unwrap_or_default();
        let (found, path) = (json_type(value), self.plain);
        format!("json: cannot unmarshal {found} into Go struct field {owner}.{path} of type {wanted}")
    }
}

fn go_name(base: BaseType<'_>) -> &'static str {
    match base {
        BaseType::String | BaseType::Duration | BaseType::Quantity => "string",
        BaseType::Bool => "bool",
        BaseType::Int32 => "int32",
        BaseType::Int64 => "int64",
        BaseType::Double => "float64",
        BaseType::Bytes => "[]uint8",
        BaseType::Time | BaseType::MicroTime => "v1.Time",
        BaseType::IntOrString => "intstr.IntOrString",
        // Go names the package too; the last part is what people look for.
        BaseType::Message(message) => message.short_name().rsplit('.').next().unwrap_or_default(),
        _ => "interface {}",
    }
}

//! Objects of built-in kinds held against the fields of their types.

mod form;
mod unconvertible;

pub(crate) use form::{form, zero};
use unconvertible::unconvertible;

use base64::engine::general_purpose::STANDARD;
use base64::{DecodeError, Engine};
use informer_schema::{BaseType, Field, Message, Shape};
use serde_json::{Map, Value};

use crate::model::metadata::json_type;

/// Takes unknown fields out of an object, and nulls where they mean nothing. Answers the paths of what was unknown.
///
/// # Errors
///
/// When a value is not of the type of its field: which one, in the words of Go's decoder.
pub(crate) fn fit(message: Message<'_>, object: &mut Map<String, Value>) -> Result<Vec<String>, String> {
    fit_from(Source::Text, message, object)
}

/// What an object is made from, upstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// JSON.
    Text,
    /// Values without types, as patches and applies leave them.
    Values,
}

/// The same, told in the words of whoever makes typed objects from there.
pub(crate) fn fit_from(
    source: Source,
    message: Message<'_>,
    object: &mut Map<String, Value>,
) -> Result<Vec<String>, String> {
    let mut fit = Fit { source, unknown: Vec::new(), mistyped: None };
    fit.members(message, object, &Path::Top)?;
    match fit.mistyped {
        Some(why) => Err(why),
        None => Ok(fit.unknown),
    }
}

/// Holds the times in the metadata of a custom resource against their type.
///
/// # Errors
///
/// When one is none: which one, in the words of Go's decoder.
pub(crate) fn check_times(metadata: &Map<String, Value>) -> Result<(), String> {
    ["creationTimestamp", "deletionTimestamp"].into_iter().try_for_each(|name| match metadata.get(name) {
        Some(Value::String(text)) => check_time(text, false),
        _ => Ok(()),
    })
}

struct Fit {
    source: Source,
    unknown: Vec<String>,
    /// The first value of a wrong type. Go reads on after it, and tells it only where no value ends the reading.
    mistyped: Option<String>,
}

/// Where a value is. It is written out for what is wrong alone, which is next to nothing of what comes.
enum Path<'a> {
    Top,
    /// A field of a type.
    Field(&'a Path<'a>, &'a str),
    /// A member of a map.
    Member(&'a Path<'a>, &'a str),
    Index(&'a Path<'a>, usize),
}

impl Path<'_> {
    /// With the indexes of lists, as unknown fields are told.
    fn full(&self) -> String {
        match self {
            Self::Top => String::new(),
            Self::Field(Path::Top, name) => (*name).to_owned(),
            Self::Field(above, name) | Self::Member(above, name) => format!("{}.{name}", above.full()),
            Self::Index(above, index) => format!("{}[{index}]", above.full()),
        }
    }

    /// The names of fields alone, as type errors have it.
    fn plain(&self) -> String {
        match self {
            Self::Top => String::new(),
            Self::Member(above, _) | Self::Index(above, _) => above.plain(),
            Self::Field(Path::Top, name) => (*name).to_owned(),
            Self::Field(above, name) => format!("{}.{name}", above.plain()),
        }
    }
}

impl Fit {
    fn members(
        &mut self,
        message: Message<'_>,
        object: &mut Map<String, Value>,
        path: &Path<'_>,
    ) -> Result<(), String> {
        let mut gone = Vec::new();
        for (name, value) in object.iter_mut() {
            let path = Path::Field(path, name);
            let Some(field) = message.field(name) else {
                self.unknown.push(path.full());
                gone.push(name.clone());
                continue;
            };
            if value.is_null() {
                if field.omits_empty() {
                    gone.push(name.clone());
                }
                continue;
            }
            let owner = Owner { message, field: &path };
            self.field(&owner, field, value, &path)?;
        }
        gone.iter().for_each(|name| drop(object.remove(name)));
        Ok(())
    }

    fn field(
        &mut self,
        owner: &Owner<'_>,
        field: Field<'_>,
        value: &mut Value,
        path: &Path<'_>,
    ) -> Result<(), String> {
        match (field.shape(), value) {
            (Shape::List, Value::Array(items)) => {
                for (index, item) in items.iter_mut().enumerate() {
                    self.value(owner, field, item, &Path::Index(path, index))?;
                }
                Ok(())
            }
            (Shape::Map, Value::Object(members)) => {
                for (name, member) in members.iter_mut() {
                    self.value(owner, field, member, &Path::Member(path, name))?;
                }
                Ok(())
            }
            // Bytes are one text, though Go has a list.
            (Shape::List, value @ Value::String(_)) if matches!(field.base(), BaseType::Bytes) => {
                self.value(owner, field, value, path)
            }
            (Shape::List | Shape::Map, value) => self.wrong(owner, field, value),
            (_, value) => self.value(owner, field, value, path),
        }
    }

    fn value(
        &mut self,
        owner: &Owner<'_>,
        field: Field<'_>,
        value: &mut Value,
        path: &Path<'_>,
    ) -> Result<(), String> {
        let base = field.base();
        if value.is_null() && matches!(base, BaseType::String) {
            // An entry of a list or map: Go has no other text that is none.
            *value = Value::String(String::new());
        }
        let right = match base {
            BaseType::Message(message) => {
                if let Value::Object(members) = value {
                    return self.members(message, members, path);
                }
                value.is_null()
            }
            // Times read themselves, and what they are given must be a text: nothing else is read after that.
            BaseType::Time | BaseType::MicroTime if !value.is_string() && !value.is_null() => {
                return Err(match self.source {
                    Source::Text => owner.wrong(value, "string"),
                    Source::Values => unconvertible(None, base, value),
                });
            }
            BaseType::String | BaseType::Bytes | BaseType::Duration => value.is_string() || value.is_null(),
            BaseType::Bool => value.is_boolean() || value.is_null(),
            BaseType::Int32 => is_int32(value) || value.is_null(),
            BaseType::Int64 => value.is_i64() || value.is_null(),
            BaseType::Double => value.is_number() || value.is_null(),
            BaseType::IntOrString | BaseType::Quantity => {
                value.is_number() || value.is_string() || value.is_null()
            }
            _ => true,
        };
        match (base, &*value) {
            (BaseType::Bytes, Value::String(text)) => check_base64(text)?,
            (BaseType::Time, Value::String(text)) => check_time(text, false)?,
            (BaseType::MicroTime, Value::String(text)) => check_time(text, true)?,
            (BaseType::Quantity, Value::String(text)) => check_amount(text)?,
            (BaseType::IntOrString, Value::Number(number)) if !is_int32(value) => {
                return Err(format!("json: cannot unmarshal number {number} into Go value of type int32"));
            }
            _ => {}
        }
        if right { Ok(()) } else { self.wrong_one(owner, base, value) }
    }

    /// Notes what is neither a list nor a map where one must be.
    fn wrong(&mut self, owner: &Owner<'_>, field: Field<'_>, value: &Value) -> Result<(), String> {
        let (shape, name) = (field.shape(), go_name(field.base()));
        let prefix = if shape == Shape::Map { "map[string]" } else { "[]" };
        self.note(
            || unconvertible(Some(shape), field.base(), value),
            || owner.wrong(value, &format!("{prefix}{name}")),
        )
    }

    /// Notes one value that is of another type.
    fn wrong_one(&mut self, owner: &Owner<'_>, base: BaseType<'_>, value: &Value) -> Result<(), String> {
        self.note(|| unconvertible(None, base, value), || owner.wrong(value, go_name(base)))
    }

    fn note(
        &mut self,
        unconvertible: impl FnOnce() -> String,
        undecodable: impl FnOnce() -> String,
    ) -> Result<(), String> {
        match self.source {
            Source::Values => Err(unconvertible()),
            Source::Text => {
                self.mistyped.get_or_insert_with(undecodable);
                Ok(())
            }
        }
    }
}

fn check_time(text: &str, micro: bool) -> Result<(), String> {
    let read = match micro {
        true => informer_schema::canonical_micro_time(text),
        false => informer_schema::canonical_time(text),
    };
    read.map(drop).map_err(|error| error.to_string())
}

fn is_int32(value: &Value) -> bool {
    value.as_i64().is_some_and(|number| i32::try_from(number).is_ok())
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
    field: &'a Path<'a>,
}

impl Owner<'_> {
    fn wrong(&self, value: &Value, wanted: &str) -> String {
        let owner = self.message.short_name().rsplit('.').next().unwrap_or_default();
        let path = self.field.plain();
        let found = match value {
            // A number that is none for Go is told itself.
            Value::Number(number) if matches!(wanted, "int32" | "int64") => format!("number {number}"),
            value => json_type(value).to_owned(),
        };
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
        BaseType::IntOrString => "intstr.IntOrString",
        // Go names the package too; the last part is what people look for.
        BaseType::Message(message) => message.short_name().rsplit('.').next().unwrap_or_default(),
        _ => "interface {}",
    }
}

#[cfg(test)]
mod tests;

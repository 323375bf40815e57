//! Checks that the fields of objects of built-in kinds have the right JSON types.

mod form;
mod unconvertible;

pub(crate) use form::{form, zero};
use unconvertible::unconvertible;

use base64::engine::general_purpose::STANDARD;
use base64::{DecodeError, Engine};
use informer_schema::{BaseType, Field, Message, Shape};
use serde_json::{Map, Value};

use crate::model::json::json_type;

/// Checks the JSON types of an object's fields, and removes unknown fields and nulls without a meaning.
/// Returns the paths of unknown fields.
///
/// # Errors
///
/// Returns the message of Go's decoder if a value does not have the type of its field.
pub(crate) fn fit(message: Message<'_>, object: &mut Map<String, Value>) -> Result<Vec<String>, String> {
    fit_from(Source::Text, message, object)
}

/// The representation from which kube-apiserver decodes the typed object, which determines the error
/// messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    Text,
    /// Decoded values without a type, which are the result of a patch or an apply.
    Values,
}

pub(crate) fn fit_from(
    source: Source,
    message: Message<'_>,
    object: &mut Map<String, Value>,
) -> Result<Vec<String>, String> {
    let mut fit = TypeCheck { source, unknown: Vec::new(), mistyped: None };
    fit.members(message, object, &ValuePath::Top)?;
    match fit.mistyped {
        Some(why) => Err(why),
        None => Ok(fit.unknown),
    }
}

/// Checks the timestamps in the metadata of a custom resource.
///
/// # Errors
///
/// Returns the message of Go's decoder for an invalid timestamp.
pub(crate) fn check_times(metadata: &Map<String, Value>) -> Result<(), String> {
    ["creationTimestamp", "deletionTimestamp"].into_iter().try_for_each(|name| match metadata.get(name) {
        Some(Value::String(text)) => check_time(text, false),
        _ => Ok(()),
    })
}

struct TypeCheck {
    source: Source,
    unknown: Vec<String>,
    /// The error for the first value of a wrong type. Go continues decoding after it, and reports it unless
    /// the error of a later value stops the decoding.
    mistyped: Option<String>,
}

/// The path of a value in an object. It is formatted only for errors.
enum ValuePath<'a> {
    Top,
    Field(&'a ValuePath<'a>, &'a str),
    Member(&'a ValuePath<'a>, &'a str),
    Index(&'a ValuePath<'a>, usize),
}

impl ValuePath<'_> {
    /// Formats the path with list indexes, as in errors for unknown fields.
    fn full(&self) -> String {
        match self {
            Self::Top => String::new(),
            Self::Field(ValuePath::Top, name) => (*name).to_owned(),
            Self::Field(above, name) | Self::Member(above, name) => format!("{}.{name}", above.full()),
            Self::Index(above, index) => format!("{}[{index}]", above.full()),
        }
    }

    /// Formats the path with field names only, as in errors for wrong types.
    fn plain(&self) -> String {
        match self {
            Self::Top => String::new(),
            Self::Member(above, _) | Self::Index(above, _) => above.plain(),
            Self::Field(ValuePath::Top, name) => (*name).to_owned(),
            Self::Field(above, name) => format!("{}.{name}", above.plain()),
        }
    }
}

impl TypeCheck {
    fn members(
        &mut self,
        message: Message<'_>,
        object: &mut Map<String, Value>,
        path: &ValuePath<'_>,
    ) -> Result<(), String> {
        let mut gone = Vec::new();
        for (name, value) in object.iter_mut() {
            let path = ValuePath::Field(path, name);
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
            let containing = ContainingType { message, field: &path };
            self.field(&containing, field, value, &path)?;
        }
        gone.iter().for_each(|name| drop(object.remove(name)));
        Ok(())
    }

    fn field(
        &mut self,
        containing: &ContainingType<'_>,
        field: Field<'_>,
        value: &mut Value,
        path: &ValuePath<'_>,
    ) -> Result<(), String> {
        match (field.shape(), value) {
            (Shape::List, Value::Array(items)) => {
                for (index, item) in items.iter_mut().enumerate() {
                    self.value(containing, field, item, &ValuePath::Index(path, index))?;
                }
                Ok(())
            }
            (Shape::Map, Value::Object(members)) => {
                for (name, member) in members.iter_mut() {
                    self.value(containing, field, member, &ValuePath::Member(path, name))?;
                }
                Ok(())
            }
            // In JSON, bytes are a base64 string, although their Go type is a slice.
            (Shape::List, value @ Value::String(_)) if matches!(field.base(), BaseType::Bytes) => {
                self.value(containing, field, value, path)
            }
            (Shape::List | Shape::Map, value) => self.mismatch(containing, field, value),
            (_, value) => self.value(containing, field, value, path),
        }
    }

    fn value(
        &mut self,
        containing: &ContainingType<'_>,
        field: Field<'_>,
        value: &mut Value,
        path: &ValuePath<'_>,
    ) -> Result<(), String> {
        let base = field.base();
        if value.is_null() && matches!(base, BaseType::String) {
            // Go decodes null in a list or map of strings to the empty string.
            *value = Value::String(String::new());
        }
        let right = match base {
            BaseType::Message(message) => {
                if let Value::Object(members) = value {
                    return self.members(message, members, path);
                }
                value.is_null()
            }
            // Go's type `Time` has its own JSON decoder, which requires a string. Its error stops the
            // decoding of the object.
            BaseType::Time | BaseType::MicroTime if !value.is_string() && !value.is_null() => {
                return Err(match self.source {
                    Source::Text => containing.mismatch(value, "string"),
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
            (BaseType::Quantity, Value::String(text)) => check_quantity(text)?,
            (BaseType::IntOrString, Value::Number(number)) if !is_int32(value) => {
                return Err(format!("json: cannot unmarshal number {number} into Go value of type int32"));
            }
            _ => {}
        }
        if right { Ok(()) } else { self.scalar_mismatch(containing, base, value) }
    }

    fn mismatch(
        &mut self,
        containing: &ContainingType<'_>,
        field: Field<'_>,
        value: &Value,
    ) -> Result<(), String> {
        let (shape, name) = (field.shape(), go_name(field.base()));
        let prefix = if shape == Shape::Map { "map[string]" } else { "[]" };
        self.note(
            || unconvertible(Some(shape), field.base(), value),
            || containing.mismatch(value, &format!("{prefix}{name}")),
        )
    }

    fn scalar_mismatch(
        &mut self,
        containing: &ContainingType<'_>,
        base: BaseType<'_>,
        value: &Value,
    ) -> Result<(), String> {
        self.note(|| unconvertible(None, base, value), || containing.mismatch(value, go_name(base)))
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
    let read = if micro {
        informer_schema::canonical_micro_time(text)
    } else {
        informer_schema::canonical_time(text)
    };
    read.map(drop).map_err(|error| error.to_string())
}

fn is_int32(value: &Value) -> bool {
    value.as_i64().is_some_and(|number| i32::try_from(number).is_ok())
}

fn check_base64(text: &str) -> Result<(), String> {
    let corrupt = |at: usize| Err(format!("illegal base64 data at input byte {at}"));
    match STANDARD.decode(text) {
        Ok(_) => Ok(()),
        Err(DecodeError::InvalidByte(at, _)) => corrupt(at),
        Err(_) => corrupt(text.len() / 4 * 4),
    }
}

fn check_quantity(text: &str) -> Result<(), String> {
    match informer_schema::canonical_quantity(text) {
        Ok(_) => Ok(()),
        Err(_) => Err("quantities must match the regular expression \
             '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
            .to_owned()),
    }
}

/// The message type that contains a field, for error messages.
struct ContainingType<'a> {
    message: Message<'a>,
    field: &'a ValuePath<'a>,
}

impl ContainingType<'_> {
    fn mismatch(&self, value: &Value, wanted: &str) -> String {
        let containing = self.message.short_name().rsplit('.').next().unwrap_or_default();
        let path = self.field.plain();
        let found = match value {
            // For a number that does not fit into the integer type, Go's error contains the number.
            Value::Number(number) if matches!(wanted, "int32" | "int64") => format!("number {number}"),
            value => json_type(value).to_owned(),
        };
        format!("json: cannot unmarshal {found} into Go struct field {containing}.{path} of type {wanted}")
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
        // The type with its package, for example `v1.ObjectMeta`.
        BaseType::Message(message) => {
            let name = message.short_name();
            name.rmatch_indices('.').nth(1).map_or(name, |(at, _)| &name[at + 1..])
        }
        _ => "interface {}",
    }
}

#[cfg(test)]
mod tests;

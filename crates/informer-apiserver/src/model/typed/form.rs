//! Normalization of objects to Go's encoding: empty optional fields are omitted, and required fields are
//! present.

use informer_schema::{BaseType, Field, Message, Shape};
use serde_json::{Map, Value};

pub(crate) fn form(message: Message<'_>, object: &mut Map<String, Value>) {
    // The loop visits the members of the object and not the fields of its type, because types have many
    // fields and objects few.
    object.retain(|name, value| {
        let Some(field) = message.field(name) else { return true };
        match value {
            Value::Null if field.is_always_written() => *value = zero_of(field),
            // A null time in a pointer field is kept, because Go distinguishes the zero time from a missing
            // one.
            Value::Null if field.shape() == Shape::Pointer && is_time(field) => return true,
            value if !field.is_always_written() && is_empty(field, value) => return false,
            value => {
                form_value(field, value);
                // A zero time in an optional field is omitted, unless the field is a pointer.
                return !value.is_null() || field.is_always_written() || field.shape() == Shape::Pointer;
            }
        }
        true
    });
    message.for_each_field(&mut |field| {
        if field.is_always_written() && !object.contains_key(field.name()) {
            object.insert(field.name().to_owned(), zero_of(field));
        }
    });
}

pub(crate) fn zero(message: Message<'_>) -> Map<String, Value> {
    let mut object = Map::new();
    form(message, &mut object);
    object
}

fn form_value(field: Field<'_>, value: &mut Value) {
    match field.base() {
        BaseType::Quantity => return form_each(value, &amount),
        BaseType::Time => return form_each(value, &time),
        BaseType::MicroTime => return form_each(value, &micro_time),
        _ => {}
    }
    let Some(message) = field.message() else { return };
    match (field.shape(), value) {
        (Shape::Value | Shape::Pointer, Value::Object(members)) => form(message, members),
        (Shape::List, Value::Array(entries)) => {
            entries.iter_mut().filter_map(Value::as_object_mut).for_each(|entry| form(message, entry));
        }
        (Shape::Map, Value::Object(members)) => {
            members.values_mut().filter_map(Value::as_object_mut).for_each(|member| form(message, member));
        }
        _ => {}
    }
}

/// Applies a conversion to a value, or to all values of a list or map. Values that cannot be converted remain
/// unchanged.
fn form_each(value: &mut Value, to: &impl Fn(&Value) -> Option<Value>) {
    match value {
        Value::Object(members) => members.values_mut().for_each(|member| form_each(member, to)),
        Value::Array(items) => items.iter_mut().for_each(|item| form_each(item, to)),
        _ => {
            if let Some(new) = to(value) {
                *value = new;
            }
        }
    }
}

fn amount(value: &Value) -> Option<Value> {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => return None,
    };
    informer_schema::canonical_quantity(&text).ok().map(Value::from)
}

/// Formats a time in UTC. The zero time is encoded as null.
fn time(value: &Value) -> Option<Value> {
    informer_schema::canonical_time(value.as_str()?).ok().map(Value::from)
}

fn micro_time(value: &Value) -> Option<Value> {
    informer_schema::canonical_micro_time(value.as_str()?).ok().map(Value::from)
}

fn is_time(field: Field<'_>) -> bool {
    matches!(field.base(), BaseType::Time | BaseType::MicroTime)
}

/// Returns true if Go omits this value from a field with `omitempty`.
fn is_empty(field: Field<'_>, value: &Value) -> bool {
    match (field.shape(), value) {
        (_, Value::Null) => true,
        (Shape::Pointer, _) => false,
        (Shape::List, Value::Array(entries)) => entries.is_empty(),
        (Shape::Map, Value::Object(members)) => members.is_empty(),
        (Shape::Value, Value::String(text)) => {
            text.is_empty() && matches!(field.base(), BaseType::String | BaseType::Bytes)
        }
        (Shape::Value, Value::Bool(flag)) => !flag,
        (Shape::Value, Value::Number(number)) => {
            let number_field = matches!(field.base(), BaseType::Int32 | BaseType::Int64 | BaseType::Double);
            number_field && number.as_f64() == Some(0.0)
        }
        (Shape::Value, Value::Array(entries)) => entries.is_empty(),
        _ => false,
    }
}

fn zero_of(field: Field<'_>) -> Value {
    if field.shape() != Shape::Value {
        return Value::Null;
    }
    match field.base() {
        BaseType::String => "".into(),
        BaseType::Bool => false.into(),
        BaseType::Int32 | BaseType::Int64 | BaseType::Double | BaseType::IntOrString => 0.into(),
        BaseType::Duration => "0s".into(),
        BaseType::Quantity => "0".into(),
        BaseType::Message(message) => Value::Object(zero(message)),
        _ => Value::Null,
    }
}

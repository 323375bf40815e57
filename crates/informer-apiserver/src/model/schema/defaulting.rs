//! Defaulting by the structural schema of a CRD.

use serde_json::{Map, Value};

use super::pruning::default_of;

/// Applies the defaults of a schema. A default also replaces a null that is not allowed.
pub(super) fn apply(schema: &Value, object: &mut Map<String, Value>) {
    let properties = schema["properties"].as_object();
    for (name, field) in properties.into_iter().flatten() {
        let Some(default) = default_of(field) else { continue };
        if object.get(name).is_none_or(|value| is_invalid_null(field, value)) {
            object.insert(name.clone(), default.clone());
        }
    }
    for (name, value) in object.iter_mut() {
        match properties.and_then(|properties| properties.get(name)) {
            Some(field) => apply_within(field, value),
            None => apply_to(&schema["additionalProperties"], value),
        }
    }
}

/// Replaces an invalid null by the default of its schema, if there is one, and applies the defaults below it.
fn apply_to(schema: &Value, value: &mut Value) {
    if schema.is_object() && is_invalid_null(schema, value) {
        *value = default_of(schema).cloned().unwrap_or_default();
    }
    apply_within(schema, value);
}

fn apply_within(schema: &Value, value: &mut Value) {
    match value {
        Value::Object(members) => apply(schema, members),
        Value::Array(items) => items.iter_mut().for_each(|item| apply_to(&schema["items"], item)),
        _ => {}
    }
}

fn is_invalid_null(schema: &Value, value: &Value) -> bool {
    value.is_null() && schema["nullable"] != true
}

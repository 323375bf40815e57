//! Converts the CEL result of a mutation to a patch and checks the type names in it.

use serde_json::{Map, Value};

use crate::model::cel::TYPE_NAME;
use crate::model::json_patch::JsonPatch;

/// Returns an apply configuration without type names.
///
/// # Errors
///
/// Returns an error if the value is not an `Object`, or if the type name of a nested value does not match its
/// field path.
pub(super) fn object(value: Value) -> Result<Value, String> {
    if !is_a(&value, "Object") {
        return Err("type mismatch: ApplyConfiguration.expression should evaluate to Object".to_owned());
    }
    check_type_names(&value)?;
    Ok(without_type_names(value))
}

pub(super) fn operations(value: Value) -> Result<JsonPatch, String> {
    let Value::Array(value) = value else {
        return Err("type mismatch: JSONPatchType.expression should evaluate to array".to_owned());
    };
    let operations = value.into_iter().map(operation).collect::<Result<_, _>>()?;
    JsonPatch::of(operations).map_err(|count| format!("JSON Patch: {count} operations are too many"))
}

fn operation(value: Value) -> Result<Value, String> {
    let (true, Value::Object(mut value)) = (is_a(&value, "JSONPatch"), value) else {
        return Err(
            "type mismatch: JSONPatchType.expression should evaluate to array of JSONPatch".to_owned()
        );
    };
    let mut operation = Map::new();
    for name in ["op", "path", "from"] {
        match value.remove(name) {
            Some(Value::String(text)) => drop(operation.insert(name.to_owned(), text.into())),
            None if name == "from" => {}
            None => drop(operation.insert(name.to_owned(), "".into())),
            Some(_) => return Err(format!("unexpected type for JSONPatchType '{name}' field")),
        }
    }
    if operation.get("from").is_some_and(|from| from == "") {
        operation.remove("from");
    }
    if let Some(value) = value.remove("value") {
        if value.get(TYPE_NAME).is_some() {
            check_type_names(&value)?;
        }
        operation.insert("value".to_owned(), without_type_names(value));
    }
    Ok(Value::Object(operation))
}

fn is_a(value: &Value, name: &str) -> bool {
    value.get(TYPE_NAME).is_some_and(|known| known == name)
}

fn check_type_names(value: &Value) -> Result<(), String> {
    let mut mismatches = Vec::new();
    let root = value.get(TYPE_NAME).and_then(Value::as_str).unwrap_or_default();
    check(value, root, &mut mismatches);
    if mismatches.is_empty() { Ok(()) } else { Err(format!("type mismatch: {}", mismatches.join("\n"))) }
}

/// Collects the type names that do not match their field path. List items have the path of their list, and a
/// value without a type name has the path of its parent.
fn check(value: &Value, path: &str, mismatches: &mut Vec<String>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| check(item, path, mismatches)),
        Value::Object(members) => {
            let name = members.get(TYPE_NAME).and_then(Value::as_str);
            if let Some(name) = name.filter(|name| *name != path) {
                mismatches.push(format!(
                    "unexpected type name {name:?}, expected {path:?}, which matches field name path from root Object \
                     type"
                ));
            }
            for (field, value) in members.iter().filter(|(field, _)| *field != TYPE_NAME) {
                match name {
                    Some(_) => check(value, &format!("{path}.{field}"), mismatches),
                    None => check(value, path, mismatches),
                }
            }
        }
        _ => {}
    }
}

fn without_type_names(value: Value) -> Value {
    match value {
        Value::Array(items) => items.into_iter().map(without_type_names).collect(),
        Value::Object(members) => {
            let cache_slot = members.into_iter().filter(|(name, _)| name != TYPE_NAME);
            Value::Object(cache_slot.map(|(name, value)| (name, without_type_names(value))).collect())
        }
        other => other,
    }
}

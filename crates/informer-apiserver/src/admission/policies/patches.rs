//! Converts the CEL value of a mutation to a patch and checks the type names in it.

use serde_json::{Map, Value};

use crate::model::cel::TYPE_NAME;
use crate::model::json_patch::JsonPatch;

/// Returns an apply configuration without type names.
///
/// # Errors
///
/// If the value is no `Object`, or the name of a nested type does not match its field path.
pub(super) fn object(made: Value) -> Result<Value, String> {
    if !is_a(&made, "Object") {
        return Err("type mismatch: ApplyConfiguration.expression should evaluate to Object".to_owned());
    }
    named(&made)?;
    Ok(plain(made))
}

/// Returns the operations of a JSON patch.
pub(super) fn operations(made: Value) -> Result<JsonPatch, String> {
    let Value::Array(made) = made else {
        return Err("type mismatch: JSONPatchType.expression should evaluate to array".to_owned());
    };
    let operations = made.into_iter().map(operation).collect::<Result<_, _>>()?;
    JsonPatch::of(operations).map_err(|count| format!("JSON Patch: {count} operations are too many"))
}

fn operation(made: Value) -> Result<Value, String> {
    let (true, Value::Object(mut made)) = (is_a(&made, "JSONPatch"), made) else {
        return Err(
            "type mismatch: JSONPatchType.expression should evaluate to array of JSONPatch".to_owned()
        );
    };
    let mut operation = Map::new();
    for name in ["op", "path", "from"] {
        match made.remove(name) {
            Some(Value::String(text)) => drop(operation.insert(name.to_owned(), text.into())),
            None if name == "from" => {}
            None => drop(operation.insert(name.to_owned(), "".into())),
            Some(_) => return Err(format!("unexpected type for JSONPatchType '{name}' field")),
        }
    }
    if operation.get("from").is_some_and(|from| from == "") {
        operation.remove("from");
    }
    if let Some(value) = made.remove("value") {
        if value.get(TYPE_NAME).is_some() {
            named(&value)?;
        }
        operation.insert("value".to_owned(), plain(value));
    }
    Ok(Value::Object(operation))
}

fn is_a(made: &Value, name: &str) -> bool {
    made.get(TYPE_NAME).is_some_and(|known| known == name)
}

/// Checks that each type name matches its field path.
fn named(made: &Value) -> Result<(), String> {
    let mut wrong = Vec::new();
    let root = made.get(TYPE_NAME).and_then(Value::as_str).unwrap_or_default();
    check(made, root, &mut wrong);
    if wrong.is_empty() { Ok(()) } else { Err(format!("type mismatch: {}", wrong.join("\n"))) }
}

/// Lists and untyped objects add nothing to the path.
fn check(made: &Value, path: &str, wrong: &mut Vec<String>) {
    match made {
        Value::Array(items) => items.iter().for_each(|item| check(item, path, wrong)),
        Value::Object(members) => {
            let name = members.get(TYPE_NAME).and_then(Value::as_str);
            if let Some(name) = name.filter(|name| *name != path) {
                wrong.push(format!(
                    "unexpected type name {name:?}, expected {path:?}, which matches field name path from root Object \
                     type"
                ));
            }
            for (field, value) in members.iter().filter(|(field, _)| *field != TYPE_NAME) {
                match name {
                    Some(_) => check(value, &format!("{path}.{field}"), wrong),
                    None => check(value, path, wrong),
                }
            }
        }
        _ => {}
    }
}

fn plain(made: Value) -> Value {
    match made {
        Value::Array(items) => items.into_iter().map(plain).collect(),
        Value::Object(members) => {
            let kept = members.into_iter().filter(|(name, _)| name != TYPE_NAME);
            Value::Object(kept.map(|(name, value)| (name, plain(value))).collect())
        }
        other => other,
    }
}

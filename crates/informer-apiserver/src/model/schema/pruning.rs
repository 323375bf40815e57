//! Pruning: the removal of fields that a structural schema does not contain, and of nulls that it does not
//! allow.

use serde_json::{Map, Value};

const TYPE_MEMBERS: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// Removes the unknown fields of a custom resource, or of an embedded one. Returns their paths in order.
pub(crate) fn prune(schema: &Value, object: &mut Map<String, Value>) -> Vec<String> {
    let mut unknown = Vec::new();
    members(schema, object, &PrunePosition { path: "", is_embedded: true }, &mut unknown);
    unknown.sort();
    unknown
}

/// Removes the unknown fields of a value that is not a resource.
pub(crate) fn prune_value(schema: &Value, value: &mut Value) {
    prune_at(schema, value, "", &mut Vec::new());
}

/// Removes nulls from fields that are neither nullable nor have a default. Go programs send such nulls for
/// nil pointers without `omitempty`.
pub(crate) fn prune_nulls(schema: &Value, object: &mut Map<String, Value>) {
    object.retain(|name, value| match (field(schema, name), value) {
        (Some(field), Value::Null) => field["nullable"] == true || default_of(field).is_some(),
        (field, value) => {
            prune_nulls_within(field.unwrap_or(&Value::Null), value);
            true
        }
    });
}

fn prune_nulls_within(schema: &Value, value: &mut Value) {
    match value {
        Value::Object(members) => prune_nulls(schema, members),
        Value::Array(items) => items.iter_mut().for_each(|item| prune_nulls_within(&schema["items"], item)),
        _ => {}
    }
}

/// Returns the default of a schema. A null does not count as a default.
pub(crate) fn default_of(schema: &Value) -> Option<&Value> {
    schema.get("default").filter(|default| !default.is_null())
}

/// Returns the schema of a member of an object, from `properties` or `additionalProperties`.
pub(crate) fn field<'a>(schema: &'a Value, name: &str) -> Option<&'a Value> {
    let additional = || Some(&schema["additionalProperties"]).filter(|schema| schema.is_object());
    schema["properties"].get(name).or_else(additional)
}

fn preserves(schema: &Value) -> bool {
    schema["x-kubernetes-preserve-unknown-fields"] == true
}

struct PrunePosition<'a> {
    path: &'a str,
    /// The object is a resource, whose `apiVersion`, `kind` and `metadata` need no schema.
    is_embedded: bool,
}

fn prune_at(schema: &Value, value: &mut Value, path: &str, unknown: &mut Vec<String>) {
    match value {
        Value::Object(object) => {
            let is_embedded = schema["x-kubernetes-embedded-resource"] == true;
            members(schema, object, &PrunePosition { path, is_embedded }, unknown);
        }
        Value::Array(entries) => items(schema, entries, path, unknown),
        _ => {}
    }
}

fn items(schema: &Value, entries: &mut [Value], path: &str, unknown: &mut Vec<String>) {
    for (index, entry) in entries.iter_mut().enumerate() {
        let path = format!("{path}[{index}]");
        if preserves(schema) {
            keep_at(&schema["items"], entry, &path, unknown);
        } else {
            prune_at(&schema["items"], entry, &path, unknown);
        }
    }
}

/// Prunes the parts of a value for which the schema has fields, and keeps its unknown fields.
fn keep_at(schema: &Value, value: &mut Value, path: &str, unknown: &mut Vec<String>) {
    match value {
        Value::Object(object) if schema.is_object() => {
            let is_embedded = schema["x-kubernetes-embedded-resource"] == true;
            known_members(schema, object, &PrunePosition { path, is_embedded }, unknown);
        }
        Value::Array(entries) if schema.is_object() => {
            for (index, entry) in entries.iter_mut().enumerate() {
                keep_at(&schema["items"], entry, &format!("{path}[{index}]"), unknown);
            }
        }
        _ => {}
    }
}

fn known_members(
    schema: &Value,
    object: &mut Map<String, Value>,
    at: &PrunePosition<'_>,
    unknown: &mut Vec<String>,
) {
    for (name, value) in object.iter_mut() {
        if at.is_embedded && TYPE_MEMBERS.contains(&name.as_str()) {
            continue;
        }
        if let Some(field) = structural_field(schema, name) {
            prune_at(field, value, &join(at.path, name), unknown);
        }
    }
}

fn members(
    schema: &Value,
    object: &mut Map<String, Value>,
    at: &PrunePosition<'_>,
    unknown: &mut Vec<String>,
) {
    if preserves(schema) {
        return known_members(schema, object, at, unknown);
    }
    object.retain(|name, value| {
        if at.is_embedded && TYPE_MEMBERS.contains(&name.as_str()) {
            return true;
        }
        let path = join(at.path, name);
        match structural_field(schema, name) {
            Some(field) => {
                prune_at(field, value, &path, unknown);
                true
            }
            None => {
                unknown.push(path);
                false
            }
        }
    });
}

/// Returns the schema of a member. `additionalProperties: true` allows each name, but no fields below it.
fn structural_field<'a>(schema: &'a Value, name: &str) -> Option<&'a Value> {
    static NOTHING: Value = Value::Null;
    let is_open = schema["additionalProperties"].is_boolean();
    field(schema, name).or_else(|| is_open.then_some(&NOTHING))
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

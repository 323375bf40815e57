//! Pruning and defaulting of custom resources by the structural schema of their CRD.

use serde_json::{Map, Value};

const TYPE_MEMBERS: [&str; 3] = ["apiVersion", "kind", "metadata"];
/// The known fields of `metadata`. Other fields of `metadata` are dropped.
const METADATA: [&str; 15] = [
    "annotations",
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "finalizers",
    "generateName",
    "generation",
    "labels",
    "managedFields",
    "name",
    "namespace",
    "ownerReferences",
    "resourceVersion",
    "selfLink",
    "uid",
];

pub(super) fn shape(schema: &Value, object: &mut Map<String, Value>) -> Vec<String> {
    let unknown = prune_all(schema, object);
    defaults(schema, object);
    unknown
}

/// Prunes a custom resource. Returns the paths of the pruned fields in order.
pub(super) fn prune_all(schema: &Value, object: &mut Map<String, Value>) -> Vec<String> {
    let mut unknown = Vec::new();
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.retain(|name, _| {
            let known = METADATA.contains(&name.as_str());
            if !known {
                unknown.push(format!("metadata.{name}"));
            }
            known
        });
    }
    let mut fields = Vec::new();
    object_of(schema, object, "", true, &mut fields);
    fields.sort();
    unknown.extend(fields);
    unknown
}

fn preserves(schema: &Value) -> bool {
    schema["x-kubernetes-preserve-unknown-fields"] == true
}

/// Returns the schema of an object member, from `properties` or `additionalProperties`.
fn member<'a>(schema: &'a Value, name: &str) -> Option<&'a Value> {
    schema["properties"]
        .get(name)
        .or_else(|| Some(&schema["additionalProperties"]).filter(|schema| schema.is_object()))
}

fn object_of(
    schema: &Value,
    object: &mut Map<String, Value>,
    path: &str,
    root: bool,
    unknown: &mut Vec<String>,
) {
    let typed = root || schema["x-kubernetes-embedded-resource"] == true;
    let keeps = preserves(schema) || schema["additionalProperties"] == true;
    object.retain(|name, value| {
        let here = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        if typed && TYPE_MEMBERS.contains(&name.as_str()) {
            return true;
        }
        match member(schema, name) {
            Some(member) => {
                prune(member, value, &here, unknown);
                true
            }
            None => {
                if !keeps {
                    unknown.push(here);
                }
                keeps
            }
        }
    });
}

fn prune(schema: &Value, value: &mut Value, path: &str, unknown: &mut Vec<String>) {
    match value {
        Value::Object(members) => object_of(schema, members, path, false, unknown),
        Value::Array(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                prune(&schema["items"], item, &format!("{path}[{index}]"), unknown);
            }
        }
        _ => {}
    }
}

/// Applies the defaults of a schema. A null in a field that is not nullable is replaced by the default, if
/// there is one.
pub(super) fn defaults(schema: &Value, object: &mut Map<String, Value>) {
    for (name, member) in schema["properties"].as_object().into_iter().flatten() {
        let default = member.get("default");
        if default.is_some() && member["nullable"] != true && object.get(name).is_some_and(Value::is_null) {
            object.remove(name);
        }
        if let Some(default) = default {
            object.entry(name.clone()).or_insert_with(|| default.clone());
        }
    }
    for (name, value) in object.iter_mut() {
        if let Some(member) = member(schema, name) {
            default_within(member, value);
        }
    }
}

fn default_within(schema: &Value, value: &mut Value) {
    match value {
        Value::Object(members) => defaults(schema, members),
        Value::Array(items) => items.iter_mut().for_each(|item| default_within(&schema["items"], item)),
        _ => {}
    }
}

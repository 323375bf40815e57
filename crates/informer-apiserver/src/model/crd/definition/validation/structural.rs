//! The rules of a structural schema: the structure is specified outside of `allOf`, `anyOf`, `oneOf` and
//! `not`, which contain only value validations.

use serde_json::{Value, json};

use super::{additional, has, is_zero, items, list, members, text};
use crate::model::cause::{Cause, Causes};
use crate::model::re2;

#[derive(Clone, Copy, PartialEq, Eq)]
enum SchemaLevel {
    Root,
    Item,
    Field,
}

const NESTED: [&str; 4] = ["anyOf", "allOf", "oneOf", "not"];

/// Validates that a schema is structural. The errors are sorted.
pub(super) fn check(schema: &Value, path: &str) -> Vec<Cause> {
    let mut causes = Causes::default();
    invariants(schema, SchemaLevel::Root, path, &mut causes);
    super::completeness::check(schema, path, &mut causes);
    let mut causes = causes.into_vec();
    causes.sort_by_cached_key(|cause| format!("{}: {}", cause.field, cause.message));
    causes
}

fn flag(schema: &Value, name: &str) -> bool {
    schema[name] == true
}

fn is_embedded(schema: &Value) -> bool {
    flag(schema, "x-kubernetes-embedded-resource")
}

fn preserves(schema: &Value) -> bool {
    flag(schema, "x-kubernetes-preserve-unknown-fields")
}

fn is_int_or_string(schema: &Value) -> bool {
    flag(schema, "x-kubernetes-int-or-string")
}

fn required(path: &str, name: &str, why: &str) -> Cause {
    Cause::required(&format!("{path}.{name}"), why)
}

fn forbidden(path: &str, name: &str, why: &str) -> Cause {
    Cause::forbidden(&format!("{path}.{name}"), why)
}

fn invalid(path: &str, name: &str, value: &Value, why: &str) -> Cause {
    Cause::invalid(&format!("{path}.{name}"), &value.to_string(), why)
}

fn invariants(schema: &Value, level: SchemaLevel, path: &str, causes: &mut Causes) {
    if text(schema, "type") == "array" && items(schema).is_none() {
        causes.push(required(path, "items", "must be specified"));
    }
    if let Some(items) = items(schema) {
        invariants(items, SchemaLevel::Item, &format!("{path}.items"), causes);
    }
    for (name, field) in members(schema, "properties") {
        invariants(field, SchemaLevel::Field, &format!("{path}.properties[{name}]"), causes);
    }
    if schema.get("additionalProperties").is_some_and(|additional| !additional.is_null()) {
        if level == SchemaLevel::Root {
            causes.push(forbidden(path, "additionalProperties", "must not be used at the root"));
        }
        if let Some(additional) = additional(schema) {
            invariants(additional, SchemaLevel::Field, &format!("{path}.additionalProperties"), causes);
        }
        if is_embedded(schema) {
            let why = "must not be used if x-kubernetes-embedded-resource is set";
            causes.push(forbidden(path, "additionalProperties", why));
        }
    }
    extensions(schema, path, causes);
    values(schema, path, causes, (is_int_or_string_pattern(schema), first_all_of_is_pattern(schema)));
    types(schema, level, path, causes);
    metadata(schema, level, path, causes);
    if is_embedded(schema) && !preserves(schema) && !has(schema, "properties") {
        let why = "must not be empty if x-kubernetes-embedded-resource is true without \
                   x-kubernetes-preserve-unknown-fields";
        causes.push(required(path, "properties", why));
    }
}

fn extensions(schema: &Value, path: &str, causes: &mut Causes) {
    let why = "must be false if x-kubernetes-int-or-string is true";
    for name in ["x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"] {
        if is_int_or_string(schema) && flag(schema, name) {
            causes.push(invalid(path, name, &json!(true), why));
        }
    }
}

fn types(schema: &Value, level: SchemaLevel, path: &str, causes: &mut Causes) {
    let kind = text(schema, "type");
    if is_embedded(schema) && kind != "object" {
        let why = "must be object if x-kubernetes-embedded-resource is true";
        causes.push(match kind {
            "" => required(path, "type", why),
            _ => invalid(path, "type", &schema["type"], why),
        });
    } else if kind.is_empty() && !is_int_or_string(schema) && !preserves(schema) {
        let why = match level {
            SchemaLevel::Root => "must not be empty at the root",
            SchemaLevel::Item => "must not be empty for specified array items",
            SchemaLevel::Field => "must not be empty for specified object fields",
        };
        causes.push(required(path, "type", why));
    }
    if level == SchemaLevel::Root && !kind.is_empty() && kind != "object" {
        causes.push(invalid(path, "type", &schema["type"], "must be object at the root"));
    }
}

/// Validates the schemas of `kind`, `apiVersion` and `metadata` of a resource.
fn metadata(schema: &Value, level: SchemaLevel, path: &str, causes: &mut Causes) {
    let is_resource = level == SchemaLevel::Root || is_embedded(schema);
    for name in ["kind", "apiVersion"] {
        let Some(field) = schema["properties"].get(name).filter(|_| is_resource) else { continue };
        if text(field, "type") != "string" {
            let path = format!("{path}.properties[{name}]");
            causes.push(invalid(&path, "type", &json!(text(field, "type")), "must be string"));
        }
    }
    let Some(field) = schema["properties"].get("metadata") else { return };
    let path = format!("{path}.properties[metadata]");
    if is_resource && text(field, "type") != "object" {
        causes.push(invalid(&path, "type", &json!(text(field, "type")), "must be object"));
    }
    let only_names = field["properties"].as_object().is_none_or(|properties| {
        properties.keys().all(|name| matches!(name.as_str(), "name" | "generateName"))
    });
    let others = field.as_object().into_iter().flatten().filter(|(name, value)| {
        !matches!(name.as_str(), "type" | "default" | "properties") && !is_zero(value)
    });
    if level == SchemaLevel::Root && (!only_names || others.count() > 0) {
        let why = "must not specify anything other than name and generateName, but metadata is implicitly \
                   specified";
        causes.push(Cause::forbidden(&path, why));
    }
}

/// Returns true for `anyOf: [{type: integer}, {type: string}]`, which is allowed for `int-or-string`.
fn is_int_or_string_pattern(schema: &Value) -> bool {
    let types = |part: &Value| {
        let set: Vec<_> =
            part.as_object().into_iter().flatten().filter(|(_, value)| !is_zero(value)).collect();
        match set[..] {
            [(name, value)] if name == "type" => value.as_str().map(str::to_owned),
            _ => None,
        }
    };
    let types: Vec<_> = list(schema, "anyOf").iter().map(types).collect();
    types == [Some("integer".to_owned()), Some("string".to_owned())]
}

fn first_all_of_is_pattern(schema: &Value) -> bool {
    list(schema, "allOf").first().is_some_and(is_int_or_string_pattern)
}

/// Validates the value validations of a schema. The patterns of `int-or-string` may be skipped in `anyOf`,
/// and in the `anyOf` of the first `allOf`.
fn values(schema: &Value, path: &str, causes: &mut Causes, (skip_any_of, skip_first_all_of): (bool, bool)) {
    for name in NESTED {
        let parts = match name {
            "not" => schema.get(name).filter(|part| part.is_object()).map_or(&[][..], std::slice::from_ref),
            name => list(schema, name),
        };
        for (index, part) in parts.iter().enumerate() {
            let path = if name == "not" { format!("{path}.not") } else { format!("{path}.{name}[{index}]") };
            match name {
                "anyOf" if skip_any_of => {}
                "allOf" => nested(part, &path, causes, skip_first_all_of && index == 0),
                _ => nested(part, &path, causes, false),
            }
        }
    }
    let pattern = text(schema, "pattern");
    if !pattern.is_empty()
        && let Err(why) = re2::compile(pattern)
    {
        let why = format!("must be a valid regular expression, but isn't: {why}");
        causes.push(invalid(path, "pattern", &schema["pattern"], &why));
    }
}

fn nested(schema: &Value, path: &str, causes: &mut Causes, skip_any_of: bool) {
    const FORBIDDEN: [(&str, &str); 11] = [
        ("type", "must be empty to be structural"),
        ("default", "must be undefined to be structural"),
        ("title", "must be empty to be structural"),
        ("description", "must be empty to be structural"),
        ("nullable", "must be false to be structural"),
        ("x-kubernetes-preserve-unknown-fields", "must be false to be structural"),
        ("x-kubernetes-embedded-resource", "must be false to be structural"),
        ("x-kubernetes-int-or-string", "must be false to be structural"),
        ("x-kubernetes-list-map-keys", "must be empty to be structural"),
        ("x-kubernetes-list-type", "must be undefined to be structural"),
        ("x-kubernetes-map-type", "must be undefined to be structural"),
    ];
    values(schema, path, causes, (skip_any_of, false));
    if let Some(items) = items(schema) {
        nested(items, &format!("{path}.items"), causes, false);
    }
    for (name, field) in members(schema, "properties") {
        nested(field, &format!("{path}.properties[{name}]"), causes, false);
    }
    if schema.get("additionalProperties").is_some_and(|value| value.is_object() || *value == true) {
        causes.push(forbidden(path, "additionalProperties", "must be undefined to be structural"));
    }
    for (name, why) in FORBIDDEN {
        let is_set = match name {
            // An empty or false default is a default.
            "default" => !schema[name].is_null(),
            name => has(schema, name),
        };
        if is_set {
            causes.push(forbidden(path, name, why));
        }
    }
    if has(schema, "x-kubernetes-validations") {
        causes.push(forbidden(path, "x-kubernetes-validations", "must be empty to be structural"));
    }
    if schema["properties"].get("metadata").is_some() {
        let path = format!("{path}.properties[metadata]");
        causes.push(Cause::forbidden(&path, "must not be specified in a nested context"));
    }
}

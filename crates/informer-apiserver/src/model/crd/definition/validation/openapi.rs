//! The rules for each part of a schema: the supported fields of OpenAPI, list types and CEL rules.

use serde_json::Value;

use super::{additional, has, is_zero, items, list, list_types, members, rules, text};
use crate::model::cause::{Cause, Causes};
use crate::model::rules::checks::unsupported;

const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];

/// The context of a part of a schema.
#[derive(Clone)]
struct Context {
    /// The reason why defaults are forbidden in this part.
    forbids_defaults: Option<String>,
    /// The part describes the type or the metadata of a resource.
    in_metadata: bool,
    /// The nearest part above whose values cannot be correlated with those of the stored object.
    uncorrelatable: Option<String>,
    /// The CEL rules of the part are compiled.
    compiles: bool,
    is_root: bool,
}

/// Validates all parts of a schema. CEL rules are compiled only if the schema is structural. Their errors
/// come last.
pub(super) fn check(schema: &Value, path: &str, is_structural: bool) -> Vec<Cause> {
    let context = Context {
        forbids_defaults: None,
        in_metadata: false,
        uncorrelatable: None,
        compiles: is_structural,
        is_root: true,
    };
    let mut found = SchemaErrors::default();
    part(schema, path, &context, &mut found);
    let SchemaErrors { mut causes, expressions } = found;
    causes.extend(expressions.into_vec());
    causes.into_vec()
}

/// The errors of a part of a schema.
#[derive(Default)]
struct SchemaErrors {
    causes: Causes,
    /// The errors of CEL rules.
    expressions: Causes,
}

fn part(schema: &Value, path: &str, context: &Context, found: &mut SchemaErrors) {
    let before = found.causes.len();
    fields(schema, path, context, &mut found.causes);
    if schema["uniqueItems"] == true {
        let why = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        found.causes.push(Cause::forbidden(&format!("{path}.uniqueItems"), why));
    }
    structure(schema, path, context, found);
    nested(schema, path, context, found);
    if schema["x-kubernetes-preserve-unknown-fields"] == false {
        let field = format!("{path}.x-kubernetes-preserve-unknown-fields");
        found.causes.push(Cause::invalid(&field, "false", "must be true or undefined"));
    }
    list_types::check(schema, path, &mut found.causes);
    rules::check(schema, path, &mut found.causes);
    // As in kube-apiserver, rules are compiled only if this part and all parts below are valid.
    if context.compiles && found.causes.len() == before {
        let position = (context.is_root, context.uncorrelatable.as_deref());
        rules::compile(schema, path, position, &mut found.expressions);
    }
}

/// Validates the parts for items, properties and additional properties.
fn structure(schema: &Value, path: &str, context: &Context, found: &mut SchemaErrors) {
    let below = Context { is_root: false, ..context.clone() };
    if let Some(allowed) = schema.get("additionalProperties").filter(|allowed| !allowed.is_null()) {
        let field = format!("{path}.additionalProperties");
        if has(schema, "properties") && *allowed != true {
            let why = "additionalProperties and properties are mutual exclusive";
            found.causes.push(Cause::forbidden(&field, why));
        }
        let mut below = below.clone();
        if context.in_metadata {
            below.forbids_defaults =
                Some("inside additionalProperties applying to object metadata".to_owned());
        }
        if let Some(schema) = additional(schema) {
            part(schema, &field, &below, found);
        }
    }
    let is_resource = context.is_root || schema["x-kubernetes-embedded-resource"] == true;
    for (name, field) in members(schema, "properties") {
        let mut below = below.clone();
        if is_resource && matches!(name.as_str(), "metadata" | "kind" | "apiVersion") {
            below.in_metadata = true;
            if context.is_root {
                below.forbids_defaults = Some(format!("in top-level {name}"));
            }
        }
        part(field, &format!("{path}.properties[{name}]"), &below, found);
    }
    let mut below = below;
    if text(schema, "x-kubernetes-list-type") != "map" {
        below.uncorrelatable.get_or_insert_with(|| path.to_owned());
    }
    if let Some(items) = items(schema) {
        part(items, &format!("{path}.items"), &below, found);
    }
    for (index, item) in list(schema, "items").iter().enumerate() {
        let below = Context { compiles: false, ..below.clone() };
        part(item, &format!("{path}.items[{index}]"), &below, found);
    }
}

fn nested(schema: &Value, path: &str, context: &Context, found: &mut SchemaErrors) {
    let below = Context { compiles: false, is_root: false, ..context.clone() };
    if let Some(not) = schema.get("not").filter(|not| not.is_object()) {
        part(not, &format!("{path}.not"), &below, found);
    }
    for name in ["allOf", "oneOf", "anyOf"] {
        for (index, schema) in list(schema, name).iter().enumerate() {
            part(schema, &format!("{path}.{name}[{index}]"), &below, found);
        }
    }
    for name in ["definitions", "dependencies"] {
        for (key, schema) in members(schema, name).filter(|(_, schema)| schema.is_object()) {
            part(schema, &format!("{path}.{name}[{key}]"), &below, found);
        }
    }
}

/// Validates the fields of OpenAPI that a part has.
fn fields(schema: &Value, path: &str, context: &Context, causes: &mut Causes) {
    let kind = text(schema, "type");
    if !kind.is_empty() && !TYPES.contains(&kind) {
        causes.push(unsupported(&format!("{path}.type"), kind, &TYPES));
    }
    if let Some(reason) = context.forbids_defaults.as_ref().filter(|_| !schema["default"].is_null()) {
        causes.push(Cause::forbidden(&format!("{path}.default"), &format!("must not be set {reason}")));
    }
    for name in ["id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref"] {
        let is_set = match (name, schema.get(name)) {
            (_, None | Some(Value::Null)) => false,
            // Go has pointers or maps for these fields, so that an empty value also counts as set.
            ("additionalItems" | "dependencies" | "$ref", Some(_)) => true,
            (_, Some(value)) => !is_zero(value),
        };
        if is_set {
            causes.push(Cause::forbidden(&format!("{path}.{name}"), &format!("{name} is not supported")));
        }
    }
    if kind == "null" {
        let why = "type cannot be set to null, use nullable as an alternative";
        causes.push(Cause::forbidden(&format!("{path}.type"), why));
    }
    if !list(schema, "items").is_empty() {
        let why = "items must be a schema object and not an array";
        causes.push(Cause::forbidden(&format!("{path}.items"), why));
    }
    if context.in_metadata && schema["x-kubernetes-embedded-resource"] == true {
        let why = "must not be used inside of resource meta";
        causes.push(Cause::forbidden(&format!("{path}.x-kubernetes-embedded-resource"), why));
    }
}

//! The schema of one version.

use serde_json::Value;

use super::{defaults, has, is_zero, items, list, members, openapi, structural, text};
use crate::model::cause::{Cause, Causes};

/// The fields of the root of a schema with a status subresource, as Go's type names them. `status` can then
/// be validated by its own schema, without losing a validation.
const ALLOWED_AT_ROOT: &str = "[Description Type Format Title Maximum ExclusiveMaximum Minimum ExclusiveMinimum \
     MaxLength MinLength Pattern MaxItems MinItems UniqueItems MultipleOf Required Items Properties ExternalDocs \
     Example XPreserveUnknownFields XValidations]";

/// Validates the schema of a version.
pub(super) fn check(schema: &Value, has_status: bool, path: &str) -> Vec<Cause> {
    let mut causes = Causes::default();
    if has_status {
        check_root(schema, path, &mut causes);
    }
    if schema["nullable"] == true {
        causes.push(Cause::forbidden(&format!("{path}.nullable"), "nullable cannot be true at the root"));
    }
    let unsupported = unsupported_field(schema);
    let mut is_structural = false;
    if unsupported.is_none() {
        let problems = structural::check(schema, path);
        let problems = if problems.is_empty() { defaults::check(schema, path) } else { problems };
        is_structural = problems.is_empty();
        causes.extend(problems);
    }
    causes.extend(openapi::check(schema, path, is_structural));
    match unsupported {
        Some(why) if causes.is_empty() => causes.push(Cause::invalid(path, "\"\"", &why)),
        _ => {}
    }
    causes.into_vec()
}

fn check_root(schema: &Value, path: &str, causes: &mut Causes) {
    let kind = text(schema, "type");
    if !kind.is_empty() && kind != "object" {
        let why = "only \"object\" is allowed as the type at the root of the schema if the status subresource \
                   is enabled";
        causes.push(Cause::invalid(&format!("{path}.type"), &format!("{kind:?}"), why));
        return;
    }
    let is_allowed = |name: &str| {
        let go_name = match name {
            "x-kubernetes-preserve-unknown-fields" => "XPreserveUnknownFields".to_owned(),
            "x-kubernetes-validations" => "XValidations".to_owned(),
            name => {
                let mut signs = name.chars();
                signs.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(signs).collect()
            }
        };
        ALLOWED_AT_ROOT.trim_matches(['[', ']']).split(' ').any(|allowed| allowed == go_name)
    };
    let mut set = schema.as_object().into_iter().flatten().filter(|(_, value)| !is_zero(value));
    if set.any(|(name, _)| !is_allowed(name)) {
        let why = format!(
            "only {ALLOWED_AT_ROOT} fields are allowed at the root of the schema if the status subresource is \
             enabled"
        );
        causes.push(Cause::invalid(path, &schema.to_string(), &why));
    }
}

/// Returns the error for a field that a structural schema cannot have at all.
fn unsupported_field(schema: &Value) -> Option<String> {
    let name = match schema {
        schema if has(schema, "id") => "id",
        schema if has(schema, "$schema") => "schema",
        schema if has(schema, "$ref") => "$ref",
        schema if has(schema, "patternProperties") => "patternProperties",
        schema if has(schema, "dependencies") => "dependencies",
        schema if !schema["additionalItems"].is_null() => "additionalItems",
        schema if has(schema, "definitions") => "definitions",
        _ => "",
    };
    if !name.is_empty() {
        return Some(format!("OpenAPIV3Schema '{name}' is not supported"));
    }
    if let Some(found) = nested(schema).find_map(unsupported_field) {
        return Some(found);
    }
    if schema["x-kubernetes-preserve-unknown-fields"] == false {
        let why = "internal error: 'x-kubernetes-preserve-unknown-fields' must be true or undefined";
        return Some(why.to_owned());
    }
    if schema["items"].is_array() {
        return Some("OpenAPIV3Schema 'items' must be a schema, but is an array".to_owned());
    }
    structure(schema).find_map(unsupported_field)
}

/// Returns the schemas within `not`, `allOf`, `anyOf` and `oneOf`.
fn nested(schema: &Value) -> impl Iterator<Item = &Value> {
    let not = schema.get("not").filter(|not| not.is_object());
    not.into_iter().chain(["allOf", "anyOf", "oneOf"].into_iter().flat_map(|name| list(schema, name)))
}

/// Returns the schemas of items and fields.
fn structure(schema: &Value) -> impl Iterator<Item = &Value> {
    let fields = members(schema, "properties").map(|(_, field)| field);
    items(schema).into_iter().chain(fields).chain(super::additional(schema))
}

/// Returns true if a schema or a schema within it has a default.
pub(super) fn has_defaults(schema: &Value) -> bool {
    !schema["default"].is_null() || nested(schema).chain(structure(schema)).any(has_defaults)
}

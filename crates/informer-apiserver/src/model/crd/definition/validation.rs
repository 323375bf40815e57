//! Validation of CustomResourceDefinitions, with the messages of kube-apiserver.
//!
//! kube-apiserver validates the internal form of a definition: a field that is equal in all versions is moved
//! to the spec. Errors contain the paths of that form, such as `spec.validation.openAPIV3Schema`.

mod approval;
mod columns;
mod completeness;
mod defaults;
mod field_path;
mod list_types;
mod names;
mod openapi;
mod rules;
mod schema;
mod selectable_fields;
mod stored_versions;
mod structural;
mod subresources;
mod versions;

use serde_json::Value;

pub(crate) use approval::approval_condition;

use crate::model::cause::{Cause, Causes};
use crate::model::rules::check_conversion;
use crate::model::rules::checks::{required, unsupported};
use crate::model::schema::keywords::{additional, items, list, members, text};

/// Validates a definition, and its changes if there is an old one.
pub(crate) fn validate_crd(definition: &Value, old: Option<&Value>) -> Vec<Cause> {
    let spec = &definition["spec"];
    let mut causes = Causes::default();
    if old.is_none() {
        names::check_object_name(definition, &mut causes);
    }
    names::check_group(spec, &mut causes);
    match text(spec, "scope") {
        "Cluster" | "Namespaced" => {}
        "" => causes.push(required(&"spec.scope", "")),
        other => causes.push(unsupported(&"spec.scope", other, &["Cluster", "Namespaced"])),
    }
    versions::check(spec, &mut causes);
    check_conversion(&spec["conversion"], "spec.conversion", &mut causes);
    if let Some(old) = old {
        check_immutable(definition, old, &mut causes);
    }
    stored_versions::check(definition, &mut causes);
    approval::check(definition, old, &mut causes);
    if spec["preserveUnknownFields"] == true
        && old.is_none_or(|old| old["spec"]["preserveUnknownFields"] != true)
    {
        let why = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in \
                   spec.versions[*].schema instead";
        causes.push(Cause::invalid("spec.preserveUnknownFields", "true", why));
    }
    causes.into_vec()
}

fn check_immutable(definition: &Value, old: &Value, causes: &mut Causes) {
    let is_established = |one: &Value| one["type"] == "Established" && one["status"] == "True";
    let conditions = old["status"]["conditions"].as_array();
    let always = ["/spec/group", "/spec/names/plural"];
    let established = ["/spec/scope", "/spec/names/kind"];
    let fixed = if conditions.into_iter().flatten().any(is_established) { &established[..] } else { &[] };
    for pointer in fixed.iter().chain(&always) {
        let [new, old] = [definition, old].map(|one| one.pointer(pointer).unwrap_or(&Value::Null));
        if old != new {
            let field = pointer.trim_start_matches('/').replace('/', ".");
            causes.push(Cause::invalid(&field, &new.to_string(), "field is immutable"));
        }
    }
}

/// Returns true if Go omits a value: null, false, or empty. Numbers are pointers in the Go types.
fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        _ => false,
    }
}

/// Returns true if a part of a schema is set.
fn has(schema: &Value, name: &str) -> bool {
    schema.get(name).is_some_and(|value| !is_zero(value))
}

#[cfg(test)]
mod tests;

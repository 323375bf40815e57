//! The versions of a definition.

use std::collections::HashSet;

use serde_json::Value;

use super::{columns, has, list, names, schema, selectable_fields, subresources, text};
use crate::model::cause::{Cause, Causes};
use crate::model::rules::checks::required;

/// Maximum length of a deprecation warning in bytes.
const MAX_WARNING_BYTES: usize = 256;

/// The fields that are equal in all versions, which kube-apiserver moves to the spec. `None` means that the
/// versions differ.
struct Shared<'a> {
    schema: Option<&'a Value>,
    subresources: Option<&'a Value>,
    columns: Option<&'a Value>,
    selectable: Option<&'a Value>,
}

impl<'a> Shared<'a> {
    fn of(versions: &'a [Value]) -> Self {
        let shared = |name: &str| {
            let first = &versions.first()?[name];
            versions.iter().all(|version| version[name] == *first).then_some(first)
        };
        Self {
            schema: shared("schema"),
            subresources: shared("subresources"),
            columns: shared("additionalPrinterColumns"),
            selectable: shared("selectableFields"),
        }
    }
}

fn schema_of(version: &Value) -> Option<&Value> {
    version["schema"].get("openAPIV3Schema").filter(|schema| schema.is_object())
}

fn has_status(version: &Value) -> bool {
    version["subresources"]["status"].is_object()
}

pub(super) fn check(spec: &Value, causes: &mut Causes) {
    let versions = list(spec, "versions");
    let shared = Shared::of(versions);
    for (index, _) in versions.iter().enumerate().filter(|(_, version)| schema_of(version).is_none()) {
        causes.push(required(&format!("spec.versions[{index}].schema.openAPIV3Schema"), ""));
    }
    let has_defaults = || versions.iter().filter_map(schema_of).any(schema::has_defaults);
    if spec["preserveUnknownFields"] == true && has_defaults() {
        let why = "must be false in order to use defaults in the schema";
        causes.push(Cause::invalid("spec.preserveUnknownFields", "true", why));
    }
    for (index, version) in versions.iter().enumerate() {
        check_version(version, &format!("spec.versions[{index}]"), &shared, causes);
    }
    check_set(versions, causes);
    names::check(spec, causes);
    check_shared(versions, &shared, causes);
}

/// Checks that the names of the versions are unique, and that one version is stored.
fn check_set(versions: &[Value], causes: &mut Causes) {
    let shown = || {
        let shown: Vec<String> = versions.iter().map(go_version).collect();
        format!("[{}]", shown.join(","))
    };
    let mut seen = HashSet::new();
    if !versions.iter().all(|version| seen.insert(text(version, "name"))) {
        causes.push(Cause::invalid("spec.versions", &shown(), "must contain unique version names"));
    }
    if versions.iter().filter(|version| version["storage"] == true).count() != 1 {
        let why = "must have exactly one version marked as storage version";
        causes.push(Cause::invalid("spec.versions", &shown(), why));
    }
    // The first version must also be a label, because kube-apiserver copies it to a field of the spec.
    if let Some(name) = versions.first().map(|version| text(version, "name")).filter(|name| !name.is_empty())
        && let Some(why) = names::label_problem(name)
    {
        causes.push(Cause::invalid("spec.version", &format!("{name:?}"), &why));
    }
}

fn check_shared(versions: &[Value], shared: &Shared<'_>, causes: &mut Causes) {
    let any_status = versions.iter().any(has_status);
    let schema = shared.schema.filter(|schema| !schema.is_null());
    if let Some(schema) = schema.and_then(|schema| schema.get("openAPIV3Schema")) {
        causes.extend(schema::check(schema, any_status, "spec.validation.openAPIV3Schema"));
    }
    if let Some(sub) = shared.subresources {
        subresources::check(sub, "spec.subresources", causes);
    }
    for (index, column) in shared.columns.and_then(Value::as_array).into_iter().flatten().enumerate() {
        columns::check(column, &format!("spec.additionalPrinterColumns[{index}]"), causes);
    }
    if let Some(fields) = shared.selectable.and_then(Value::as_array).filter(|fields| !fields.is_empty()) {
        match schema.and_then(|schema| schema.get("openAPIV3Schema")) {
            Some(schema) => selectable_fields::check(fields, schema, "spec.selectableFields", causes),
            None => {
                let why = "may only be set when validations.schema is included";
                causes.push(Cause::invalid("spec.selectableFields", "\"\"", why));
            }
        }
    }
}

/// Validates the fields of one version that are not shared by all versions.
fn check_version(version: &Value, path: &str, shared: &Shared<'_>, causes: &mut Causes) {
    if let Some(why) = names::label_problem(text(version, "name")) {
        let shown = format!("{:?}", text(version, "name"));
        causes.push(Cause::invalid(&format!("{path}.name"), &shown, &why));
    }
    check_warning(version, &format!("{path}.deprecationWarning"), causes);
    let schema = schema_of(version).filter(|_| shared.schema.is_none());
    if let Some(schema) = schema {
        let path = format!("{path}.schema.openAPIV3Schema");
        causes.extend(schema::check(schema, has_status(version), &path));
    }
    if shared.subresources.is_none() {
        subresources::check(&version["subresources"], &format!("{path}.subresources"), causes);
    }
    if shared.columns.is_none() {
        for (index, column) in list(version, "additionalPrinterColumns").iter().enumerate() {
            columns::check(column, &format!("{path}.additionalPrinterColumns[{index}]"), causes);
        }
    }
    if shared.selectable.is_none() && has(version, "selectableFields") {
        let field = format!("{path}.selectableFields");
        match schema {
            Some(schema) => {
                selectable_fields::check(list(version, "selectableFields"), schema, &field, causes)
            }
            None => {
                // kube-apiserver also reports this path for a schema that all versions share.
                let why = "may only be set when `version.schema.openAPIV3Schema` is not included";
                causes.push(Cause::invalid(&field, "\"\"", why));
            }
        }
    }
}

fn check_warning(version: &Value, path: &str, causes: &mut Causes) {
    let Some(warning) = version["deprecationWarning"].as_str() else { return };
    let shown = format!("{warning:?}");
    let mut invalid = |why: &str| causes.push(Cause::invalid(path, &shown, why));
    if version["deprecated"] != true {
        return invalid("can only be set for deprecated versions");
    }
    if warning.len() > MAX_WARNING_BYTES {
        invalid("must be <= 256 characters long");
    }
    if warning.is_empty() {
        invalid("must not be an empty string");
    }
    let is_printable = |sign: char| sign == ' ' || !sign.is_control() && !sign.is_whitespace();
    if let Some((index, _)) = warning.char_indices().find(|(_, sign)| !is_printable(*sign)) {
        invalid(&format!(
            "must only contain printable UTF-8 characters; non-printable character found at index {index}"
        ));
    }
}

/// Formats a version as Go's JSON encoder does, without the fields that all versions share.
fn go_version(version: &Value) -> String {
    let flag = |name: &str| version[name] == true;
    format!(
        "{{\"Name\":{},\"Served\":{},\"Storage\":{},\"Deprecated\":{},\"DeprecationWarning\":{},\
         \"Schema\":null,\"Subresources\":null,\"AdditionalPrinterColumns\":null,\"SelectableFields\":null}}",
        version["name"],
        flag("served"),
        flag("storage"),
        flag("deprecated"),
        version["deprecationWarning"],
    )
}

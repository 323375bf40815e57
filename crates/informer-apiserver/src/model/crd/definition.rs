//! Defaulting and validation of CRDs, and the kinds that CRDs define.

use informer_core::Gvr;
use serde_json::{Map, Value, json};

use super::Schema;
use crate::model::error::Cause;
use crate::model::kinds::{Kind, ScalePaths, Traits, version_priority};
use crate::model::rules::check_conversion;
use crate::model::table::PrinterColumn;

type Object = Map<String, Value>;

pub(crate) fn validate_crd(object: &mut Object) -> Vec<Cause> {
    let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let Some(spec) = object.get_mut("spec").filter(|spec| spec.is_object()) else {
        return vec![required("spec", "")];
    };
    fill(spec);
    let mut causes = Vec::new();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    for (value, field) in [
        (&spec["group"], "spec.group"),
        (&spec["names"]["plural"], "spec.names.plural"),
        (&spec["names"]["kind"], "spec.names.kind"),
    ] {
        if text(value).is_empty() {
            causes.push(required(field, ""));
        }
    }
    if name != format!("{}.{}", text(&spec["names"]["plural"]), text(&spec["group"])) {
        let why = "must be spec.names.plural+\".\"+spec.group";
        causes.push(Cause::invalid("metadata.name", &format!("{name:?}"), why));
    }
    match spec["scope"].as_str().unwrap_or_default() {
        "Namespaced" | "Cluster" => {}
        "" => causes.push(required("spec.scope", "")),
        other => {
            let supported = "\"Cluster\", \"Namespaced\"";
            causes.push(Cause::not_supported("spec.scope", &format!("{other:?}"), supported));
        }
    }
    check_versions(&spec["versions"], &mut causes);
    check_conversion(&spec["conversion"], "spec.conversion", &mut causes);
    causes
}

/// Updates `status.storedVersions`, and rejects changes of immutable fields.
pub(crate) fn update_crd(old: &Object, new: &mut Object) -> Vec<Cause> {
    let (Some(was), Some(spec)) = (old.get("spec").cloned(), new.get("spec").cloned()) else {
        return Vec::new();
    };
    let mut causes = Vec::new();
    let conditions = old.get("status").map(|status| status["conditions"].clone()).unwrap_or_default();
    let established = |one: &Value| one["type"] == "Established" && one["status"] == "True";
    if conditions.as_array().into_iter().flatten().any(established) {
        for (field, old, new) in [
            ("spec.scope", &was["scope"], &spec["scope"]),
            ("spec.names.kind", &was["names"]["kind"], &spec["names"]["kind"]),
        ] {
            if old != new {
                causes.push(Cause::invalid(field, &new.to_string(), "field is immutable"));
            }
        }
    }
    let names = |versions: &Value| -> Vec<Value> {
        versions.as_array().into_iter().flatten().map(|version| version["name"].clone()).collect()
    };
    let stored = spec["versions"].as_array().into_iter().flatten().find(|version| version["storage"] == true);
    let stored = stored.map(|version| version["name"].clone());
    let Some(status) = new.get_mut("status").and_then(Value::as_object_mut) else { return causes };
    let held = status.entry("storedVersions").or_insert_with(|| json!([]));
    if let (Some(held), Some(stored)) = (held.as_array_mut(), stored)
        && !held.contains(&stored)
    {
        held.push(stored);
    }
    let there = names(&spec["versions"]);
    for (index, version) in held.as_array().into_iter().flatten().enumerate() {
        if !there.contains(version) {
            let name = version.as_str().unwrap_or_default();
            let why = format!(
                "missing from spec.versions; {name} was previously a storage version, and must remain in \
                 spec.versions until a storage migration ensures no data remains persisted in {name} and removes \
                 {name} from status.storedVersions"
            );
            causes.push(Cause::invalid(
                &format!("status.storedVersions[{index}]"),
                &version.to_string(),
                &why,
            ));
        }
    }
    causes
}

fn required(field: &str, why: &str) -> Cause {
    let mut cause = Cause::required(field, why);
    if why.is_empty() {
        "Required value".clone_into(&mut cause.message);
    }
    cause
}

fn fill(spec: &mut Value) {
    let kind = spec["names"]["kind"].as_str().unwrap_or_default().to_owned();
    if let Some(names) = spec["names"].as_object_mut() {
        names.entry("singular").or_insert_with(|| kind.to_lowercase().into());
        names.entry("listKind").or_insert_with(|| format!("{kind}List").into());
    }
    if spec["conversion"].is_null() {
        spec["conversion"] = json!({"strategy": "None"});
    }
    if let Some(service) = spec["conversion"].pointer_mut("/webhook/clientConfig/service")
        && let Some(service) = service.as_object_mut()
    {
        service.entry("port").or_insert_with(|| 443.into());
    }
}

fn check_versions(versions: &Value, causes: &mut Vec<Cause>) {
    let empty = Vec::new();
    let versions = versions.as_array().unwrap_or(&empty);
    let stored = versions.iter().filter(|version| version["storage"] == true).count();
    if stored != 1 {
        let shown: Vec<String> = versions.iter().map(go_version).collect();
        let why = "must have exactly one version marked as storage version";
        causes.push(Cause::invalid("spec.versions", &format!("[{}]", shown.join(",")), why));
        if stored == 0 {
            let why = "must have at least one stored version";
            causes.push(Cause::invalid("status.storedVersions", "null", why));
        }
        return;
    }
    for (index, version) in versions.iter().enumerate() {
        let schema = &version["schema"]["openAPIV3Schema"];
        if !schema.is_object() {
            causes.push(required(&format!("spec.versions[{index}].schema.openAPIV3Schema"), ""));
            continue;
        }
        // For a CRD with a single version, kube-apiserver reports the path of the schema in the former
        // `v1beta1` API.
        let path = match versions.len() {
            1 => "spec.validation.openAPIV3Schema".to_owned(),
            _ => format!("spec.versions[{index}].schema.openAPIV3Schema"),
        };
        check_structure(schema, &path, SchemaPosition::Root, causes);
    }
}

/// Formats a CRD version as Go's JSON encoder does, without the fields that kube-apiserver removes before it
/// reports the version in an error.
fn go_version(version: &Value) -> String {
    let flag = |name: &str| version[name] == true;
    format!(
        "{{\"Name\":{},\"Served\":{},\"Storage\":{},\"Deprecated\":{},\"DeprecationWarning\":null,\"Schema\":null,\
         \"Subresources\":null,\"AdditionalPrinterColumns\":null,\"SelectableFields\":null}}",
        version["name"],
        flag("served"),
        flag("storage"),
        flag("deprecated"),
    )
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum SchemaPosition {
    Root,
    Property,
    Item,
}

/// Validates that a schema is structural, that is, every part of it has a type.
fn check_structure(schema: &Value, path: &str, place: SchemaPosition, causes: &mut Vec<Cause>) {
    let typed = !schema["type"].as_str().unwrap_or_default().is_empty();
    let untyped = schema["x-kubernetes-int-or-string"] == true
        || schema["x-kubernetes-preserve-unknown-fields"] == true && place != SchemaPosition::Root;
    if !typed && !untyped {
        let what = match place {
            SchemaPosition::Root => "must not be empty at the root",
            SchemaPosition::Property => "must not be empty for specified object fields",
            SchemaPosition::Item => "must not be empty for specified array items",
        };
        causes.push(Cause::required(&format!("{path}.type"), what));
    }
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        check_structure(property, &format!("{path}.properties[{name}]"), SchemaPosition::Property, causes);
    }
    if schema["items"].is_object() {
        check_structure(&schema["items"], &format!("{path}.items"), SchemaPosition::Item, causes);
    }
    if schema["additionalProperties"].is_object() {
        let path = format!("{path}.additionalProperties");
        check_structure(&schema["additionalProperties"], &path, SchemaPosition::Property, causes);
    }
}

pub(crate) struct Served {
    pub(crate) kind: Kind,
    pub(crate) stored: bool,
    pub(crate) served: bool,
}

pub(crate) fn resources(spec: &Value) -> Vec<Gvr> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let versions = spec["versions"].as_array().into_iter().flatten();
    versions
        .map(|version| Gvr::new(text(&spec["group"]), text(&version["name"]), text(&spec["names"]["plural"])))
        .collect()
}

pub(crate) fn kinds(spec: &Value) -> Vec<Served> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let texts = |value: &Value| -> Vec<String> { value.as_array().into_iter().flatten().map(text).collect() };
    let names = &spec["names"];
    let version = |version: &Value| {
        let mut kind = Kind::custom(text(&spec["group"]), text(&version["name"]), text(&names["kind"]))
            .plural(text(&names["plural"]));
        kind.list_kind = text(&names["listKind"]);
        kind.singular = text(&names["singular"]);
        kind.short_names = texts(&names["shortNames"]);
        kind.categories = texts(&names["categories"]);
        kind.namespaced = spec["scope"] == "Namespaced";
        let path = |path: &Value| text(path).trim_start_matches('.').to_owned();
        let fields = version["selectableFields"].as_array().into_iter().flatten();
        kind.selectable = fields.map(|field| path(&field["jsonPath"])).collect();
        let sub = &version["subresources"];
        if !sub["status"].is_object() {
            kind.traits.0 &= !Traits::STATUS.0;
        }
        kind.scale = sub["scale"].is_object().then(|| ScalePaths {
            spec: path(&sub["scale"]["specReplicasPath"]),
            status: path(&sub["scale"]["statusReplicasPath"]),
            selector: Some(path(&sub["scale"]["labelSelectorPath"])).filter(|path| !path.is_empty()),
        });
        kind.columns =
            version["additionalPrinterColumns"].as_array().into_iter().flatten().map(column).collect();
        kind.deprecated = deprecation(spec, version);
        kind.schema = Some(std::sync::Arc::new(Schema::new(version["schema"]["openAPIV3Schema"].clone())));
        Served { kind, stored: version["storage"] == true, served: version["served"] == true }
    };
    spec["versions"].as_array().into_iter().flatten().map(version).collect()
}

fn deprecation(spec: &Value, version: &Value) -> Option<String> {
    if version["deprecated"] != true {
        return None;
    }
    if let Some(stated) = version["deprecationWarning"].as_str() {
        return Some(stated.to_owned());
    }
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (group, kind, name) = (text(&spec["group"]), text(&spec["names"]["kind"]), text(&version["name"]));
    let others = spec["versions"].as_array().into_iter().flatten();
    let better = others
        .filter(|other| other["served"] == true && other["deprecated"] != true)
        .map(|other| text(&other["name"]))
        .filter(|other| version_priority(other) > version_priority(&name))
        .max_by_key(|other| version_priority(other));
    let instead = better.map_or(String::new(), |better| format!("; use {group}/{better} {kind}"));
    Some(format!("{group}/{name} {kind} is deprecated{instead}"))
}

fn column(column: &Value) -> PrinterColumn {
    let text = |name: &str| column[name].as_str().unwrap_or_default().to_owned();
    PrinterColumn {
        name: text("name"),
        cell_type: text("type"),
        format: text("format"),
        description: match text("description") {
            // kube-apiserver uses this description for a column without one.
            none if none.is_empty() => {
                format!("Custom resource definition column (in JSONPath format): {}", text("jsonPath"))
            }
            description => description,
        },
        priority: column["priority"].as_i64().unwrap_or_default(),
        path: text("jsonPath"),
    }
}

//! Defaulting and validation of CRDs, and the kinds that CRDs define.

mod validation;

use informer_core::Gvr;
use serde_json::{Map, Value, json};

use crate::model::cause::Cause;
use crate::model::kinds::{KindDefinition, Traits, version_priority};
use crate::model::rules::as_value;
use crate::model::schema::{ScalePaths, Schema};
use crate::model::table::PrinterColumn;

pub(crate) use validation::{approval_condition, validate_crd};

type Object = Map<String, Value>;

/// Updates `status.storedVersions` of a definition, and validates it.
pub(crate) fn update_crd(old: &Value, new: &mut Object) -> Vec<Cause> {
    let versions = new.get("spec").and_then(|spec| spec["versions"].as_array());
    let stored = versions.into_iter().flatten().find(|version| version["storage"] == true);
    let stored = stored.map(|version| version["name"].clone());
    if let Some(status) = new.get_mut("status").and_then(Value::as_object_mut) {
        let held = status.entry("storedVersions").or_insert_with(|| json!([]));
        // An embedding program may replace a definition without giving its status.
        if held.is_null() {
            *held = json!([]);
        }
        if let (Some(held), Some(stored)) = (held.as_array_mut(), stored)
            && !held.contains(&stored)
        {
            held.push(stored);
        }
    }
    as_value(new, |new| validate_crd(new, Some(old)))
}

/// Applies the defaults of a definition.
pub(crate) fn fill_crd(object: &mut Object) {
    let Some(spec) = object.get_mut("spec").filter(|spec| spec.is_object()) else { return };
    let kind = spec["names"]["kind"].as_str().unwrap_or_default().to_owned();
    if let Some(names) = spec.get_mut("names").and_then(Value::as_object_mut) {
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

pub(crate) struct Served {
    pub(crate) kind: KindDefinition,
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
        let mut kind =
            KindDefinition::custom(text(&spec["group"]), text(&version["name"]), text(&names["kind"]))
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

//! Defaults of Secrets, Nodes and LimitRanges, and the rules of other kinds with little validation.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::Rules;
use super::config_checks as config;
use super::defaults::Default::{self, Call, Fill};
use super::node_checks as nodes;
use super::path::get;
use super::small_checks as checks;

pub(super) fn rules((group, kind): (&str, &str)) -> Option<Rules> {
    Some(match (group, kind) {
        ("", "Secret") => Rules::new(SECRET, config::SECRET).changes(config::SECRET_CHANGES),
        ("", "ConfigMap") => Rules::new(&[], config::CONFIG_MAP).changes(config::CONFIG_MAP_CHANGES),
        ("", "Node") => Rules::new(NODE, nodes::NODE).changes(nodes::CHANGES).status(nodes::STATUS),
        ("", "Event") => Rules::new(&[], checks::EVENT),
        ("coordination.k8s.io", "Lease") => Rules::new(&[], checks::LEASE),
        ("apps", "ControllerRevision") => Rules::new(&[], checks::REVISION).changes(checks::REVISION_CHANGES),
        ("", "LimitRange") => Rules::new(&[Call(limit_range_defaults)], &[]),
        // These kinds have no defaults, but are normalized to the form that Go encodes.
        ("", "ServiceAccount" | "ResourceQuota" | "Namespace") => Rules::new(&[], &[]),
        _ => return None,
    })
}

const NODE: &[Default] = &[Call(default_allocatable), Call(sync_pod_cidrs)];
const SECRET: &[Default] = &[Call(merge_string_data), Fill("type", "\"Opaque\"")];

/// Merges a Secret's `stringData` into `data`, overwriting existing keys.
fn merge_string_data(secret: &mut Value) {
    let Some(members) = secret.as_object_mut() else { return };
    let Some(Value::Object(texts)) = members.remove("stringData") else { return };
    let data = members.entry("data").or_insert_with(|| json!({}));
    if data.is_null() {
        *data = json!({});
    }
    for (name, text) in texts {
        data[name] = STANDARD.encode(text.as_str().unwrap_or_default()).into();
    }
}

/// Defaults `status.allocatable` to `status.capacity`.
fn default_allocatable(node: &mut Value) {
    let capacity = get(node, "status.capacity").cloned();
    if let Some(capacity) = capacity.filter(|_| get(node, "status.allocatable").is_none()) {
        node["status"]["allocatable"] = capacity;
    }
}

/// Synchronizes `podCIDR` and `podCIDRs`. If they differ, `podCIDR` wins.
fn sync_pod_cidrs(node: &mut Value) {
    let one = get(node, "spec.podCIDR").filter(|one| **one != "").cloned();
    let first = get(node, "spec.podCIDRs").and_then(|all| all.get(0)).cloned();
    match (one, first) {
        (None, Some(first)) => node["spec"]["podCIDR"] = first,
        (Some(one), first) if first.as_ref() != Some(&one) => node["spec"]["podCIDRs"] = json!([one]),
        _ => {}
    }
}

/// Defaults `default` and `defaultRequest` of container limits from the limits that are set.
fn limit_range_defaults(range: &mut Value) {
    for item in range["spec"]["limits"].as_array_mut().into_iter().flatten() {
        if item["type"] != "Container" {
            continue;
        }
        for (from, to) in [("max", "default"), ("default", "defaultRequest"), ("min", "defaultRequest")] {
            let known = item[from].as_object().cloned().unwrap_or_default();
            for (name, value) in known {
                if item[to].get(&name).is_none() {
                    item[to][name] = value;
                }
            }
        }
    }
}

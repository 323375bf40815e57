//! Secrets, nodes, namespaces and the like.

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
        ("", "LimitRange") => Rules::new(&[Call(limits)], &[]),
        // Nothing is filled in, but they are brought into form.
        ("", "ServiceAccount" | "ResourceQuota" | "Namespace") => Rules::new(&[], &[]),
        _ => return None,
    })
}

const NODE: &[Default] = &[Call(allocatable), Call(ranges)];
const SECRET: &[Default] = &[Call(plain_text), Fill("type", "\"Opaque\"")];

/// What came as text becomes data, in the place of what was there.
fn plain_text(secret: &mut Value) {
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

/// What a node can give is what it has, where nobody says otherwise.
fn allocatable(node: &mut Value) {
    let capacity = get(node, "status.capacity").cloned();
    if let Some(capacity) = capacity.filter(|_| get(node, "status.allocatable").is_none()) {
        node["status"]["allocatable"] = capacity;
    }
}

/// The range of a node's pods is told twice; where the two differ, the single one counts.
fn ranges(node: &mut Value) {
    let one = get(node, "spec.podCIDR").filter(|one| **one != "").cloned();
    let first = get(node, "spec.podCIDRs").and_then(|all| all.get(0)).cloned();
    match (one, first) {
        (None, Some(first)) => node["spec"]["podCIDR"] = first,
        (Some(one), first) if first.as_ref() != Some(&one) => node["spec"]["podCIDRs"] = json!([one]),
        _ => {}
    }
}

/// Of containers, the limits that are not set follow from those that are.
fn limits(range: &mut Value) {
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

//! Validation of changes of Pods: only a few fields are mutable.

use std::collections::HashSet;

use serde_json::Value;

use crate::model::cause::Cause;
use crate::model::rules::checks::FieldView;

use super::SpecOwner;
use super::containers::check_image;

/// Rejects a Pod update that changes fields other than the mutable ones.
pub(super) fn check(at: &FieldView<'_>, causes: &mut Vec<Cause>) {
    let (new, Some(old)) = (at.part("spec"), at.old.map(|old| &old["spec"])) else { return };
    let count = |spec: &Value, list: &str| spec[list].as_array().map_or(0, Vec::len);
    for list in ["containers", "initContainers"] {
        if count(new.value, list) != count(old, list) {
            let why = "pod updates may not add or remove containers";
            causes.push(Cause::forbidden(&new.field_path(list), why));
            return;
        }
        new.elements(list).for_each(|container| check_image(&container, SpecOwner::Pod, causes));
    }
    let deadline = |spec: &Value| spec["activeDeadlineSeconds"].as_i64();
    let field = new.field_path("activeDeadlineSeconds");
    match (deadline(new.value), deadline(old)) {
        (Some(new), Some(old)) if new > old => {
            let why = "must be less than or equal to previous value";
            return causes.push(Cause::invalid(&field, &new.to_string(), why));
        }
        (None, Some(_)) => {
            let why = "must not update from a positive integer to nil value";
            return causes.push(Cause::invalid(&field, "null", why));
        }
        _ => {}
    }
    check_tolerations(&new, old, causes);
    check_scheduling_gates(&new, old, causes);
    if new.value != old && without_mutable_fields(new.value) != without_mutable_fields(old) {
        let why = "pod updates may not change fields other than \
                   `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,\
                   `spec.tolerations` (only additions to existing tolerations),\
                   `spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";
        causes.push(Cause::forbidden("spec", why));
    }
}

/// Rejects an update that removes a toleration, or changes more than its seconds.
fn check_tolerations(new: &FieldView<'_>, old: &Value, causes: &mut Vec<Cause>) {
    fn without_seconds(toleration: &Value) -> [&str; 4] {
        ["key", "operator", "value", "effect"].map(|name| toleration[name].as_str().unwrap_or_default())
    }
    let kept: HashSet<_> = new.items("tolerations").iter().map(without_seconds).collect();
    let mut before = old["tolerations"].as_array().into_iter().flatten().map(without_seconds);
    if !before.all(|toleration| kept.contains(&toleration)) {
        let why = "existing toleration can not be modified except its tolerationSeconds";
        causes.push(Cause::forbidden(&new.field_path("tolerations"), why));
    }
}

fn check_scheduling_gates(new: &FieldView<'_>, old: &Value, causes: &mut Vec<Cause>) {
    let before: HashSet<&str> = old["schedulingGates"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|gate| gate["name"].as_str())
        .collect();
    for gate in new.elements("schedulingGates") {
        let name = gate.text("name");
        if !before.contains(name) {
            let why = format!("only deletion is allowed, but found new scheduling gate '{name}'");
            causes.push(Cause::forbidden(&gate.field_path("name"), &why));
        }
    }
}

fn without_mutable_fields(spec: &Value) -> Value {
    let mut spec = spec.clone();
    for list in ["containers", "initContainers"] {
        for container in spec[list].as_array_mut().into_iter().flatten() {
            container["image"] = Value::Null;
        }
    }
    for name in ["activeDeadlineSeconds", "tolerations", "schedulingGates"] {
        if let Some(spec) = spec.as_object_mut() {
            spec.remove(name);
        }
    }
    if let Some(spec) = spec.as_object_mut() {
        spec.retain(|_, value| !value.is_null());
    }
    spec
}

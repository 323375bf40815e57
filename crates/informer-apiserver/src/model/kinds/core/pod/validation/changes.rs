//! Validation of changes of Pods: only a few fields are mutable.

use std::collections::HashSet;

use serde_json::Value;

use crate::model::cause::{Cause, Causes};
use crate::model::rules::checks::{FieldView, short_value};
use crate::model::rules::get;

use super::containers::check_image;
use super::{SpecOwner, annotations};

/// Validates the annotations of an updated pod, also if only its status is updated.
pub(super) fn check_annotations(at: &FieldView<'_, '_>, causes: &mut Causes) {
    let annotations = at.part("metadata.annotations");
    annotations::check_changes(&annotations, causes);
    annotations::check(&annotations, &at.part("spec"), causes);
}

/// Rejects a Pod update that changes fields other than the mutable ones.
pub(super) fn check(at: &FieldView<'_, '_>, causes: &mut Causes) {
    // kube-apiserver validates the annotations of an updated pod twice.
    check_annotations(at, causes);
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
    if new.value == old {
        return;
    }
    let (mut changed, mut before) = (without_mutable_fields(new.value), without_mutable_fields(old));
    if changed["terminationGracePeriodSeconds"] == 1 && is_negative(&before["terminationGracePeriodSeconds"])
    {
        changed["terminationGracePeriodSeconds"] = before["terminationGracePeriodSeconds"].clone();
    }
    if count(old, "schedulingGates") > 0 {
        check_node_selector_change(&new, old, causes);
        check_node_affinity_change(&new, old, causes);
        remove_node_choice(&mut changed);
        remove_node_choice(&mut before);
    }
    if changed != before {
        let why = "pod updates may not change fields other than \
                   `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,\
                   `spec.tolerations` (only additions to existing tolerations),\
                   `spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";
        causes.push(Cause::forbidden("spec", why));
    }
}

/// Rejects an update that removes a toleration, or changes more than its `tolerationSeconds`.
fn check_tolerations(new: &FieldView<'_, '_>, old: &Value, causes: &mut Causes) {
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

fn check_scheduling_gates(new: &FieldView<'_, '_>, old: &Value, causes: &mut Causes) {
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

fn is_negative(number: &Value) -> bool {
    number.as_i64().is_some_and(|number| number < 0)
}

/// Rejects an update of a pod with scheduling gates that removes or changes entries of its node selector.
fn check_node_selector_change(new: &FieldView<'_, '_>, old: &Value, causes: &mut Causes) {
    let selector = &new.value["nodeSelector"];
    let mut before = old["nodeSelector"].as_object().into_iter().flatten();
    if !before.all(|(name, value)| selector.get(name) == Some(value)) {
        let why = "only additions to spec.nodeSelector are allowed (no mutations or deletions)";
        causes.push(Cause::invalid(&new.field_path("nodeSelector"), &short_value(Some(selector)), why));
    }
}

/// Rejects an update of a pod with scheduling gates that allows nodes which its required node affinity
/// excluded: terms may get more requirements, but must keep those that they have.
fn check_node_affinity_change(new: &FieldView<'_, '_>, old: &Value, causes: &mut Causes) {
    let path = "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms";
    let before = get(old, path).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let terms = new.items(path);
    if !before.is_empty() && before.len() != terms.len() {
        let why = "no additions/deletions to non-empty NodeSelectorTerms list are allowed";
        return causes.push(Cause::invalid(&new.field_path(path), &short_value(new.get(path)), why));
    }
    for (term, before) in new.elements(path).zip(before) {
        if !has_only_additions(term.value, before) {
            let why = "only additions are allowed (no mutations or deletions)";
            causes.push(Cause::invalid(&term.path, &short_value(Some(term.value)), why));
        }
    }
}

fn has_only_additions(term: &Value, before: &Value) -> bool {
    fn requirements<'a>(term: &'a Value, list: &str) -> &'a [Value] {
        term[list].as_array().map_or(&[], Vec::as_slice)
    }
    let lists = ["matchExpressions", "matchFields"];
    // An empty term matches no node, so an addition to it would allow nodes.
    let was_empty = lists.iter().all(|list| requirements(before, list).is_empty());
    let is_empty = lists.iter().all(|list| requirements(term, list).is_empty());
    let is_kept = |list: &&str| requirements(term, list).starts_with(requirements(before, list));
    was_empty == is_empty && lists.iter().all(is_kept)
}

/// Removes the node selector and the node affinity of a pod.
fn remove_node_choice(spec: &mut Value) {
    let Some(spec) = spec.as_object_mut() else { return };
    spec.remove("nodeSelector");
    if let Some(affinity) = spec.get_mut("affinity").and_then(Value::as_object_mut) {
        affinity.remove("nodeAffinity");
        if affinity.is_empty() {
            spec.remove("affinity");
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

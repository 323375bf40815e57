//! The fields of a certificate request that `/status` and `/approval` change.

use std::collections::HashMap;

use serde_json::Value;

use crate::model::kinds::descriptor::SubresourceStrategy;
use crate::model::rules::checks::{Check, is_missing};
use crate::model::rules::path::{get, set};
use crate::model::rules::warnings::{list, text};
use crate::model::write_options::WriteMode;

use super::conditions::{APPROVED, DENIED, check_approval_update, check_status_update};
use super::validation;

pub(super) const STATUS: SubresourceStrategy = SubresourceStrategy {
    mode: WriteMode::Status,
    prepare: prepare_status,
    checks: &[Check::Call(validation::check), Check::Call(check_status_update)],
    reset_fields: &["spec", "status.conditions"],
};

pub(super) const APPROVAL: SubresourceStrategy = SubresourceStrategy {
    mode: WriteMode::Approval,
    prepare: prepare_approval,
    checks: &[Check::Call(validation::check), Check::Call(check_approval_update)],
    reset_fields: &["spec", "status.certificate"],
};

/// Keeps the spec, and the conditions that `/approval` sets. If conditions of these types were added or
/// removed, they stay in the object, so that the validation rejects it.
fn prepare_status(old: &Value, request: &mut Value, now: &str) {
    copy("spec", old, request);
    for kind in [APPROVED, DENIED] {
        keep_conditions(old, request, kind);
    }
    set_times(old, request, now);
}

/// Keeps everything but the conditions and the metadata.
fn prepare_approval(old: &Value, request: &mut Value, now: &str) {
    set_times(old, request, now);
    let conditions = get(request, "status.conditions").cloned();
    copy("spec", old, request);
    copy("status", old, request);
    if let Some(conditions) = conditions {
        set(request, "status.conditions", conditions);
    } else if let Some(status) = request.get_mut("status").and_then(Value::as_object_mut) {
        status.remove("conditions");
    }
}

fn copy(name: &str, old: &Value, request: &mut Value) {
    if let Some(request) = request.as_object_mut() {
        match old.get(name) {
            Some(value) => request.insert(name.to_owned(), value.clone()),
            None => request.remove(name),
        };
    }
}

fn conditions_mut(request: &mut Value) -> impl Iterator<Item = &mut Value> {
    let conditions =
        request.get_mut("status").and_then(|status| status.get_mut("conditions")?.as_array_mut());
    conditions.into_iter().flatten()
}

fn keep_conditions(old: &Value, request: &mut Value, kind: &str) {
    let is_of_kind = |condition: &&Value| condition["type"] == kind;
    let old: Vec<&Value> = list(&old["status"]["conditions"]).filter(is_of_kind).collect();
    if list(&request["status"]["conditions"]).filter(is_of_kind).count() == old.len() {
        let new = conditions_mut(request).filter(|condition| condition["type"] == kind);
        new.zip(old).for_each(|(new, old)| new.clone_from(old));
    }
}

/// Sets the missing times of conditions. A condition whose type and status exist already keeps the time of
/// its transition.
fn set_times(old: &Value, request: &mut Value, now: &str) {
    let mut transitions = HashMap::new();
    for condition in list(&old["status"]["conditions"]) {
        if let Some(time) = get(condition, "lastTransitionTime") {
            transitions.entry(type_and_status(condition)).or_insert(time);
        }
    }
    for condition in conditions_mut(request) {
        let transition = transitions.get(&type_and_status(condition)).map(|time| (*time).clone());
        let transition = transition.unwrap_or_else(|| now.into());
        for (name, time) in [("lastUpdateTime", now.into()), ("lastTransitionTime", transition)] {
            if is_missing(condition.get(name)) {
                set(condition, name, time);
            }
        }
    }
}

fn type_and_status(condition: &Value) -> [&str; 2] {
    ["type", "status"].map(|name| text(&condition[name]))
}

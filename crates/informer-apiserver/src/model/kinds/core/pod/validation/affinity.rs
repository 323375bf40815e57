//! Validation of node affinity, pod affinity and topology spread constraints.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use crate::model::cause::{Cause, Causes};
use crate::model::rules::checks::{FieldView, NameFormat, check_selector, duplicate, required, unsupported};
use crate::model::rules::scheduling::{LabelValues, check_node_selector, check_node_selector_term};

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

pub(super) fn check(at: &FieldView<'_, '_>, causes: &mut Causes) {
    let node = at.part("nodeAffinity");
    if node.get(REQUIRED).is_some() {
        check_node_selector(&node.part(REQUIRED), causes);
    }
    for term in node.elements(PREFERRED) {
        check_weight(&term, causes);
        check_node_selector_term(&term.part("preference"), LabelValues::Unchecked, causes);
    }
    for affinity in ["podAffinity", "podAntiAffinity"] {
        let pods = at.part(affinity);
        for term in pods.elements(REQUIRED) {
            check_pod_term(&term, causes);
        }
        for term in pods.elements(PREFERRED) {
            check_weight(&term, causes);
            check_pod_term(&term.part("podAffinityTerm"), causes);
        }
    }
}

fn check_weight(at: &FieldView<'_, '_>, causes: &mut Causes) {
    let weight = at.number("weight").unwrap_or_default();
    if !(1..=100).contains(&weight) {
        causes.push(Cause::invalid(
            &at.field_path("weight"),
            &weight.to_string(),
            "must be in the range 1-100",
        ));
    }
}

fn check_pod_term(at: &FieldView<'_, '_>, causes: &mut Causes) {
    for selector in ["labelSelector", "namespaceSelector"] {
        if at.get(selector).is_some() {
            check_selector(&at.part(selector), causes);
        }
    }
    for name in at.items("namespaces").iter().filter_map(Value::as_str) {
        NameFormat::Label.check(&at.field_path("namespace"), name, causes);
    }
    for list in ["matchLabelKeys", "mismatchLabelKeys"] {
        check_label_keys(at, list, causes);
    }
    check_selected_keys(at, causes);
    let mismatched: HashSet<&str> = at.items("mismatchLabelKeys").iter().filter_map(Value::as_str).collect();
    for key in at.elements("matchLabelKeys") {
        let text = key.value.as_str().unwrap_or_default();
        if mismatched.contains(text) {
            let why = "exists in both matchLabelKeys and mismatchLabelKeys";
            causes.push(Cause::invalid(&key.path, &format!("{text:?}"), why));
        }
    }
    let (field, key) = (at.field_path("topologyKey"), at.text("topologyKey"));
    if key.is_empty() {
        causes.push(required(&field, "can not be empty"));
    }
    NameFormat::Qualified.check(&field, key, causes);
}

/// Validates label keys whose values a selector takes from the labels of the pod.
fn check_label_keys(at: &FieldView<'_, '_>, list: &str, causes: &mut Causes) {
    if at.items(list).is_empty() {
        return;
    }
    if at.get("labelSelector").is_none() {
        let why = "must not be specified when labelSelector is not set";
        return causes.push(Cause::forbidden(&at.field_path(list), why));
    }
    for key in at.elements(list) {
        NameFormat::Qualified.check(&key.path, key.value.as_str().unwrap_or_default(), causes);
    }
}

/// Rejects a key of `matchLabelKeys` that the selector contains more than once. kube-apiserver adds a
/// requirement for each of these keys to the selectors of new pods.
fn check_selected_keys(at: &FieldView<'_, '_>, causes: &mut Causes) {
    let keys = at.items("matchLabelKeys").iter().enumerate();
    let keys: HashMap<&str, usize> = keys.filter_map(|(index, key)| Some((key.as_str()?, index))).collect();
    let labels = at.get("labelSelector.matchLabels").and_then(Value::as_object);
    let mut selected: HashSet<&str> =
        labels.into_iter().flat_map(|labels| labels.keys()).map(|key| &**key).collect();
    for requirement in at.items("labelSelector.matchExpressions") {
        let key = requirement["key"].as_str().unwrap_or_default();
        if !selected.insert(key)
            && let Some(index) = keys.get(key)
        {
            let why = "exists in both matchLabelKeys and labelSelector";
            causes.push(Cause::invalid(&at.path.element(*index), &format!("{key:?}"), why));
        }
    }
}

pub(super) fn check_spread_constraints(at: &FieldView<'_, '_>, causes: &mut Causes) {
    fn pair_of<'a>(constraint: &FieldView<'a, '_>) -> (&'a str, &'a str) {
        (constraint.text("topologyKey"), constraint.text("whenUnsatisfiable"))
    }
    let constraints: Vec<_> = at.elements("topologySpreadConstraints").collect();
    let last: HashMap<_, _> =
        constraints.iter().enumerate().map(|(index, constraint)| (pair_of(constraint), index)).collect();
    for (index, constraint) in constraints.iter().enumerate() {
        check_spread_constraint(constraint, causes);
        let pair = pair_of(constraint);
        // kube-apiserver compares a constraint with the later ones, so the last one of equal ones is valid.
        if last[&pair] > index {
            let shown = format!("\"{{{}, {}}}\"", pair.0, pair.1);
            causes.push(duplicate(&constraint.field_path("{topologyKey, whenUnsatisfiable}"), &shown));
        }
    }
}

fn check_spread_constraint(at: &FieldView<'_, '_>, causes: &mut Causes) {
    let positive = "must be greater than zero";
    let skew = at.number("maxSkew").unwrap_or_default();
    if skew <= 0 {
        causes.push(Cause::invalid(&at.field_path("maxSkew"), &skew.to_string(), positive));
    }
    if at.text("topologyKey").is_empty() {
        causes.push(required(&at.field_path("topologyKey"), "can not be empty"));
    }
    let action = at.text("whenUnsatisfiable");
    if !matches!(action, "DoNotSchedule" | "ScheduleAnyway") {
        let known = ["DoNotSchedule", "ScheduleAnyway"];
        causes.push(unsupported(&at.field_path("whenUnsatisfiable"), action, &known));
    }
    if let Some(domains) = at.number("minDomains") {
        let (field, shown) = (at.field_path("minDomains"), domains.to_string());
        if domains <= 0 {
            causes.push(Cause::invalid(&field, &shown, positive));
        }
        if action != "DoNotSchedule" {
            let why = format!("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}");
            causes.push(Cause::invalid(&field, &shown, &why));
        }
    }
    for policy in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
        match at.get(policy).and_then(Value::as_str) {
            None | Some("Honor" | "Ignore") => {}
            Some(other) => causes.push(unsupported(&at.field_path(policy), other, &["Honor", "Ignore"])),
        }
    }
    check_label_keys(at, "matchLabelKeys", causes);
    check_selected_keys(at, causes);
    if at.get("labelSelector").is_some() {
        check_selector(&at.part("labelSelector"), causes);
    }
}

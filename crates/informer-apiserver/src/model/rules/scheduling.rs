//! Validation of fields that select nodes: tolerations, node selectors and node affinity.

use serde_json::Value;

use crate::model::cause::{Cause, Causes};
use crate::model::labels::label_value_problems;
use crate::model::rules::checks::{Check, FieldView, NameFormat, required, run, unsupported};

const EFFECTS: &[&str] = &["NoSchedule", "PreferNoSchedule", "NoExecute"];

pub(crate) fn check_toleration(at: &FieldView<'_, '_>, causes: &mut Causes) {
    let (key, operator, value) = (at.text("key"), at.text("operator"), at.text("value"));
    let effect = at.text("effect");
    if !key.is_empty() {
        NameFormat::Qualified.check(&at.field_path("key"), key, causes);
    }
    if key.is_empty() && operator != "Exists" {
        let why =
            "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
        causes.push(Cause::invalid(&at.field_path("operator"), &format!("{operator:?}"), why));
    }
    if at.number("tolerationSeconds").is_some() && effect != "NoExecute" {
        let why = "effect must be 'NoExecute' when `tolerationSeconds` is set";
        causes.push(Cause::invalid(&at.field_path("effect"), &format!("{effect:?}"), why));
    }
    let field = at.field_path("operator");
    match operator {
        "Exists" if !value.is_empty() => {
            let why = "value must be empty when `operator` is 'Exists'";
            causes.push(Cause::invalid(&field, &format!("{value:?}"), why));
        }
        "Exists" => {}
        "Equal" | "" => {
            let invalid = |why: &&str| Cause::invalid(&field, &format!("{value:?}"), why);
            causes.extend(label_value_problems(value).iter().map(invalid));
        }
        // The server knows these operators, but does not enable them by default.
        "Lt" | "Gt" => causes.push(unsupported(&field, operator, &["Equal", "Exists", "Lt", "Gt"])),
        other => causes.push(unsupported(&field, other, &["Equal", "Exists"])),
    }
    run(at, &[Check::OneOf("effect", EFFECTS)], causes);
}

/// Validates a node selector: the terms of a required node affinity.
pub(crate) fn check_node_selector(at: &FieldView<'_, '_>, causes: &mut Causes) {
    let terms = at.items("nodeSelectorTerms");
    if terms.is_empty() {
        let why = "must have at least one node selector term";
        causes.push(required(&at.field_path("nodeSelectorTerms"), why));
    }
    for (index, term) in terms.iter().enumerate() {
        let path = at.field_path("nodeSelectorTerms").index(index);
        check_node_selector_term(&FieldView { value: term, old: None, path }, LabelValues::Checked, causes);
    }
}

/// Whether the values of a node selector must be valid label values. kube-apiserver accepts invalid ones in
/// preferred terms, which then select no node.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum LabelValues {
    Checked,
    Unchecked,
}

pub(crate) fn check_node_selector_term(at: &FieldView<'_, '_>, values: LabelValues, causes: &mut Causes) {
    for (index, requirement) in at.items("matchExpressions").iter().enumerate() {
        let path = at.field_path("matchExpressions").index(index);
        check_node_label(&FieldView { value: requirement, old: None, path }, values, causes);
    }
    for (index, requirement) in at.items("matchFields").iter().enumerate() {
        let path = at.field_path("matchFields").index(index);
        check_node_field(&FieldView { value: requirement, old: None, path }, causes);
    }
}

fn check_node_label(at: &FieldView<'_, '_>, label_values: LabelValues, causes: &mut Causes) {
    let (operator, values) = (at.text("operator"), at.items("values"));
    let field = at.field_path("values");
    match operator {
        "In" | "NotIn" if values.is_empty() => {
            causes.push(required(&field, "must be specified when `operator` is 'In' or 'NotIn'"));
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            let why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            causes.push(Cause::forbidden(&field, why));
        }
        "Gt" | "Lt" if values.len() != 1 => {
            causes.push(required(&field, "must be specified single value when `operator` is 'Lt' or 'Gt'"));
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
        other => causes.push(invalid_operator(at, other)),
    }
    NameFormat::Qualified.check(&at.field_path("key"), at.text("key"), causes);
    if label_values == LabelValues::Unchecked {
        return;
    }
    for (index, value) in values.iter().filter_map(Value::as_str).enumerate() {
        let field = at.field_path("values").index(index);
        let invalid = |why: &&str| Cause::invalid(&field, &format!("{value:?}"), why);
        causes.extend(label_value_problems(value).iter().map(invalid));
    }
}

fn check_node_field(at: &FieldView<'_, '_>, causes: &mut Causes) {
    let values = at.items("values");
    match at.text("operator") {
        "In" | "NotIn" if values.len() != 1 => {
            let why = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector";
            causes.push(required(&at.field_path("values"), why));
        }
        "In" | "NotIn" => {}
        other => causes.push(invalid_operator(at, other)),
    }
    let key = at.text("key");
    if key != "metadata.name" {
        let why = "not a valid field selector key";
        causes.push(Cause::invalid(&at.field_path("key"), &format!("{key:?}"), why));
        return;
    }
    for (index, name) in values.iter().filter_map(Value::as_str).enumerate() {
        NameFormat::Subdomain.check(&at.field_path("values").index(index), name, causes);
    }
}

fn invalid_operator(at: &FieldView<'_, '_>, operator: &str) -> Cause {
    Cause::invalid(&at.field_path("operator"), &format!("{operator:?}"), "not a valid selector operator")
}

//! Defaults, validation and table cells that the kinds with a pod template share.

use informer_core::LabelSelector;
use serde_json::{Value, json};

use crate::model::cause::{Cause, Causes};
use crate::model::kinds::core::pod::validation::{check_template, shown_labels};
use crate::model::kinds::core::pod::warnings::of_template;
use crate::model::rules::checks::{
    Check, FieldView, check_selector, is_missing, label_problems, not_negative, required, unsupported,
};
use crate::model::rules::path::{get, set};
use crate::model::rules::warnings::{list, text};
use crate::model::selectors::selector_text;
use crate::model::table::TableRow;
use crate::model::table::text::{NONE, joined, number};

pub(crate) const SPEC_TEMPLATE: &[&str] = &["spec", "template"];

/// Returns the warnings for the pod template of a workload that has it in `spec.template`.
pub(crate) fn template_warnings(object: &Value, old: Option<&Value>) -> Vec<String> {
    let template = changed(object, old).then(|| of_template(object, "spec.template"));
    pod_name_warnings(object, old).chain(template.into_iter().flatten()).collect()
}

pub(crate) const IMMUTABLE_SELECTOR: &[Check] = &[Check::Immutable("spec.selector")];

/// Rejects negative pod counts in the status of a workload, and counts above `status.replicas`.
pub(crate) fn check_status(at: &FieldView<'_, '_>, first: &[&str], counts: &[&str], causes: &mut Causes) {
    let status = at.part("status");
    not_negative(&status, first, causes);
    not_negative(&status, counts, causes);
    let number = |name: &str| status.number(name).unwrap_or_default();
    for name in counts {
        if number(name) > number("replicas") {
            let why = "cannot be greater than status.replicas";
            causes.push(Cause::invalid(&status.field_path(name), &number(name).to_string(), why));
        }
    }
    let (ready, available) = (number("readyReplicas"), number("availableReplicas"));
    if counts.contains(&"readyReplicas") && available > ready {
        let why = "cannot be greater than readyReplicas";
        causes.push(Cause::invalid(&status.field_path("availableReplicas"), &available.to_string(), why));
    }
}

pub(crate) fn default_labels(object: &mut Value) {
    let labels = get(object, "spec.template.metadata.labels").cloned();
    if let Some(labels) = labels.filter(|_| is_missing(get(object, "metadata.labels"))) {
        set(object, "metadata.labels", labels);
    }
}

/// Validates the selector of a workload. `kind` is the kind in the error for an empty selector.
pub(crate) fn check_selector_of(spec: &FieldView<'_, '_>, kind: &str, causes: &mut Causes) {
    let Some(selector) = spec.get("selector") else {
        if kind != "daemonset" {
            causes.push(required(&spec.field_path("selector"), ""));
        }
        return;
    };
    check_selector(&spec.part("selector"), causes);
    if selector.as_object().is_some_and(serde_json::Map::is_empty) {
        let why = format!("empty selector is invalid for {kind}");
        causes.push(Cause::invalid(&spec.field_path("selector"), "{}", &why));
    }
}

pub(crate) fn parse_selector(spec: &FieldView<'_, '_>) -> Option<LabelSelector> {
    let operators = spec.items("selector.matchExpressions").iter();
    let understood = |operator: &str| matches!(operator, "In" | "NotIn" | "Exists" | "DoesNotExist");
    if operators.into_iter().all(|item| understood(item["operator"].as_str().unwrap_or_default())) {
        spec.get("selector")
            .map_or(Some(LabelSelector::nothing()), |selector| selector_text(selector).parse().ok())
    } else {
        None
    }
}

/// Validates the pod template of a workload, whose labels the selector must match. The `restartPolicy` must
/// be `Always`, and `activeDeadlineSeconds` is forbidden; its error names `kind`.
pub(crate) fn check_template_of(spec: &FieldView<'_, '_>, kind: &str, causes: &mut Causes) {
    let template = spec.part("template");
    let empty = spec.get("selector").and_then(Value::as_object).is_some_and(serde_json::Map::is_empty);
    let labels = template.get("metadata.labels");
    let selected = |selector: &LabelSelector| {
        selector.matches_with(|label| labels.and_then(|labels| labels.get(label)?.as_str()))
    };
    if !empty && parse_selector(spec).is_some_and(|selector| !selected(&selector)) {
        let shown = shown_labels(&template);
        let why = "`selector` does not match template `labels`";
        causes.push(Cause::invalid(&template.field_path("metadata.labels"), &shown, why));
    }
    check_template(&template, causes);
    if template.get("spec.activeDeadlineSeconds").is_some() {
        let why = format!("activeDeadlineSeconds in {kind} is not Supported");
        causes.push(Cause::forbidden(&template.field_path("spec.activeDeadlineSeconds"), &why));
    }
    let policy = template.text("spec.restartPolicy");
    if !policy.is_empty() && policy != "Always" {
        causes.push(unsupported(&template.field_path("spec.restartPolicy"), policy, &["Always"]));
    }
}

/// Validates the pod template of a workload if its selector is valid. Otherwise reports the invalid selector,
/// with `suffix` appended to its value.
pub(crate) fn check_selected_template(
    spec: &FieldView<'_, '_>,
    kind: &str,
    suffix: &str,
    causes: &mut Causes,
) {
    if parse_selector(spec).is_some() {
        return check_template_of(spec, kind, causes);
    }
    let shown = spec.get("selector").map(ToString::to_string).unwrap_or_default();
    causes.push(Cause {
        reason: "FieldValueInvalid",
        message: format!("Invalid value: {shown}{suffix}"),
        field: spec.field_path("selector").to_string(),
    });
}

/// Returns true if the object is new or the update has changed its generation.
pub(crate) fn changed(object: &Value, old: Option<&Value>) -> bool {
    old.is_none_or(|old| old["metadata"]["generation"] != object["metadata"]["generation"])
}

pub(crate) fn pod_name_warnings(object: &Value, old: Option<&Value>) -> impl Iterator<Item = String> {
    let warnings = old.is_none().then(|| name_warnings(object, "Pod names and hostnames"));
    warnings.into_iter().flatten()
}

pub(crate) fn name_warnings(object: &Value, used_in: &str) -> impl Iterator<Item = String> + use<> {
    let name = text(&object["metadata"]["name"]);
    let why = label_problems(name);
    let warnings = (!why.is_empty()).then(|| {
        format!(
            "metadata.name: this is used in {used_in}, which can result in surprising behavior; a DNS label is \
             recommended: [{}]",
            why.join(" ")
        )
    });
    warnings.into_iter()
}

/// Returns the table cells `Desired`, `Current` and `Ready` of a workload.
pub(crate) fn replica_cells(row: &TableRow<'_>) -> Vec<Value> {
    let status = row.status();
    vec![
        row.name(),
        json!(row.spec()["replicas"].as_i64().unwrap_or(1)),
        json!(number(&status["replicas"])),
        json!(number(&status["readyReplicas"])),
        row.age(),
    ]
}

pub(crate) fn container_cells(pod: &Value) -> [Value; 2] {
    let named = |name: &str| joined(list(&pod["containers"]).map(|container| text(&container[name])), "");
    [json!(named("name")), json!(named("image"))]
}

pub(crate) fn selector_cell(selector: &Value) -> Value {
    match selector_text(selector) {
        none if none.is_empty() => json!(NONE),
        selector => json!(selector),
    }
}

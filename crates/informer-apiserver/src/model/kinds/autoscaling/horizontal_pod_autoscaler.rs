//! HorizontalPodAutoscalers. They are stored as `autoscaling/v2`.

mod conversion;

use std::fmt::Display;

use serde_json::{Value, json};

use crate::model::cause::{Cause, Causes};
use crate::model::kinds::Traits;
use crate::model::kinds::descriptor::KindDescriptor;
use crate::model::quantity::read;
use crate::model::rules::checks::{
    Check, FieldView, at_least, format_value, is_missing, required, unsupported,
};
use crate::model::rules::defaults::Default::{self, Call, Fill, In};
use crate::model::rules::path::get;
use crate::model::rules::warnings::{list, text};
use crate::model::rules::{Rules, path_segment_problems};
use crate::model::table::TableRow;
use crate::model::table::text::{NONE, UNKNOWN, UNSET, number, or};

pub(crate) static DESCRIPTOR: KindDescriptor =
    KindDescriptor::new("autoscaling", "v2", "HorizontalPodAutoscaler", Traits::STATUS)
        .bookmark(BOOKMARK)
        .initial_status(r#"{"desiredReplicas":0,"currentMetrics":null}"#)
        .rules(Rules::new(DEFAULTS, &[Check::Call(validate)]))
        .conversion(conversion::to_v2)
        .cells(cells);

pub(crate) static DESCRIPTOR_V1: KindDescriptor =
    KindDescriptor::new("autoscaling", "v1", "HorizontalPodAutoscaler", Traits::STATUS)
        .bookmark(BOOKMARK_V1)
        .initial_status(r#"{"currentReplicas":0,"desiredReplicas":0}"#)
        .rules(Rules::new(&[Fill("spec.minReplicas", "1"), Call(percentage)], &[Check::Call(validate_v1)]))
        .stored_as("autoscaling", "v2")
        .conversion(conversion::to_v1)
        .after_normalization(conversion::round_trip_v1)
        .cells(cells_v1);

const BOOKMARK: &str = r#","spec":{"scaleTargetRef":{"kind":"","name":""},"maxReplicas":0},"status":{"desiredReplicas":0,"currentMetrics":null}"#;
const BOOKMARK_V1: &str = r#","spec":{"scaleTargetRef":{"kind":"","name":""},"maxReplicas":0},"status":{"currentReplicas":0,"desiredReplicas":0}"#;

/// Defaults the target CPU utilization. It is the only metric with a field in `autoscaling/v1`; other metrics
/// are in an annotation.
fn percentage(object: &mut Value) {
    let others = object["metadata"]["annotations"].get("autoscaling.alpha.kubernetes.io/metrics");
    if others.is_none() && object["spec"]["targetCPUUtilizationPercentage"].is_null() {
        object["spec"]["targetCPUUtilizationPercentage"] = 80.into();
    }
}

const DEFAULTS: &[Default] =
    &[Fill("spec.minReplicas", "1"), In("spec", &[Call(metrics)]), In("spec.behavior", &[Call(behavior)])];

fn metrics(spec: &mut Value) {
    if is_missing(get(spec, "metrics")) {
        spec["metrics"] = json!([{"type": "Resource", "resource": {
            "name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80},
        }}]);
    }
}

/// Sets the missing scaling rules to their defaults if `spec.behavior` is set.
fn behavior(behavior: &mut Value) {
    let up = json!({
        "stabilizationWindowSeconds": 0, "selectPolicy": "Max",
        "policies": [{"type": "Pods", "value": 4, "periodSeconds": 15},
            {"type": "Percent", "value": 100, "periodSeconds": 15}],
    });
    let down =
        json!({"selectPolicy": "Max", "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}]});
    for (name, rest) in [("scaleUp", up), ("scaleDown", down)] {
        for (member, value) in rest.as_object().into_iter().flatten() {
            if behavior[name].get(member).is_none_or(Value::is_null) {
                behavior[name][member] = value.clone();
            }
        }
    }
}

/// Validates an `autoscaling/v1` object after converting it to `autoscaling/v2`, as kube-apiserver does.
fn validate_v1(at: &FieldView<'_, '_>, causes: &mut Causes) {
    let mut object = at.value.clone();
    if let Value::Object(object) = &mut object {
        conversion::to_v2(object);
    }
    validate(&FieldView { value: &object, old: None, path: at.path }, causes);
}

fn validate(at: &FieldView<'_, '_>, causes: &mut Causes) {
    let spec = at.part("spec");
    let least = spec.number("minReplicas").unwrap_or(1);
    let most = spec.number("maxReplicas").unwrap_or_default();
    if least < 1 {
        causes.push(at_least(&spec.field_path("minReplicas"), least, 1));
    }
    if most < 1 {
        causes.push(required(&spec.field_path("maxReplicas"), "must be set and greater than 0"));
    }
    if most < least {
        let why = "must be greater than or equal to `minReplicas`";
        causes.push(Cause::invalid(&spec.field_path("maxReplicas"), &most.to_string(), why));
    }
    check_scale_target(&spec.part("scaleTargetRef"), causes);
    let metrics = spec.items("metrics");
    for (index, metric) in metrics.iter().enumerate() {
        let path = spec.field_path("metrics").index(index);
        check_metric(&FieldView { value: metric, old: None, path }, causes);
    }
    for direction in ["scaleUp", "scaleDown"] {
        let behavior = spec.part("behavior");
        let rules = behavior.part(direction);
        if rules.value.is_object() {
            check_scaling_rules(&rules, causes);
        }
    }
    let scales_to_zero = |metric: &Value| matches!(metric["type"].as_str(), Some("Object" | "External"));
    if least == 0 && !metrics.iter().any(scales_to_zero) {
        let why = "must specify at least one Object or External metric to support scaling to zero replicas";
        causes.push(Cause::forbidden("spec.metrics", why));
    }
}

fn check_scale_target(at: &FieldView<'_, '_>, causes: &mut Causes) {
    check_reference(at, causes);
    let api_version = at.text("apiVersion");
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    if group.is_empty() && at.text("kind") != "ReplicationController" {
        let why = "apiVersion must specify API group";
        causes.push(Cause::invalid(&at.field_path("apiVersion"), &format!("{api_version:?}"), why));
    }
}

/// Validates the kind and the name of a reference.
fn check_reference(at: &FieldView<'_, '_>, causes: &mut Causes) {
    for name in ["kind", "name"] {
        match at.text(name) {
            "" => causes.push(required(&at.field_path(name), "")),
            value => check_path_segment(&at.field_path(name), value, causes),
        }
    }
}

fn check_path_segment(field: &dyn Display, value: &str, causes: &mut Causes) {
    let invalid = |why: &&str| Cause::invalid(field, &format!("{value:?}"), why);
    causes.extend(path_segment_problems(value).iter().map(invalid));
}

/// The sources of a metric in the order in which kube-apiserver validates them: the field and the type.
const SOURCES: [(&str, &str); 5] = [
    ("object", "Object"),
    ("external", "External"),
    ("pods", "Pods"),
    ("resource", "Resource"),
    ("containerResource", "ContainerResource"),
];

fn check_metric(at: &FieldView<'_, '_>, causes: &mut Causes) {
    const TYPES: &[&str] = &["ContainerResource", "External", "Object", "Pods", "Resource"];
    let kind = at.text("type");
    if kind.is_empty() {
        causes.push(required(&at.field_path("type"), "must specify a metric source type"));
    }
    if !TYPES.contains(&kind) {
        causes.push(unsupported(&at.field_path("type"), kind, TYPES));
    }
    let present = SOURCES.iter().filter(|(field, _)| at.get(field).is_some_and(Value::is_object));
    if let Some((field, _)) = present.clone().next() {
        check_source(&at.part(field), field, causes);
    }
    let expected = SOURCES.iter().find(|(_, name)| *name == kind).map(|(field, _)| *field);
    match expected {
        None => causes.push(unsupported(&at.field_path("type"), kind, TYPES)),
        Some(field) if !present.clone().any(|(name, _)| *name == field) => {
            let why = "must populate information for the given metric source";
            causes.push(required(&at.field_path(field), why));
        }
        Some(_) => {}
    }
    if present.clone().count() != 1 {
        let others = present.filter(|(field, _)| Some(*field) != expected);
        let why = "must populate the given metric source only";
        causes.extend(others.map(|(field, _)| Cause::forbidden(&at.field_path(field), why)));
    }
}

fn check_source(at: &FieldView<'_, '_>, field: &str, causes: &mut Causes) {
    if field == "object" {
        check_reference(&at.part("describedObject"), causes);
    }
    if matches!(field, "object" | "external" | "pods") {
        let metric = at.part("metric");
        match metric.text("name") {
            "" => causes.push(required(&metric.field_path("name"), "must specify a metric name")),
            name => check_path_segment(&metric.field_path("name"), name, causes),
        }
    } else {
        if at.text("name").is_empty() {
            causes.push(required(&at.field_path("name"), "must specify a resource name"));
        }
        if field == "containerResource" && at.text("container").is_empty() {
            causes.push(required(&at.field_path("container"), "must specify a container"));
        }
    }
    let target = at.part("target");
    check_target(&target, causes);
    let average = target.field_path("averageValue");
    let (has_value, has_average) = (target.get("value").is_some(), target.get("averageValue").is_some());
    let has_percent = target.get("averageUtilization").is_some();
    match field {
        "object" | "external" if has_value && has_average => {
            let why = "may not set both a target value for metric and a per-pod target";
            causes.push(Cause::forbidden(&average, why));
        }
        "object" | "external" if !has_value && !has_average => {
            let why = "must set either a target value for metric or a per-pod target";
            causes.push(required(&average, why));
        }
        "pods" if !is_positive(&target, "averageValue") => {
            causes.push(required(&average, "must specify a positive target averageValue"));
        }
        "resource" | "containerResource" if !has_percent && !has_average => {
            let why = "must set either a target raw value or a target utilization";
            causes.push(required(&target.field_path("averageUtilization"), why));
        }
        "resource" | "containerResource" if has_percent && has_average => {
            let why = "may not set both a target raw value and a target utilization";
            causes.push(Cause::forbidden(&average, why));
        }
        _ => {}
    }
}

fn is_positive(at: &FieldView<'_, '_>, name: &str) -> bool {
    read(at.text(name)).is_some_and(|value| value > 0)
}

fn check_target(at: &FieldView<'_, '_>, causes: &mut Causes) {
    let (kind, field) = (at.text("type"), at.field_path("type"));
    if kind.is_empty() {
        causes.push(required(&field, "must specify a metric target type"));
    }
    if !["Utilization", "Value", "AverageValue"].contains(&kind) {
        let why = "must be either Utilization, Value, or AverageValue";
        causes.push(Cause::invalid(&field, &format!("{kind:?}"), why));
    }
    for name in ["value", "averageValue"] {
        if at.get(name).is_some() && !is_positive(at, name) {
            let shown = format_value(at.get(name));
            causes.push(Cause::invalid(&at.field_path(name), &shown, "must be positive"));
        }
    }
    if let Some(percent) = at.number("averageUtilization").filter(|percent| *percent < 1) {
        let field = at.field_path("averageUtilization");
        causes.push(Cause::invalid(&field, &percent.to_string(), "must be greater than 0"));
    }
}

/// The maximum of `stabilizationWindowSeconds`.
const MAX_WINDOW_SECONDS: i64 = 3600;
/// The maximum of `periodSeconds`.
const MAX_PERIOD_SECONDS: i64 = 1800;

fn check_scaling_rules(at: &FieldView<'_, '_>, causes: &mut Causes) {
    let window = "stabilizationWindowSeconds";
    if let Some(seconds) = at.number(window) {
        let why = match seconds {
            ..0 => Some("must be greater than or equal to zero".to_owned()),
            seconds if seconds > MAX_WINDOW_SECONDS => {
                Some(format!("must be less than or equal to {MAX_WINDOW_SECONDS}"))
            }
            _ => None,
        };
        let field = at.field_path(window);
        causes.extend(why.map(|why| Cause::invalid(&field, &seconds.to_string(), &why)));
    }
    if read(at.text("tolerance")).is_some_and(|tolerance| tolerance < 0) {
        let shown = format_value(at.get("tolerance"));
        let why = "must be greater than or equal to 0";
        causes.push(Cause::invalid(&at.field_path("tolerance"), &shown, why));
    }
    let policy = at.text("selectPolicy");
    if at.get("selectPolicy").is_some() && !["Disabled", "Max", "Min"].contains(&policy) {
        causes.push(unsupported(&at.field_path("selectPolicy"), policy, &["Disabled", "Max", "Min"]));
    }
    let policies = at.items("policies");
    if policies.is_empty() {
        causes.push(required(&at.field_path("policies"), "must specify at least one Policy"));
    }
    for (index, policy) in policies.iter().enumerate() {
        let path = at.field_path("policies").index(index);
        let policy = FieldView { value: policy, old: None, path };
        if !["Percent", "Pods"].contains(&policy.text("type")) {
            let field = policy.field_path("type");
            causes.push(unsupported(&field, policy.text("type"), &["Percent", "Pods"]));
        }
        for name in ["value", "periodSeconds"] {
            let number = policy.number(name).unwrap_or_default();
            let field = policy.field_path(name);
            if number <= 0 {
                causes.push(Cause::invalid(&field, &number.to_string(), "must be greater than zero"));
            } else if name == "periodSeconds" && number > MAX_PERIOD_SECONDS {
                let why = format!("must be less than or equal to {MAX_PERIOD_SECONDS}");
                causes.push(Cause::invalid(&field, &number.to_string(), &why));
            }
        }
    }
}

fn cells(row: &TableRow<'_>) -> Vec<Value> {
    autoscaler_cells(row, row.object)
}

/// Returns the table cells of an `autoscaling/v1` object, after converting it to `autoscaling/v2` as
/// kube-apiserver does.
fn cells_v1(row: &TableRow<'_>) -> Vec<Value> {
    let mut autoscaler = row.object.clone();
    if let Value::Object(object) = &mut autoscaler {
        conversion::to_v2(object);
    }
    autoscaler_cells(row, &autoscaler)
}

fn autoscaler_cells(row: &TableRow<'_>, autoscaler: &Value) -> Vec<Value> {
    let (spec, status) = (&autoscaler["spec"], &autoscaler["status"]);
    let target = &spec["scaleTargetRef"];
    vec![
        row.name(),
        json!(format!("{}/{}", text(&target["kind"]), text(&target["name"]))),
        json!(shown_metrics(&spec["metrics"], &status["currentMetrics"])),
        json!(spec["minReplicas"].as_i64().map_or(UNSET.to_owned(), |replicas| replicas.to_string())),
        json!(number(&spec["maxReplicas"])),
        json!(number(&status["currentReplicas"])),
        row.age(),
    ]
}

/// Maximum number of metrics that a table cell shows with their values. For further metrics the cell shows
/// only their number.
const MAX_SHOWN_METRICS: usize = 2;

/// Formats the metrics for a table cell, each with its current and its target value.
fn shown_metrics(metrics: &Value, current: &Value) -> String {
    let all: Vec<String> =
        list(metrics).enumerate().map(|(index, metric)| shown_metric(metric, &current[index])).collect();
    match all.len() {
        0 => NONE.to_owned(),
        count if count > MAX_SHOWN_METRICS => {
            let shown = all[..MAX_SHOWN_METRICS].join(", ");
            format!("{shown} + {} more...", count - MAX_SHOWN_METRICS)
        }
        _ => all.join(", "),
    }
}

fn shown_metric(metric: &Value, current: &Value) -> String {
    let member = match text(&metric["type"]) {
        "External" => "external",
        "Pods" => "pods",
        "Object" => "object",
        "Resource" => "resource",
        "ContainerResource" => "containerResource",
        _ => return "<unknown type>".to_owned(),
    };
    let (metric, current) = (&metric[member], &current[member]);
    let (target, now) = (&metric["target"], &current["current"]);
    // The current value in the cell is 0 if the status of the metric omits it, and `<unknown>` if the metric
    // has no status.
    let known = |name: &str| if current.is_object() { or(&now[name], "0") } else { UNKNOWN };
    let average = !target["averageValue"].is_null();
    match member {
        "external" | "object" if average => {
            format!("{}/{} (avg)", or(&now["averageValue"], UNKNOWN), text(&target["averageValue"]))
        }
        "external" | "object" => format!("{}/{}", known("value"), text(&target["value"])),
        "pods" => format!("{}/{}", known("averageValue"), text(&target["averageValue"])),
        _ => {
            let percent = |value: &Value| value.as_i64().map(|percent| format!("{percent}%"));
            let values = if average {
                format!("{}/{}", known("averageValue"), text(&target["averageValue"]))
            } else {
                format!(
                    "{}/{}",
                    percent(&now["averageUtilization"]).unwrap_or_else(|| UNKNOWN.to_owned()),
                    percent(&target["averageUtilization"]).unwrap_or_else(|| "<auto>".to_owned())
                )
            };
            format!("{}: {values}", text(&metric["name"]))
        }
    }
}

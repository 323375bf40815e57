//! HorizontalPodAutoscalers. They are stored as `autoscaling/v2`.

mod conversion;

use serde_json::{Value, json};

use crate::model::cause::Cause;
use crate::model::kinds::Traits;
use crate::model::kinds::descriptor::KindDescriptor;
use crate::model::rules::Rules;
use crate::model::rules::checks::{Check, FieldView, at_least, is_missing, required, unsupported};
use crate::model::rules::defaults::Default::{self, Call, Fill, In};
use crate::model::rules::path::get;
use crate::model::rules::warnings::{list, text};
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
fn validate_v1(at: &FieldView<'_>, causes: &mut Vec<Cause>) {
    let mut object = at.value.clone();
    if let Value::Object(object) = &mut object {
        conversion::to_v2(object);
    }
    validate(&FieldView { value: &object, old: None, path: at.path.clone() }, causes);
}

fn validate(at: &FieldView<'_>, causes: &mut Vec<Cause>) {
    const METRICS: &[&str] = &["ContainerResource", "External", "Object", "Pods", "Resource"];
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
    let target = spec.part("scaleTargetRef");
    for name in ["kind", "name"] {
        if target.text(name).is_empty() {
            causes.push(required(&target.field_path(name), ""));
        }
    }
    if target.text("apiVersion").is_empty() {
        let why = "apiVersion must specify API group";
        causes.push(Cause::invalid(&target.field_path("apiVersion"), "\"\"", why));
    }
    let metrics = spec.items("metrics");
    for (index, metric) in metrics.iter().enumerate() {
        let kind = metric["type"].as_str().unwrap_or_default();
        if !METRICS.contains(&kind) {
            let unsupported_type = unsupported(&format!("spec.metrics[{index}].type"), kind, METRICS);
            causes.extend([unsupported_type.clone(), unsupported_type]);
        }
        for (kind, member) in [("Resource", "resource"), ("ContainerResource", "containerResource")] {
            let target = &metric[member]["target"];
            let percent = target["averageUtilization"].as_i64().filter(|_| metric["type"] == kind);
            if let Some(percent) = percent.filter(|percent| *percent < 1) {
                let field = format!("spec.metrics[{index}].{member}.target.averageUtilization");
                causes.push(Cause::invalid(&field, &percent.to_string(), "must be greater than 0"));
            }
        }
    }
    let scales_to_zero = |metric: &Value| matches!(metric["type"].as_str(), Some("Object" | "External"));
    if least == 0 && !metrics.iter().any(scales_to_zero) {
        let why = "must specify at least one Object or External metric to support scaling to zero replicas";
        causes.push(Cause::forbidden("spec.metrics", why));
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

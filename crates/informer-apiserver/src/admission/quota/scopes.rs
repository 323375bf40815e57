//! Scopes of a ResourceQuota: select the objects that the quota counts.

use serde_json::Value;

use super::evaluator::Evaluator;
use crate::model::kinds::core::pod::qos;

const CLASS: &str = "PriorityClass";
const ATTRIBUTES_CLASS: &str = "VolumeAttributesClass";

pub(crate) fn all_match(quota: &Value, evaluator: &Evaluator, object: &Value) -> bool {
    let spec = &quota["spec"];
    let mut plain = entries(&spec["scopes"]);
    let mut selected = entries(&spec["scopeSelector"]["matchExpressions"]);
    plain.all(|scope| matches(evaluator, object, text(scope), ("Exists", &[])))
        && selected.all(|selector| {
            let values: Vec<&str> = entries(&selector["values"]).map(text).collect();
            matches(evaluator, object, text(&selector["scopeName"]), (text(&selector["operator"]), &values))
        })
}

fn matches(evaluator: &Evaluator, object: &Value, scope: &str, (operator, values): (&str, &[&str])) -> bool {
    match (evaluator, scope) {
        (Evaluator::Pods, "Terminating") => is_terminating(object),
        (Evaluator::Pods, "NotTerminating") => !is_terminating(object),
        (Evaluator::Pods, "BestEffort") => qos_class(object) == "BestEffort",
        (Evaluator::Pods, "NotBestEffort") => qos_class(object) != "BestEffort",
        (Evaluator::Pods, "CrossNamespacePodAffinity") => has_cross_namespace_affinity(object),
        (Evaluator::Pods, CLASS) => {
            let class = object["spec"]["priorityClassName"].as_str().filter(|class| !class.is_empty());
            is_selected(class.as_slice(), operator, values)
        }
        (Evaluator::Claims, ATTRIBUTES_CLASS) => is_selected(&attributes_classes(object), operator, values),
        // No other kind matches a scope, so a quota with scopes counts only pods and PVCs.
        _ => false,
    }
}

fn is_selected(names: &[&str], operator: &str, values: &[&str]) -> bool {
    let is_in = |name: &&str| values.contains(name);
    match operator {
        "Exists" => !names.is_empty(),
        "DoesNotExist" => names.is_empty(),
        "In" => names.iter().any(&is_in),
        "NotIn" => names.is_empty() || names.iter().any(|name| !is_in(name)),
        _ => false,
    }
}

pub(crate) fn is_terminating(pod: &Value) -> bool {
    pod["spec"]["activeDeadlineSeconds"].as_i64().is_some_and(|seconds| seconds >= 0)
}

fn qos_class(pod: &Value) -> &str {
    pod["status"]["qosClass"].as_str().filter(|class| !class.is_empty()).unwrap_or_else(|| qos(pod))
}

fn has_cross_namespace_affinity(pod: &Value) -> bool {
    let is_cross_namespace = |term: &Value| {
        term["namespaces"].as_array().is_some_and(|all| !all.is_empty())
            || term["namespaceSelector"].is_object()
    };
    ["podAffinity", "podAntiAffinity"].into_iter().any(|affinity| {
        let affinity = &pod["spec"]["affinity"][affinity];
        entries(&affinity["requiredDuringSchedulingIgnoredDuringExecution"]).any(is_cross_namespace)
            || entries(&affinity["preferredDuringSchedulingIgnoredDuringExecution"])
                .any(|weighted| is_cross_namespace(&weighted["podAffinityTerm"]))
    })
}

fn attributes_classes(claim: &Value) -> Vec<&str> {
    let status = &claim["status"];
    let named = [
        &claim["spec"]["volumeAttributesClassName"],
        &status["currentVolumeAttributesClassName"],
        &status["modifyVolumeStatus"]["targetVolumeAttributesClassName"],
    ];
    named.into_iter().map(text).filter(|name| !name.is_empty()).collect()
}

fn entries(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

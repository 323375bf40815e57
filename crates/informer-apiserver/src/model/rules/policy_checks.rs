//! Validation of RBAC kinds, PodDisruptionBudgets, HorizontalPodAutoscalers and PriorityClasses.

use serde_json::Value;

use super::checks::{
    Check, FieldView, NameFormat, at_least, check_selector, is_missing, required, unsupported,
};
use super::service_checks::check_immutable;
use super::workloads::int_or_percent;
use crate::model::error::Cause;

pub(super) const ROLE: &[Check] = &[Check::Call(|at, causes| rules(at, true, causes))];
pub(super) const CLUSTER_ROLE: &[Check] =
    &[Check::Call(|at, causes| rules(at, false, causes)), Check::Call(aggregation)];
pub(super) const ROLE_BINDING: &[Check] = &[Check::Call(|at, causes| binding(at, true, causes))];
pub(super) const CLUSTER_ROLE_BINDING: &[Check] = &[Check::Call(|at, causes| binding(at, false, causes))];
pub(super) const BINDING_CHANGES: &[Check] = &[Check::Call(binding_changes)];
pub(super) const PDB: &[Check] = &[Check::Call(pod_disruption_budget)];
pub(super) const AUTOSCALER: &[Check] = &[Check::Call(autoscaler)];
pub(super) const AUTOSCALER_V1: &[Check] = &[Check::Call(autoscaler_v1)];
pub(super) const PRIORITY: &[Check] = &[Check::Call(priority)];
pub(super) const PRIORITY_CHANGES: &[Check] = &[Check::Call(priority_changes)];

/// Validates the aggregation rule of a ClusterRole.
fn aggregation(at: &FieldView<'_>, causes: &mut Vec<Cause>) {
    if at.get("aggregationRule").is_none_or(Value::is_null) {
        return;
    }
    let selectors = at.items("aggregationRule.clusterRoleSelectors");
    let field = "aggregationRule.clusterRoleSelectors";
    if selectors.is_empty() {
        let why = "at least one clusterRoleSelector required if aggregationRule is non-nil";
        causes.push(required(field, why));
    }
    for (index, selector) in selectors.iter().enumerate() {
        let selector = FieldView { value: selector, old: None, path: format!("{field}[{index}]") };
        let before = causes.len();
        check_selector(&selector, causes);
        if causes.len() > before {
            causes.push(Cause::invalid(&selector.path, "null", "invalid label selector."));
        }
    }
}

fn rules(at: &FieldView<'_>, namespaced: bool, causes: &mut Vec<Cause>) {
    for (index, rule) in at.items("rules").iter().enumerate() {
        let rule = FieldView { value: rule, old: None, path: format!("rules[{index}]") };
        let missing = |name: &str| is_missing(rule.get(name));
        if missing("verbs") {
            causes.push(required(&rule.field_path("verbs"), "verbs must contain at least one value"));
        }
        if let Some(urls) = rule.get("nonResourceURLs").filter(|urls| !is_missing(Some(urls))) {
            let other = !missing("apiGroups") || !missing("resources") || !missing("resourceNames");
            let why = match (namespaced, other) {
                (true, _) => "namespaced rules cannot apply to non-resource URLs",
                (false, true) => "rules cannot apply to both regular resources and non-resource URLs",
                (false, false) => continue,
            };
            causes.push(Cause::invalid(&rule.field_path("nonResourceURLs"), &urls.to_string(), why));
            continue;
        }
        if missing("apiGroups") {
            causes.push(required(
                &rule.field_path("apiGroups"),
                "resource rules must supply at least one api group",
            ));
        }
        if missing("resources") {
            causes.push(required(
                &rule.field_path("resources"),
                "resource rules must supply at least one resource",
            ));
        }
    }
}

const GROUP: &str = "rbac.authorization.k8s.io";

fn binding(at: &FieldView<'_>, namespaced: bool, causes: &mut Vec<Cause>) {
    let role = at.part("roleRef");
    if role.text("apiGroup") != GROUP {
        causes.push(unsupported(&role.field_path("apiGroup"), role.text("apiGroup"), &[GROUP]));
    }
    let kinds: &[&str] = if namespaced { &["Role", "ClusterRole"] } else { &["ClusterRole"] };
    if !kinds.contains(&role.text("kind")) {
        causes.push(unsupported(&role.field_path("kind"), role.text("kind"), kinds));
    }
    if role.text("name").is_empty() {
        causes.push(required(&role.field_path("name"), ""));
    }
    for (index, subject) in at.items("subjects").iter().enumerate() {
        let subject = FieldView { value: subject, old: None, path: format!("subjects[{index}]") };
        let name = subject.text("name");
        if name.is_empty() {
            causes.push(required(&subject.field_path("name"), ""));
        }
        match subject.text("kind") {
            "ServiceAccount" => {
                if !name.is_empty() {
                    NameFormat::Subdomain.check(&subject.field_path("name"), name, causes);
                }
                if !namespaced && subject.text("namespace").is_empty() {
                    causes.push(required(&subject.field_path("namespace"), ""));
                }
            }
            "User" | "Group" => {}
            other => causes.push(unsupported(
                &subject.field_path("kind"),
                other,
                &["ServiceAccount", "User", "Group"],
            )),
        }
    }
}

fn binding_changes(at: &FieldView<'_>, causes: &mut Vec<Cause>) {
    let role = at.part("roleRef");
    if role.old.is_some_and(|old| old != role.value) {
        let (group, kind, name) = (role.text("apiGroup"), role.text("kind"), role.text("name"));
        let shown = format!("{{\"APIGroup\":{group:?},\"Kind\":{kind:?},\"Name\":{name:?}}}");
        causes.insert(0, Cause::invalid("roleRef", &shown, "cannot change roleRef"));
    }
}

fn pod_disruption_budget(at: &FieldView<'_>, causes: &mut Vec<Cause>) {
    let spec = at.part("spec");
    if let (Some(least), Some(most)) = (spec.get("minAvailable"), spec.get("maxUnavailable")) {
        let shown = format!(
            "{{\"MinAvailable\":{least},\"Selector\":null,\"MaxUnavailable\":{most},\"UnhealthyPodEvictionPolicy\":null}}"
        );
        causes.push(Cause::invalid("spec", &shown, "minAvailable and maxUnavailable cannot be both set"));
    }
    int_or_percent(&spec, "minAvailable", causes);
    int_or_percent(&spec, "maxUnavailable", causes);
    if spec.get("selector").is_some() {
        check_selector(&spec.part("selector"), causes);
    }
}

/// Validates an `autoscaling/v1` object after converting it to `autoscaling/v2`, as kube-apiserver does.
fn autoscaler_v1(at: &FieldView<'_>, causes: &mut Vec<Cause>) {
    let mut object = at.value.clone();
    if let Value::Object(object) = &mut object {
        crate::model::kinds::autoscaler_to_v2(object);
    }
    autoscaler(&FieldView { value: &object, old: None, path: at.path.clone() }, causes);
}

fn autoscaler(at: &FieldView<'_>, causes: &mut Vec<Cause>) {
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

/// The highest value of a PriorityClass that is not a system class.
const MAX_USER_PRIORITY: i64 = 1_000_000_000;

fn priority(at: &FieldView<'_>, causes: &mut Vec<Cause>) {
    let system = at.text("metadata.name").starts_with("system-");
    if !system && at.number("value").is_some_and(|value| value > MAX_USER_PRIORITY) {
        let why = format!("maximum allowed value of a user defined priority is {MAX_USER_PRIORITY}");
        causes.push(Cause::forbidden("value", &why));
    }
}

fn priority_changes(at: &FieldView<'_>, causes: &mut Vec<Cause>) {
    if at.old.is_some_and(|old| old["value"] != at.value["value"]) {
        causes.push(Cause::forbidden("value", "may not be changed in an update."));
    }
    check_immutable(at, "preemptionPolicy", causes);
}

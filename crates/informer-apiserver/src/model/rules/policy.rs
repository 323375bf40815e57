//! Defaults of RBAC kinds, HorizontalPodAutoscalers, PodDisruptionBudgets and PriorityClasses.

use serde_json::{Value, json};

use super::Rules;
use super::defaults::Default::{self, Call, Fill, In, When};
use super::path::get;
use super::policy_checks as checks;

const RBAC_GROUP: &str = "rbac.authorization.k8s.io";

pub(super) fn rules((group, kind): (&str, &str)) -> Option<Rules> {
    Some(match (group, kind) {
        (RBAC_GROUP, "Role") => Rules::new(&[], checks::ROLE),
        (RBAC_GROUP, "ClusterRole") => Rules::new(&[], checks::CLUSTER_ROLE),
        (RBAC_GROUP, "RoleBinding") => {
            Rules::new(BINDING, checks::ROLE_BINDING).changes(checks::BINDING_CHANGES)
        }
        (RBAC_GROUP, "ClusterRoleBinding") => {
            Rules::new(BINDING, checks::CLUSTER_ROLE_BINDING).changes(checks::BINDING_CHANGES)
        }
        ("policy", "PodDisruptionBudget") => Rules::new(&[], checks::PDB),
        ("autoscaling", "HorizontalPodAutoscaler") => Rules::new(AUTOSCALER, checks::AUTOSCALER),
        ("scheduling.k8s.io", "PriorityClass") => {
            let defaults = &[Fill("preemptionPolicy", "\"PreemptLowerPriority\"")];
            Rules::new(defaults, checks::PRIORITY).changes(checks::PRIORITY_CHANGES)
        }
        _ => return None,
    })
}

/// The rules of `autoscaling/v1` HorizontalPodAutoscalers.
pub(super) const AUTOSCALER_V1: Rules =
    Rules::new(&[Fill("spec.minReplicas", "1"), Call(percentage)], checks::AUTOSCALER_V1);

/// Defaults the target CPU utilization. `autoscaling/v1` has a field for this metric only; the others are in
/// an annotation.
fn percentage(object: &mut Value) {
    let others = object["metadata"]["annotations"].get("autoscaling.alpha.kubernetes.io/metrics");
    if others.is_none() && object["spec"]["targetCPUUtilizationPercentage"].is_null() {
        object["spec"]["targetCPUUtilizationPercentage"] = 80.into();
    }
}

const RBAC: &[Default] = &[Fill("apiGroup", "\"rbac.authorization.k8s.io\"")];
const BINDING: &[Default] =
    &[In("roleRef", RBAC), In("subjects[]", &[When("kind", "User", RBAC), When("kind", "Group", RBAC)])];

const AUTOSCALER: &[Default] =
    &[Fill("spec.minReplicas", "1"), In("spec", &[Call(metrics)]), In("spec.behavior", &[Call(behavior)])];

fn metrics(spec: &mut Value) {
    if super::checks::is_missing(get(spec, "metrics")) {
        spec["metrics"] = json!([{"type": "Resource", "resource": {
            "name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80},
        }}]);
    }
}

/// Fills in the missing scaling rules if `spec.behavior` is set.
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

//! Adds the labels in `matchLabelKeys` and `mismatchLabelKeys` of a new pod to its selectors.

use serde_json::{Value, json};

use crate::model::rules::path::{each_mut, get};

const SPREAD: &str = "spec.topologySpreadConstraints[]";
const AFFINITY_TERMS: [&str; 4] = [
    "spec.affinity.podAffinity.preferredDuringSchedulingIgnoredDuringExecution[].podAffinityTerm",
    "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[]",
    "spec.affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[].podAffinityTerm",
    "spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[]",
];

pub(super) fn apply(pod: &mut Value) {
    let Some(labels) = get(pod, "metadata.labels").cloned() else { return };
    for path in AFFINITY_TERMS {
        each_mut(pod, path, &mut |term| {
            add_requirements(term, "matchLabelKeys", "In", &labels);
            add_requirements(term, "mismatchLabelKeys", "NotIn", &labels);
        });
    }
    each_mut(pod, SPREAD, &mut |constraint| add_requirements(constraint, "matchLabelKeys", "In", &labels));
}

/// Adds a requirement for each label key in a list, if the pod has the label.
fn add_requirements(term: &mut Value, list: &str, operator: &str, labels: &Value) {
    let keys = term[list].as_array().into_iter().flatten().filter_map(Value::as_str);
    let requirement =
        |key: &str| Some(json!({"key": key, "operator": operator, "values": [labels.get(key)?]}));
    let added: Vec<Value> = keys.filter_map(requirement).collect();
    // A missing selector selects no pods, and kube-apiserver adds none.
    let Some(selector) = term.get_mut("labelSelector").and_then(Value::as_object_mut) else { return };
    if added.is_empty() {
        return;
    }
    let requirements = selector.entry("matchExpressions").or_insert_with(|| json!([]));
    if let Some(requirements) = requirements.as_array_mut() {
        // The selectors of a pod that was exported from a cluster already have the requirements.
        let missing: Vec<Value> = added.into_iter().filter(|added| !requirements.contains(added)).collect();
        requirements.extend(missing);
    }
}

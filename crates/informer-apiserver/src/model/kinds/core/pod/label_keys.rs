//! Adds the labels in `matchLabelKeys` and `mismatchLabelKeys` of a new pod to its selectors.

use std::collections::{HashMap, HashSet};

use serde_json::{Value, json};

use crate::model::labels::label_value_problems;
use crate::model::rules::path::{each_mut, get};
use crate::model::write_options::WriteMode;

const SPREAD: &str = "spec.topologySpreadConstraints[]";
const AFFINITY_TERMS: [&str; 4] = [
    "spec.affinity.podAffinity.preferredDuringSchedulingIgnoredDuringExecution[].podAffinityTerm",
    "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[]",
    "spec.affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[].podAffinityTerm",
    "spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[]",
];

pub(super) fn apply(pod: &mut Value, mode: WriteMode) {
    if get(pod, "spec.affinity").is_none() && get(pod, "spec.topologySpreadConstraints").is_none() {
        return;
    }
    let Some(labels) = get(pod, "metadata.labels").cloned() else { return };
    for path in AFFINITY_TERMS {
        each_mut(pod, path, &mut |term| {
            add_requirements(term, ("matchLabelKeys", "In"), &labels, mode);
            add_requirements(term, ("mismatchLabelKeys", "NotIn"), &labels, mode);
        });
    }
    each_mut(pod, SPREAD, &mut |constraint| {
        add_requirements(constraint, ("matchLabelKeys", "In"), &labels, mode);
    });
}

/// The maximum number of requirements that are added for a key. Validation rejects a key of `matchLabelKeys`
/// with two, so more of them would only use memory.
const MAX_REQUIREMENTS: usize = 2;

/// Adds a requirement for each label key in a list, if the pod has the label.
fn add_requirements(term: &mut Value, (list, operator): (&str, &str), labels: &Value, mode: WriteMode) {
    let Some(selector) = term.get("labelSelector").filter(|selector| selector.is_object()) else {
        // A missing selector selects no pods, and kube-apiserver adds none.
        return;
    };
    let selected = selected_keys(selector, operator, labels, mode);
    let mut counts: HashMap<&str, usize> = HashMap::new();
    let mut added = Vec::new();
    for key in term[list].as_array().into_iter().flatten().filter_map(Value::as_str) {
        let value = labels.get(key).and_then(Value::as_str);
        let Some(value) = value.filter(|_| !selected.contains(key)) else { continue };
        let count = counts.entry(key).or_default();
        *count += 1;
        // The labels of the pod are validated later. An invalid value can be long.
        if *count <= MAX_REQUIREMENTS && label_value_problems(value).is_empty() {
            added.push(json!({"key": key, "operator": operator, "values": [value]}));
        }
    }
    let Some(selector) = term["labelSelector"].as_object_mut().filter(|_| !added.is_empty()) else { return };
    let requirements = selector.entry("matchExpressions").or_insert_with(|| json!([]));
    if let Some(requirements) = requirements.as_array_mut() {
        requirements.extend(added);
    }
}

/// Returns the keys for which no requirement is added, because the selector has it. The selectors of a pod
/// that was exported from a cluster already have the requirements. A pod that the embedding program loads may
/// also select a key in another way.
fn selected_keys(selector: &Value, operator: &str, labels: &Value, mode: WriteMode) -> HashSet<String> {
    let requirements = selector["matchExpressions"].as_array().into_iter().flatten();
    let is_whole = mode == WriteMode::Whole;
    let is_equal = |requirement: &Value, key: &str| {
        let values = requirement["values"].as_array().map_or(&[][..], Vec::as_slice);
        requirement["operator"] == operator && values.len() == 1 && labels.get(key) == values.first()
    };
    let selected = requirements.filter_map(|requirement| {
        let key = requirement["key"].as_str()?;
        (is_whole || is_equal(requirement, key)).then(|| key.to_owned())
    });
    let matched = selector["matchLabels"].as_object().into_iter().flatten().filter(|_| is_whole);
    selected.chain(matched.map(|(key, _)| key.clone())).collect()
}

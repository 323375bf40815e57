//! LimitRange: defaults for the requests and limits of containers, and validation of containers, pods and
//! PVCs.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{ResourceList, resource_list};
use crate::model::kinds::core::pod::resources::{List, containers, total};
use crate::model::quantity::Amount;

/// Annotation of a pod that lists the defaults which a LimitRange has set.
const ANNOTATION: &str = "kubernetes.io/limit-ranger";
/// The largest value that is compared in thousandths, so that the multiplication cannot overflow. As in
/// kube-apiserver, larger values are compared as integers.
const MAX_THOUSANDTHS: i64 = i64::MAX / 1000;
const LISTS: [(&str, &str); 2] = [("containers", "container"), ("initContainers", "init container")];

/// Applies the default requests and limits of a LimitRange to the containers of a pod.
pub(crate) fn fill(range: &Value, pod: &mut Value) {
    let (mut requests, mut limits) = (ResourceList::new(), ResourceList::new());
    for item in items(range, "Container") {
        requests.extend(resource_list(&item["defaultRequest"]));
        limits.extend(resource_list(&item["default"]));
    }
    let mut applied = Vec::new();
    for (list, called) in LISTS {
        for container in pod["spec"].get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            let name = container["name"].as_str().unwrap_or_default().to_owned();
            for (which, defaults, what) in [("requests", &requests, "request"), ("limits", &limits, "limit")]
            {
                let filled = fill_list(container, which, defaults);
                if !filled.is_empty() {
                    applied.push(format!("{} {what} for {called} {name}", filled.join(", ")));
                }
            }
        }
    }
    if !applied.is_empty() {
        let annotations = &mut pod["metadata"]["annotations"];
        if !annotations.is_object() {
            *annotations = json!({});
        }
        annotations[ANNOTATION] = format!("LimitRanger plugin set: {}", applied.join("; ")).into();
    }
}

/// Sets the missing `requests` or `limits` of a container to the defaults, and returns the names of the set
/// resources.
fn fill_list(container: &mut Value, which: &str, defaults: &ResourceList) -> Vec<String> {
    let existing = container["resources"].get(which).filter(|existing| existing.is_object());
    let missing = |name: &&String| existing.is_none_or(|existing| existing.get(name.as_str()).is_none());
    let missing: Vec<String> = defaults.keys().filter(missing).cloned().collect();
    for name in &missing {
        container["resources"][which][name] = defaults[name].text().into();
    }
    missing
}

pub(crate) fn pod_problems(range: &Value, pod: &Value) -> Vec<String> {
    let mut problems = Vec::new();
    for item in range["spec"]["limits"].as_array().into_iter().flatten() {
        match item["type"].as_str() {
            Some("Container") => {
                for container in LISTS.iter().flat_map(|(list, _)| containers(pod, list)) {
                    let resources = Resources {
                        requests: List::Requests.of(container),
                        limits: List::Limits.of(container),
                    };
                    problems.extend(resources.problems(item, "Container"));
                }
            }
            Some("Pod") => {
                let resources = Resources {
                    requests: total(pod, List::Requests, is_pod_level_resource),
                    limits: total(pod, List::Limits, is_pod_level_resource),
                };
                problems.extend(resources.problems(item, "Pod"));
            }
            _ => {}
        }
    }
    problems
}

pub(crate) fn claim_problems(range: &Value, claim: &Value) -> Vec<String> {
    let kind = "PersistentVolumeClaim";
    let resources = Resources { requests: List::Requests.of(&claim["spec"]), limits: ResourceList::new() };
    let problems = items(range, kind).flat_map(|item| {
        let min = resource_list(&item["min"]);
        let max = resource_list(&item["max"]);
        let min = min.iter().filter_map(|(name, min)| resources.below_min(name, *min, kind));
        let max = max.iter().filter_map(|(name, max)| resources.request_above_max(name, *max, kind));
        min.chain(max).collect::<Vec<_>>()
    });
    problems.collect()
}

/// Joins the errors of a LimitRange into one message without duplicates.
pub(crate) fn join_errors(problems: &[String]) -> String {
    let mut seen = BTreeSet::new();
    let all: Vec<&str> =
        problems.iter().map(String::as_str).filter(|problem| seen.insert(*problem)).collect();
    match &all[..] {
        [one] => (*one).to_owned(),
        all => format!("[{}]", all.join(", ")),
    }
}

fn items<'a>(range: &'a Value, of: &'a str) -> impl Iterator<Item = &'a Value> {
    range["spec"]["limits"].as_array().into_iter().flatten().filter(move |item| item["type"] == of)
}

pub(crate) fn is_pod_level_resource(name: &str) -> bool {
    matches!(name, "cpu" | "memory")
}

struct Resources {
    requests: ResourceList,
    limits: ResourceList,
}

impl Resources {
    fn problems(&self, item: &Value, kind: &str) -> Vec<String> {
        let [min, max, ratio] =
            ["min", "max", "maxLimitRequestRatio"].map(|bound| resource_list(&item[bound]));
        let min = min.iter().filter_map(|(name, min)| self.below_min(name, *min, kind));
        let max = max.iter().filter_map(|(name, max)| self.above_max(name, *max, kind));
        let ratio = ratio.iter().filter_map(|(name, ratio)| self.ratio_above_max(name, *ratio, kind));
        min.chain(max).chain(ratio).collect()
    }

    fn below_min(&self, name: &str, min: Amount, kind: &str) -> Option<String> {
        let message = format!("minimum {name} usage per {kind} is {}", min.text());
        let (request, limit) = (self.requests.get(name), self.limits.get(name));
        let Some(given) = request else { return Some(format!("{message}.  No request is specified")) };
        let [requested, limited, min] = to_common_scale(request, limit, min);
        if requested < min {
            return Some(format!("{message}, but request is {}", given.text()));
        }
        let limit = limit.filter(|_| limited < min)?;
        Some(format!("{message}, but limit is {}", limit.text()))
    }

    fn above_max(&self, name: &str, max: Amount, kind: &str) -> Option<String> {
        let message = format!("maximum {name} usage per {kind} is {}", max.text());
        let (request, limit) = (self.requests.get(name), self.limits.get(name));
        let Some(given) = limit else { return Some(format!("{message}.  No limit is specified")) };
        let [requested, limited, max] = to_common_scale(request, limit, max);
        if limited > max {
            return Some(format!("{message}, but limit is {}", given.text()));
        }
        let request = request.filter(|_| requested > max)?;
        Some(format!("{message}, but request is {}", request.text()))
    }

    fn request_above_max(&self, name: &str, max: Amount, kind: &str) -> Option<String> {
        let message = format!("maximum {name} usage per {kind} is {}", max.text());
        let request = self.requests.get(name);
        let Some(given) = request else { return Some(format!("{message}.  No request is specified")) };
        let [requested, _, max] = to_common_scale(request, None, max);
        (requested > max).then(|| format!("{message}, but request is {}", given.text()))
    }

    fn ratio_above_max(&self, name: &str, max: Amount, kind: &str) -> Option<String> {
        let message = format!("{name} max limit to request ratio per {kind} is {}", max.text());
        let [requested, limited, _] = to_common_scale(self.requests.get(name), self.limits.get(name), max);
        for (amount, what) in [(requested, "request"), (limited, "limit")] {
            if amount == 0 {
                return Some(format!("{message}, but no {what} is specified or {what} is 0"));
            }
        }
        let ratio = as_float(limited) / as_float(requested);
        let exceeds = if max.whole() <= MAX_THOUSANDTHS {
            ratio * 1000.0 > as_float(max.thousandths())
        } else {
            ratio > as_float(max.whole())
        };
        exceeds.then(|| format!("{message}, but provided ratio is {ratio:.6}"))
    }
}

/// Converts the three quantities to thousandths, or to integers if one is too large for thousandths. A
/// missing request or limit is zero.
fn to_common_scale(request: Option<&Amount>, limit: Option<&Amount>, bound: Amount) -> [i64; 3] {
    let all = [request.copied().unwrap_or(Amount::ZERO), limit.copied().unwrap_or(Amount::ZERO), bound];
    let whole = all.map(Amount::whole);
    if whole.iter().all(|amount| *amount <= MAX_THOUSANDTHS) { all.map(Amount::thousandths) } else { whole }
}

#[expect(clippy::cast_precision_loss, reason = "kube-apiserver divides these numbers as floating point, too")]
fn as_float(number: i64) -> f64 {
    number as f64
}

//! LimitRange: defaults for the requests and limits of containers, and validation of containers, pods and
//! PVCs.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::pod::{List, containers, total};
use super::{Amounts, amounts};
use crate::model::quantity::Amount;

/// Annotation that lists the applied defaults.
const ANNOTATION: &str = "kubernetes.io/limit-ranger";
/// Larger values are compared as integers instead of thousandths, as in kube-apiserver.
const THOUSANDTHS_MAX: i64 = i64::MAX / 1000;
const LISTS: [(&str, &str); 2] = [("containers", "container"), ("initContainers", "init container")];

/// Applies the default requests and limits of a LimitRange to the containers of a pod.
pub(super) fn fill(range: &Value, pod: &mut Value) {
    let (mut requests, mut limits) = (Amounts::new(), Amounts::new());
    for item in items(range, "Container") {
        requests.extend(amounts(&item["defaultRequest"]));
        limits.extend(amounts(&item["default"]));
    }
    let mut told = Vec::new();
    for (list, called) in LISTS {
        for container in pod["spec"].get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            let name = container["name"].as_str().unwrap_or_default().to_owned();
            for (which, defaults, what) in [("requests", &requests, "request"), ("limits", &limits, "limit")]
            {
                let filled = fill_list(container, which, defaults);
                if !filled.is_empty() {
                    told.push(format!("{} {what} for {called} {name}", filled.join(", ")));
                }
            }
        }
    }
    if !told.is_empty() {
        let annotations = &mut pod["metadata"]["annotations"];
        if !annotations.is_object() {
            *annotations = json!({});
        }
        annotations[ANNOTATION] = format!("LimitRanger plugin set: {}", told.join("; ")).into();
    }
}

/// Applies missing defaults and returns the names of the resources that were set.
fn fill_list(container: &mut Value, which: &str, defaults: &Amounts) -> Vec<String> {
    let held = container["resources"].get(which).filter(|held| held.is_object());
    let missing = |name: &&String| held.is_none_or(|held| held.get(name.as_str()).is_none());
    let missing: Vec<String> = defaults.keys().filter(missing).cloned().collect();
    for name in &missing {
        container["resources"][which][name] = defaults[name].text().into();
    }
    missing
}

/// Validates a new pod against a LimitRange.
pub(super) fn pod_problems(range: &Value, pod: &Value) -> Vec<String> {
    let mut problems = Vec::new();
    for item in range["spec"]["limits"].as_array().into_iter().flatten() {
        match item["type"].as_str() {
            Some("Container") => {
                for container in LISTS.iter().flat_map(|(list, _)| containers(pod, list)) {
                    let asked =
                        Asked { requests: List::Requests.of(container), limits: List::Limits.of(container) };
                    problems.extend(asked.problems(item, "Container"));
                }
            }
            Some("Pod") => {
                let asked = Asked {
                    requests: total(pod, List::Requests, is_said_by_pods),
                    limits: total(pod, List::Limits, is_said_by_pods),
                };
                problems.extend(asked.problems(item, "Pod"));
            }
            _ => {}
        }
    }
    problems
}

/// Validates the requests of a PVC against a LimitRange.
pub(super) fn claim_problems(range: &Value, claim: &Value) -> Vec<String> {
    let kind = "PersistentVolumeClaim";
    let asked = Asked { requests: List::Requests.of(&claim["spec"]), limits: Amounts::new() };
    let problems = items(range, kind).flat_map(|item| {
        let least = amounts(&item["min"]);
        let most = amounts(&item["max"]);
        let least = least.iter().filter_map(|(name, least)| asked.too_little(name, *least, kind));
        let most = most.iter().filter_map(|(name, most)| asked.too_much_requested(name, *most, kind));
        least.chain(most).collect::<Vec<_>>()
    });
    problems.collect()
}

/// Joins the errors into one message without duplicates.
pub(super) fn told(problems: &[String]) -> String {
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

fn is_said_by_pods(name: &str) -> bool {
    matches!(name, "cpu" | "memory")
}

struct Asked {
    requests: Amounts,
    limits: Amounts,
}

impl Asked {
    fn problems(&self, item: &Value, kind: &str) -> Vec<String> {
        let [least, most, ratio] = ["min", "max", "maxLimitRequestRatio"].map(|bound| amounts(&item[bound]));
        let least = least.iter().filter_map(|(name, least)| self.too_little(name, *least, kind));
        let most = most.iter().filter_map(|(name, most)| self.too_much(name, *most, kind));
        let ratio = ratio.iter().filter_map(|(name, ratio)| self.too_far_apart(name, *ratio, kind));
        least.chain(most).chain(ratio).collect()
    }

    fn too_little(&self, name: &str, least: Amount, kind: &str) -> Option<String> {
        let said = format!("minimum {name} usage per {kind} is {}", least.text());
        let (request, limit) = (self.requests.get(name), self.limits.get(name));
        let Some(asked) = request else { return Some(format!("{said}.  No request is specified")) };
        let [requested, limited, least] = in_common(request, limit, least);
        if requested < least {
            return Some(format!("{said}, but request is {}", asked.text()));
        }
        let limit = limit.filter(|_| limited < least)?;
        Some(format!("{said}, but limit is {}", limit.text()))
    }

    fn too_much(&self, name: &str, most: Amount, kind: &str) -> Option<String> {
        let said = format!("maximum {name} usage per {kind} is {}", most.text());
        let (request, limit) = (self.requests.get(name), self.limits.get(name));
        let Some(given) = limit else { return Some(format!("{said}.  No limit is specified")) };
        let [requested, limited, most] = in_common(request, limit, most);
        if limited > most {
            return Some(format!("{said}, but limit is {}", given.text()));
        }
        let request = request.filter(|_| requested > most)?;
        Some(format!("{said}, but request is {}", request.text()))
    }

    fn too_much_requested(&self, name: &str, most: Amount, kind: &str) -> Option<String> {
        let said = format!("maximum {name} usage per {kind} is {}", most.text());
        let request = self.requests.get(name);
        let Some(asked) = request else { return Some(format!("{said}.  No request is specified")) };
        let [requested, _, most] = in_common(request, None, most);
        (requested > most).then(|| format!("{said}, but request is {}", asked.text()))
    }

    fn too_far_apart(&self, name: &str, most: Amount, kind: &str) -> Option<String> {
        let said = format!("{name} max limit to request ratio per {kind} is {}", most.text());
        let [requested, limited, _] = in_common(self.requests.get(name), self.limits.get(name), most);
        for (amount, what) in [(requested, "request"), (limited, "limit")] {
            if amount == 0 {
                return Some(format!("{said}, but no {what} is specified or {what} is 0"));
            }
        }
        let ratio = as_float(limited) / as_float(requested);
        let too_far = match most.whole() <= THOUSANDTHS_MAX {
            true => ratio * 1000.0 > as_float(most.thousandths()),
            false => ratio > as_float(most.whole()),
        };
        too_far.then(|| format!("{said}, but provided ratio is {ratio:.6}"))
    }
}

/// Converts the quantities to thousandths, or to integers if one is too large for that. A missing quantity is
/// zero.
fn in_common(request: Option<&Amount>, limit: Option<&Amount>, bound: Amount) -> [i64; 3] {
    let all = [request.copied().unwrap_or(Amount::ZERO), limit.copied().unwrap_or(Amount::ZERO), bound];
    let whole = all.map(Amount::whole);
    match whole.iter().all(|amount| *amount <= THOUSANDTHS_MAX) {
        true => all.map(Amount::thousandths),
        false => whole,
    }
}

#[expect(clippy::cast_precision_loss, reason = "upstream divides these numbers as floating point, too")]
fn as_float(number: i64) -> f64 {
    number as f64
}

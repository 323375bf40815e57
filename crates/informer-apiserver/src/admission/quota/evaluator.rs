//! Quota evaluators: compute the resources that an object consumes.

use serde_json::Value;

use super::pod::{List, add, containers, total_with_overhead};
use super::{Amounts, amounts};
use crate::model::kinds::Kind;
use crate::model::quantity::Amount;

/// Resources with a quota name without the prefix `count/`.
const OLD_NAMES: [&str; 4] = ["configmaps", "resourcequotas", "replicationcontrollers", "secrets"];
const POD: [&str; 11] = [
    "count/pods",
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "pods",
];
/// Names of resources that each container must specify if a quota limits them.
const MUST_BE_SAID: [&str; 6] =
    ["cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"];
const SERVICE: [&str; 4] = ["count/services", "services", "services.nodeports", "services.loadbalancers"];
const CLAIM: [&str; 3] = ["count/persistentvolumeclaims", "persistentvolumeclaims", "requests.storage"];
const OF_CLASS: &str = ".storageclass.storage.k8s.io/";
/// The deprecated storage class annotation.
const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";
const HUGE_PAGES: &str = "hugepages-";
const DEVICE_CLASS: &str = "deviceclass.resource.kubernetes.io/";

/// The quota evaluator of a kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Measure {
    Pods,
    Services,
    Claims,
    /// Counts objects under these names.
    Objects(Vec<String>),
}

impl Measure {
    /// Returns the evaluator of a kind; `None` for events, which are not counted.
    pub(crate) fn of(kind: &Kind) -> Option<Self> {
        let (group, resource) = (kind.gvr.group.as_str(), kind.gvr.resource.as_str());
        Some(match (group, resource) {
            ("" | "events.k8s.io", "events") => return None,
            ("", "pods") => Self::Pods,
            ("", "services") => Self::Services,
            ("", "persistentvolumeclaims") => Self::Claims,
            ("", resource) => {
                let old = OLD_NAMES.contains(&resource).then(|| resource.to_owned());
                Self::Objects([format!("count/{resource}")].into_iter().chain(old).collect())
            }
            (group, resource) => Self::Objects(vec![format!("count/{resource}.{group}")]),
        })
    }

    /// Returns true if the evaluator handles a quota resource.
    pub(crate) fn counts(&self, name: &str) -> bool {
        match self {
            Self::Pods => POD.contains(&name) || is_more_of_pods(name),
            Self::Services => SERVICE.contains(&name),
            Self::Claims => CLAIM.contains(&name) || is_of_class(name),
            Self::Objects(names) => names.iter().any(|known| known == name),
        }
    }

    /// Returns an error message if a container does not specify a resource that a quota limits.
    pub(crate) fn unsaid(&self, required: &[&str], object: &Value) -> Option<String> {
        let says = |list: List| list.of(&object["spec"]).keys().any(|name| is_said_by_pods(name));
        if *self != Self::Pods || says(List::Requests) || says(List::Limits) {
            return None;
        }
        let all = ["containers", "initContainers"].into_iter().flat_map(|list| containers(object, list));
        let said: Vec<(&str, Amounts)> = all
            .map(|container| {
                let said = computed(&List::Requests.of(container), &List::Limits.of(container));
                (container["name"].as_str().unwrap_or_default(), said)
            })
            .collect();
        let missing = required.iter().filter(|name| MUST_BE_SAID.contains(name)).filter_map(|name| {
            let mut silent: Vec<&str> =
                said.iter().filter(|(_, said)| !said.contains_key(*name)).map(|(name, _)| *name).collect();
            silent.sort_unstable();
            silent.dedup();
            (!silent.is_empty()).then(|| format!("{name} for: {}", silent.join(",")))
        });
        let missing: Vec<String> = missing.collect();
        (!missing.is_empty()).then(|| format!("must specify {}", missing.join("; ")))
    }

    /// Computes the usage of an object.
    pub(crate) fn usage(&self, object: &Value) -> Amounts {
        match self {
            Self::Pods => pod(object),
            Self::Services => service(object),
            Self::Claims => claim(object),
            Self::Objects(names) => names.iter().map(|name| (name.clone(), Amount::count(1))).collect(),
        }
    }
}

fn one(name: &str) -> (String, Amount) {
    (name.to_owned(), Amount::count(1))
}

fn pod(pod: &Value) -> Amounts {
    let mut usage = Amounts::from([one("count/pods")]);
    if !is_over(pod) {
        let [requests, limits] =
            [List::Requests, List::Limits].map(|list| total_with_overhead(pod, list, is_said_by_pods));
        add(&mut usage, &computed(&requests, &limits));
        usage.extend([one("pods")]);
    }
    usage
}

/// Returns true for a terminated pod, which needs no compute resources.
///
/// kube-apiserver also excludes pods whose deletion is overdue. Here they count until they are removed,
/// because the usage of an object
/// must only change when the object is written.
fn is_over(pod: &Value) -> bool {
    matches!(pod["status"]["phase"].as_str(), Some("Failed" | "Succeeded"))
}

/// Returns requests and limits under their quota names.
fn computed(requests: &Amounts, limits: &Amounts) -> Amounts {
    let mut named = Amounts::new();
    for (name, request) in requests {
        match name.as_str() {
            "cpu" | "memory" | "ephemeral-storage" => {
                named.extend([(name.clone(), *request), (format!("requests.{name}"), *request)]);
            }
            name if name.starts_with(HUGE_PAGES) => {
                named.extend([(name.to_owned(), *request), (format!("requests.{name}"), *request)]);
            }
            name if is_extended(name) || name.starts_with(DEVICE_CLASS) => {
                named.insert(format!("requests.{name}"), *request);
            }
            _ => {}
        }
    }
    for (name, limit) in limits {
        if matches!(name.as_str(), "cpu" | "memory" | "ephemeral-storage") {
            named.insert(format!("limits.{name}"), *limit);
        }
    }
    named
}

fn service(service: &Value) -> Amounts {
    let spec = &service["spec"];
    let ports = || spec["ports"].as_array().into_iter().flatten();
    let of_nodes = match spec["type"].as_str() {
        Some("LoadBalancer") if spec["allocateLoadBalancerNodePorts"] == false => {
            ports().filter(|port| port["nodePort"].as_i64().is_some_and(|number| number != 0)).count()
        }
        Some("NodePort" | "LoadBalancer") => ports().count(),
        _ => 0,
    };
    let balanced = usize::from(spec["type"] == "LoadBalancer");
    Amounts::from([
        one("count/services"),
        one("services"),
        ("services.nodeports".to_owned(), Amount::count(of_nodes)),
        ("services.loadbalancers".to_owned(), Amount::count(balanced)),
    ])
}

fn claim(claim: &Value) -> Amounts {
    let mut usage = Amounts::from([one("count/persistentvolumeclaims"), one("persistentvolumeclaims")]);
    let class = claim["metadata"]["annotations"][CLASS_ANNOTATION].as_str();
    let class =
        class.or_else(|| claim["spec"]["storageClassName"].as_str()).filter(|class| !class.is_empty());
    let requested = amounts(&claim["spec"]["resources"]["requests"]).remove("storage");
    let allocated = amounts(&claim["status"]["allocatedResources"]).remove("storage");
    // During a volume expansion the larger of both counts.
    let storage =
        requested.map(|requested| allocated.map_or(requested, |more| more.max(requested)).rounded());
    usage.extend(storage.map(|storage| ("requests.storage".to_owned(), storage)));
    if let Some(class) = class {
        usage.extend([one(&format!("{class}{OF_CLASS}persistentvolumeclaims"))]);
        usage.extend(storage.map(|storage| (format!("{class}{OF_CLASS}requests.storage"), storage)));
    }
    usage
}

fn is_of_class(name: &str) -> bool {
    name.split_once(OF_CLASS)
        .is_some_and(|(_, rest)| matches!(rest, "persistentvolumeclaims" | "requests.storage"))
}

/// Returns true if pod-level resources may specify the resource.
fn is_said_by_pods(name: &str) -> bool {
    matches!(name, "cpu" | "memory") || name.starts_with(HUGE_PAGES)
}

/// Returns true for huge pages, device classes and extended resources.
fn is_more_of_pods(name: &str) -> bool {
    let Some(asked) = name.strip_prefix("requests.") else { return name.starts_with(HUGE_PAGES) };
    asked.starts_with(HUGE_PAGES) || asked.starts_with(DEVICE_CLASS) || !is_native(name)
}

fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

fn is_extended(name: &str) -> bool {
    !is_native(name) && !name.starts_with("requests.")
}

//! Quota evaluators: compute the usage of an object, as resources that a ResourceQuota can limit.

use serde_json::Value;

use super::{ResourceList, resource_list};
use crate::model::kinds::KindDefinition;
use crate::model::kinds::core::pod::resources::{List, add, containers, total_with_overhead};
use crate::model::quantity::Amount;

/// Resources that a quota can limit by their plain name, in addition to `count/RESOURCE`.
const SHORT_NAMES: [&str; 4] = ["configmaps", "resourcequotas", "replicationcontrollers", "secrets"];
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
/// Resources that each container of a pod must specify if a ResourceQuota limits them.
const REQUIRED_IF_LIMITED: [&str; 6] =
    ["cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"];
const SERVICE: [&str; 4] = ["count/services", "services", "services.nodeports", "services.loadbalancers"];
const PVC: [&str; 3] = ["count/persistentvolumeclaims", "persistentvolumeclaims", "requests.storage"];
const CLASS_SUFFIX: &str = ".storageclass.storage.k8s.io/";
const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";
const HUGE_PAGES: &str = "hugepages-";
const DEVICE_CLASS: &str = "deviceclass.resource.kubernetes.io/";

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Evaluator {
    Pods,
    Services,
    Claims,
    Objects(Vec<String>),
}

impl Evaluator {
    /// Returns the quota evaluator of a kind, or `None` for events, which quotas do not count.
    pub(crate) fn of(kind: &KindDefinition) -> Option<Self> {
        let (group, resource) = (kind.gvr.group.as_str(), kind.gvr.resource.as_str());
        Some(match (group, resource) {
            ("" | "events.k8s.io", "events") => return None,
            ("", "pods") => Self::Pods,
            ("", "services") => Self::Services,
            ("", "persistentvolumeclaims") => Self::Claims,
            ("", resource) => {
                let old = SHORT_NAMES.contains(&resource).then(|| resource.to_owned());
                Self::Objects([format!("count/{resource}")].into_iter().chain(old).collect())
            }
            (group, resource) => Self::Objects(vec![format!("count/{resource}.{group}")]),
        })
    }

    /// Returns true if objects of this evaluator's kind can consume the quota resource `name`.
    pub(crate) fn counts(&self, name: &str) -> bool {
        match self {
            Self::Pods => POD.contains(&name) || is_other_pod_resource(name),
            Self::Services => SERVICE.contains(&name),
            Self::Claims => PVC.contains(&name) || is_of_class(name),
            Self::Objects(names) => names.iter().any(|known| known == name),
        }
    }

    pub(crate) fn missing_resources(&self, required: &[&str], object: &Value) -> Option<String> {
        let specifies = |list: List| list.of(&object["spec"]).keys().any(|name| is_pod_level_resource(name));
        if *self != Self::Pods || specifies(List::Requests) || specifies(List::Limits) {
            return None;
        }
        let all = ["containers", "initContainers"].into_iter().flat_map(|list| containers(object, list));
        let specified: Vec<(&str, ResourceList)> = all
            .map(|container| {
                let specified = quota_names(&List::Requests.of(container), &List::Limits.of(container));
                (container["name"].as_str().unwrap_or_default(), specified)
            })
            .collect();
        let missing = required.iter().filter(|name| REQUIRED_IF_LIMITED.contains(name)).filter_map(|name| {
            let mut missing_in: Vec<&str> = specified
                .iter()
                .filter(|(_, specified)| !specified.contains_key(*name))
                .map(|(name, _)| *name)
                .collect();
            missing_in.sort_unstable();
            missing_in.dedup();
            (!missing_in.is_empty()).then(|| format!("{name} for: {}", missing_in.join(",")))
        });
        let missing: Vec<String> = missing.collect();
        (!missing.is_empty()).then(|| format!("must specify {}", missing.join("; ")))
    }

    pub(crate) fn usage(&self, object: &Value) -> ResourceList {
        match self {
            Self::Pods => pod(object),
            Self::Services => service(object),
            Self::Claims => pvc(object),
            Self::Objects(names) => names.iter().map(|name| (name.clone(), Amount::count(1))).collect(),
        }
    }
}

fn count_one(name: &str) -> (String, Amount) {
    (name.to_owned(), Amount::count(1))
}

fn pod(pod: &Value) -> ResourceList {
    let mut usage = ResourceList::from([count_one("count/pods")]);
    if !is_terminated(pod) {
        let [requests, limits] =
            [List::Requests, List::Limits].map(|list| total_with_overhead(pod, list, is_pod_level_resource));
        add(&mut usage, &quota_names(&requests, &limits));
        usage.extend([count_one("pods")]);
    }
    usage
}

/// Returns true for a terminated pod, which consumes no compute quota.
///
/// kube-apiserver also excludes pods that exist for too long after their deletion. Here such a pod counts
/// until it is removed, because the usage of an object must only change when the object is written.
fn is_terminated(pod: &Value) -> bool {
    matches!(pod["status"]["phase"].as_str(), Some("Failed" | "Succeeded"))
}

/// Converts the requests and limits of a pod to the names in a ResourceQuota, for example `requests.cpu`.
fn quota_names(requests: &ResourceList, limits: &ResourceList) -> ResourceList {
    let mut named = ResourceList::new();
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

fn service(service: &Value) -> ResourceList {
    let spec = &service["spec"];
    let ports = || spec["ports"].as_array().into_iter().flatten();
    let node_ports = match spec["type"].as_str() {
        Some("LoadBalancer") if spec["allocateLoadBalancerNodePorts"] == false => {
            ports().filter(|port| port["nodePort"].as_i64().is_some_and(|number| number != 0)).count()
        }
        Some("NodePort" | "LoadBalancer") => ports().count(),
        _ => 0,
    };
    let load_balancers = usize::from(spec["type"] == "LoadBalancer");
    ResourceList::from([
        count_one("count/services"),
        count_one("services"),
        ("services.nodeports".to_owned(), Amount::count(node_ports)),
        ("services.loadbalancers".to_owned(), Amount::count(load_balancers)),
    ])
}

fn pvc(pvc: &Value) -> ResourceList {
    let mut usage =
        ResourceList::from([count_one("count/persistentvolumeclaims"), count_one("persistentvolumeclaims")]);
    let class = pvc["metadata"]["annotations"][CLASS_ANNOTATION].as_str();
    let class = class.or_else(|| pvc["spec"]["storageClassName"].as_str()).filter(|class| !class.is_empty());
    let requested = resource_list(&pvc["spec"]["resources"]["requests"]).remove("storage");
    let allocated = resource_list(&pvc["status"]["allocatedResources"]).remove("storage");
    // While a volume is expanded, the larger of requested and allocated storage counts.
    let storage =
        requested.map(|requested| allocated.map_or(requested, |more| more.max(requested)).rounded());
    usage.extend(storage.map(|storage| ("requests.storage".to_owned(), storage)));
    if let Some(class) = class {
        usage.extend([count_one(&format!("{class}{CLASS_SUFFIX}persistentvolumeclaims"))]);
        usage.extend(storage.map(|storage| (format!("{class}{CLASS_SUFFIX}requests.storage"), storage)));
    }
    usage
}

fn is_of_class(name: &str) -> bool {
    name.split_once(CLASS_SUFFIX)
        .is_some_and(|(_, rest)| matches!(rest, "persistentvolumeclaims" | "requests.storage"))
}

fn is_pod_level_resource(name: &str) -> bool {
    matches!(name, "cpu" | "memory") || name.starts_with(HUGE_PAGES)
}

/// Returns true if a ResourceQuota can limit this resource of pods: huge pages, device classes or extended
/// resources.
fn is_other_pod_resource(name: &str) -> bool {
    let Some(requested) = name.strip_prefix("requests.") else { return name.starts_with(HUGE_PAGES) };
    requested.starts_with(HUGE_PAGES) || requested.starts_with(DEVICE_CLASS) || !is_native(name)
}

fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

fn is_extended(name: &str) -> bool {
    !is_native(name) && !name.starts_with("requests.")
}

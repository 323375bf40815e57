//! Aggregates the requests and limits of a pod: its containers, its init containers and its pod-level
//! resources.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::model::quantity::Amount;

/// Quantities by the names of their resources.
pub(crate) type ResourceList = BTreeMap<String, Amount>;

/// Parses a resource list such as `requests` or `limits`. Entries with an invalid quantity are left out.
pub(crate) fn resource_list(list: &Value) -> ResourceList {
    let read = |(name, amount): (&String, &Value)| Some((name.clone(), quantity(amount)?));
    list.as_object().into_iter().flatten().filter_map(read).collect()
}

/// Parses a quantity of a resource list.
pub(crate) fn quantity(amount: &Value) -> Option<Amount> {
    match amount {
        Value::String(text) => Amount::read(text),
        // Defaults run before numbers are encoded as strings.
        Value::Number(number) => Amount::read(&number.to_string()),
        _ => None,
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum List {
    Requests,
    Limits,
}

impl List {
    pub(crate) fn of(self, holder: &Value) -> ResourceList {
        resource_list(&holder["resources"][self.name()])
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Requests => "requests",
            Self::Limits => "limits",
        }
    }
}

pub(crate) fn containers<'a>(pod: &'a Value, list: &str) -> impl Iterator<Item = &'a Value> {
    pod["spec"][list].as_array().into_iter().flatten()
}

/// Returns the aggregate resources of the containers of a pod spec. Init containers that are not sidecars run
/// one after another, alongside the sidecars that were started before.
pub(crate) fn aggregate_container_resources(spec: &Value, list: List) -> ResourceList {
    let of = |name: &str| spec[name].as_array().into_iter().flatten();
    let mut all = ResourceList::new();
    of("containers").for_each(|container| add(&mut all, &list.of(container)));
    let (mut sidecars, mut peak) = (ResourceList::new(), ResourceList::new());
    for container in of("initContainers") {
        let requested = list.of(container);
        // A sidecar (an init container with `restartPolicy: Always`) keeps running alongside all later
        // containers, so its resources are added to the sum.
        let is_sidecar = container["restartPolicy"] == "Always";
        if is_sidecar {
            add(&mut all, &requested);
        }
        // The peak already includes the sidecars, so only the resources of this container can raise it.
        for (name, amount) in requested {
            // A sum has the format of its first quantity.
            let running = match sidecars.get(&name) {
                Some(others) if is_sidecar => others.plus(amount),
                Some(others) => amount.plus(*others),
                None => amount,
            };
            raise(&mut peak, &name, running);
            if is_sidecar {
                sidecars.insert(name, running);
            }
        }
    }
    peak.iter().for_each(|(name, amount)| raise(&mut all, name, *amount));
    all
}

/// Returns the total resources of a pod. For the resource names that `is_pod_level` accepts, `spec.resources`
/// replace the sum of the containers.
pub(crate) fn total(pod: &Value, list: List, is_pod_level: fn(&str) -> bool) -> ResourceList {
    let mut all = aggregate_container_resources(&pod["spec"], list);
    let pod_level = list.of(&pod["spec"]).into_iter().filter(|(name, _)| is_pod_level(name));
    all.extend(pod_level);
    all
}

/// Returns the total resources of a pod, including `spec.overhead`. Overhead is added to `limits` only for
/// resources that have a limit.
pub(crate) fn total_with_overhead(pod: &Value, list: List, is_pod_level: fn(&str) -> bool) -> ResourceList {
    let mut all = total(pod, list, is_pod_level);
    let mut overhead = resource_list(&pod["spec"]["overhead"]);
    if list == List::Limits {
        overhead.retain(|name, _| all.contains_key(name));
    }
    add(&mut all, &overhead);
    all
}

pub(crate) fn add(all: &mut ResourceList, more: &ResourceList) {
    for (name, amount) in more {
        let held = all.entry(name.clone()).or_insert(Amount::ZERO);
        *held = held.plus(*amount);
    }
}

/// Raises a quantity of a list to a minimum. An equal quantity keeps its format.
fn raise(all: &mut ResourceList, name: &str, least: Amount) {
    match all.get_mut(name) {
        Some(held) if *held >= least => {}
        Some(held) => *held = least,
        None => drop(all.insert(name.to_owned(), least)),
    }
}

//! Sums up the resources of a pod: its containers, its init containers and its pod-level resources.

use serde_json::Value;

use super::{ResourceList, resource_list};
use crate::model::quantity::Amount;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum List {
    Requests,
    Limits,
}

impl List {
    pub(crate) fn of(self, holder: &Value) -> ResourceList {
        resource_list(&holder["resources"][self.name()])
    }

    fn name(self) -> &'static str {
        match self {
            Self::Requests => "requests",
            Self::Limits => "limits",
        }
    }
}

pub(crate) fn containers<'a>(pod: &'a Value, list: &str) -> impl Iterator<Item = &'a Value> {
    pod["spec"][list].as_array().into_iter().flatten()
}

/// Returns the total resources of a pod. For resources that `itself` accepts, the pod-level `resources`
/// replace the sum of the containers.
pub(crate) fn total(pod: &Value, list: List, itself: fn(&str) -> bool) -> ResourceList {
    let mut all = ResourceList::new();
    containers(pod, "containers").for_each(|container| add(&mut all, &list.of(container)));
    let (mut sidecars, mut peak) = (ResourceList::new(), ResourceList::new());
    for container in containers(pod, "initContainers") {
        let requested = list.of(container);
        if container["restartPolicy"] == "Always" {
            // A sidecar (an init container with `restartPolicy: Always`) keeps running alongside all later
            // containers, so its resources are added to the sum.
            add(&mut all, &requested);
            add(&mut sidecars, &requested);
            raise(&mut peak, &sidecars);
        } else {
            let mut phase = requested;
            add(&mut phase, &sidecars);
            raise(&mut peak, &phase);
        }
    }
    raise(&mut all, &peak);
    let pod_level = list.of(&pod["spec"]).into_iter().filter(|(name, _)| itself(name));
    all.extend(pod_level);
    all
}

/// Returns the total resources of a pod, including `spec.overhead`. Overhead is added to `limits` only for
/// resources that have a limit.
pub(crate) fn total_with_overhead(pod: &Value, list: List, itself: fn(&str) -> bool) -> ResourceList {
    let mut all = total(pod, list, itself);
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

fn raise(all: &mut ResourceList, other: &ResourceList) {
    for (name, amount) in other {
        let held = all.entry(name.clone()).or_insert(*amount);
        *held = (*held).max(*amount);
    }
}

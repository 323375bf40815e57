//! What a pod asks for: the sum of its containers, the most that its init containers need at a time, and what it says itself.

use serde_json::Value;

use super::{Amounts, amounts};
use crate::model::quantity::Amount;

/// Which of the two lists of resources is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum List {
    Requests,
    Limits,
}

impl List {
    pub(crate) fn of(self, holder: &Value) -> Amounts {
        amounts(&holder["resources"][self.name()])
    }

    fn name(self) -> &'static str {
        match self {
            Self::Requests => "requests",
            Self::Limits => "limits",
        }
    }
}

/// Containers of a pod, of the ordinary list or of the one that runs first.
pub(crate) fn containers<'a>(pod: &'a Value, list: &str) -> impl Iterator<Item = &'a Value> {
    pod["spec"][list].as_array().into_iter().flatten()
}

/// What a pod asks for. What it says of itself counts instead of its containers for resources that `itself` takes.
pub(crate) fn total(pod: &Value, list: List, itself: fn(&str) -> bool) -> Amounts {
    let mut all = Amounts::new();
    containers(pod, "containers").for_each(|container| add(&mut all, &list.of(container)));
    let (mut beside, mut most) = (Amounts::new(), Amounts::new());
    for container in containers(pod, "initContainers") {
        let asked = list.of(container);
        if container["restartPolicy"] == "Always" {
            // It goes on beside all that come after it.
            add(&mut all, &asked);
            add(&mut beside, &asked);
            raise(&mut most, &beside);
        } else {
            let mut now = asked;
            add(&mut now, &beside);
            raise(&mut most, &now);
        }
    }
    raise(&mut all, &most);
    let said = list.of(&pod["spec"]).into_iter().filter(|(name, _)| itself(name));
    all.extend(said);
    all
}

/// The same with what it takes to run a pod at all; of limits, where there is one.
pub(crate) fn total_with_overhead(pod: &Value, list: List, itself: fn(&str) -> bool) -> Amounts {
    let mut all = total(pod, list, itself);
    let mut overhead = amounts(&pod["spec"]["overhead"]);
    if list == List::Limits {
        overhead.retain(|name, _| all.contains_key(name));
    }
    add(&mut all, &overhead);
    all
}

pub(crate) fn add(all: &mut Amounts, more: &Amounts) {
    for (name, amount) in more {
        let held = all.entry(name.clone()).or_insert(Amount::ZERO);
        *held = held.plus(*amount);
    }
}

fn raise(all: &mut Amounts, other: &Amounts) {
    for (name, amount) in other {
        let held = all.entry(name.clone()).or_insert(*amount);
        *held = (*held).max(*amount);
    }
}

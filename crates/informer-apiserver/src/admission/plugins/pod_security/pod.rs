//! Pods as the checks look at them: by themselves, or as the template of what makes them.

use serde_json::Value;

use super::part;
use crate::model::kinds::Kind;
use crate::model::metadata::Object;

/// The metadata and the specification of a pod.
#[derive(Clone, Copy)]
pub(super) struct Pod<'a> {
    metadata: &'a Value,
    spec: &'a Value,
}

/// Where a kind has its pod; `None` for kinds that make none.
pub(super) fn way_to_template(kind: &Kind) -> Option<&'static [&'static str]> {
    if kind.is_custom() {
        return None;
    }
    Some(match (kind.gvr.group.as_str(), kind.kind.as_str()) {
        ("", "Pod") => &[],
        ("", "PodTemplate") => &["template"],
        ("", "ReplicationController")
        | ("apps", "ReplicaSet" | "Deployment" | "DaemonSet" | "StatefulSet")
        | ("batch", "Job") => &["spec", "template"],
        ("batch", "CronJob") => &["spec", "jobTemplate", "spec", "template"],
        _ => return None,
    })
}

impl<'a> Pod<'a> {
    /// The pod at the end of a way through an object.
    pub(super) fn in_object(object: &'a Object, way: &[&str]) -> Option<Self> {
        let Some((first, rest)) = way.split_first() else {
            return Some(Self { metadata: part(object, "metadata"), spec: part(object, "spec") });
        };
        let template = rest.iter().fold(part(object, first), |value, name| &value[*name]);
        template.is_object().then(|| Self::of(template))
    }

    /// A pod that is there as a value.
    pub(super) fn of(pod: &'a Value) -> Self {
        Self { metadata: &pod["metadata"], spec: &pod["spec"] }
    }

    pub(super) fn spec(&self, name: &str) -> &'a Value {
        &self.spec[name]
    }

    /// What its security context says.
    pub(super) fn context(&self, name: &str) -> &'a Value {
        &self.spec["securityContext"][name]
    }

    pub(super) fn annotations(&self) -> impl Iterator<Item = (&'a str, &'a str)> {
        let all = self.metadata["annotations"].as_object().into_iter().flatten();
        all.filter_map(|(name, value)| Some((name.as_str(), value.as_str()?)))
    }

    pub(super) fn annotation(&self, name: &str) -> Option<&'a str> {
        self.metadata["annotations"].get(name).and_then(Value::as_str)
    }

    /// Containers of all sorts, those of the beginning first.
    pub(super) fn containers(&self) -> impl Iterator<Item = &'a Value> {
        let spec = self.spec;
        let lists = ["initContainers", "containers", "ephemeralContainers"];
        lists.into_iter().flat_map(move |list| spec[list].as_array().into_iter().flatten())
    }

    /// The names of the containers that something is the matter with.
    pub(super) fn bad(&self, is_bad: impl FnMut(&&'a Value) -> bool) -> Vec<&'a str> {
        self.containers().filter(is_bad).map(name).collect()
    }

    pub(super) fn is_windows(&self) -> bool {
        self.spec["os"]["name"] == "windows"
    }

    /// Whether its users are none of the node's.
    pub(super) fn has_own_users(&self) -> bool {
        self.spec["hostUsers"] == false
    }
}

pub(super) fn name(part: &Value) -> &str {
    part["name"].as_str().unwrap_or_default()
}

/// Whether a change of a pod could make it less safe: only images can be changed, and containers added.
pub(super) fn is_significant(old: &Object, new: &Object) -> bool {
    let lists = |object, name: &str| part(object, "spec")[name].as_array().map_or(&[][..], Vec::as_slice);
    ["containers", "initContainers"].into_iter().any(|list| {
        let (before, after) = (lists(old, list), lists(new, list));
        let changed = |(before, after): (&Value, &Value)| before["image"] != after["image"];
        before.len() != after.len() || before.iter().zip(after).any(changed)
    })
}

//! The pods and pod templates that the Pod Security checks evaluate.

use std::collections::HashMap;

use serde_json::Value;

use super::part;
use crate::model::json::Object;

#[derive(Clone, Copy)]
pub(super) struct Pod<'a> {
    metadata: &'a Value,
    spec: &'a Value,
}

impl<'a> Pod<'a> {
    pub(super) fn in_object(object: &'a Object, path: &[&str]) -> Option<Self> {
        let Some((first, rest)) = path.split_first() else {
            return Some(Self { metadata: part(object, "metadata"), spec: part(object, "spec") });
        };
        let template = rest.iter().fold(part(object, first), |value, name| &value[*name]);
        template.is_object().then(|| Self::of(template))
    }

    pub(super) fn of(pod: &'a Value) -> Self {
        Self { metadata: &pod["metadata"], spec: &pod["spec"] }
    }

    pub(super) fn spec(&self, name: &str) -> &'a Value {
        &self.spec[name]
    }

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

    pub(super) fn containers(&self) -> impl Iterator<Item = &'a Value> {
        let spec = self.spec;
        let lists = ["initContainers", "containers", "ephemeralContainers"];
        lists.into_iter().flat_map(move |list| spec[list].as_array().into_iter().flatten())
    }

    pub(super) fn bad(&self, is_bad: impl FnMut(&&'a Value) -> bool) -> Vec<&'a str> {
        self.containers().filter(is_bad).map(name).collect()
    }

    pub(super) fn is_windows(&self) -> bool {
        self.spec["os"]["name"] == "windows"
    }

    pub(super) fn in_user_namespace(&self) -> bool {
        self.spec["hostUsers"] == false
    }
}

pub(super) fn name(part: &Value) -> &str {
    part["name"].as_str().unwrap_or_default()
}

/// Returns true if a pod update can change the result of the Pod Security checks: it changes an image or adds
/// a container.
pub(super) fn affects_checks(old: &Object, new: &Object) -> bool {
    fn lists<'a>(object: &'a Object, name: &str) -> &'a [Value] {
        part(object, "spec")[name].as_array().map_or(&[], Vec::as_slice)
    }
    fn images(pod: &Object) -> impl Iterator<Item = (&str, &Value)> {
        lists(pod, "ephemeralContainers").iter().map(|container| (name(container), &container["image"]))
    }
    let before: HashMap<&str, &Value> = images(old).collect();
    let has_new_ephemeral = images(new).any(|(name, image)| before.get(name) != Some(&image));
    has_new_ephemeral
        || ["containers", "initContainers"].into_iter().any(|list| {
            let (before, after) = (lists(old, list), lists(new, list));
            let changed = |(before, after): (&Value, &Value)| before["image"] != after["image"];
            before.len() != after.len() || before.iter().zip(after).any(changed)
        })
}

//! The fields of a pod that `/ephemeralcontainers` and `/resize` change.

use serde_json::Value;

use crate::model::kinds::descriptor::SubresourceStrategy;
use crate::model::rules::path::{get, set};
use crate::model::write_options::WriteMode;

use super::validation;

pub(super) const EPHEMERAL_CONTAINERS: SubresourceStrategy = SubresourceStrategy {
    mode: WriteMode::EphemeralContainers,
    prepare: prepare_ephemeral_containers,
    checks: validation::EPHEMERAL_CONTAINERS,
    reset_fields: &[],
};

pub(super) const RESIZE: SubresourceStrategy = SubresourceStrategy {
    mode: WriteMode::Resize,
    prepare: prepare_resize,
    checks: validation::RESIZE,
    reset_fields: &[],
};

fn prepare_ephemeral_containers(old: &Value, pod: &mut Value, _now: &str) {
    let given = restore(old, pod);
    take(&given, "spec.ephemeralContainers", pod);
}

/// Takes the pod-level resources, and the resources and resize policies of the containers. Containers that
/// were added, removed, renamed or reordered stay in the pod, so that the validation rejects them.
fn prepare_resize(old: &Value, pod: &mut Value, _now: &str) {
    const LISTS: [&str; 2] = ["spec.containers", "spec.initContainers"];
    let has_all = LISTS.iter().all(|list| containers(pod, list).len() == containers(old, list).len());
    if !has_all {
        return;
    }
    let given = restore(old, pod);
    take(&given, "spec.resources", pod);
    for list in LISTS.into_iter().filter(|list| !containers(old, list).is_empty()) {
        let merged = merge_resources(containers(&given, list), containers(old, list));
        set(pod, list, merged.into());
    }
}

/// Replaces a pod by the stored one, and returns it. The UID stays, so that the validation rejects a wrong
/// one.
fn restore(old: &Value, pod: &mut Value) -> Value {
    let given = std::mem::replace(pod, old.clone());
    take(&given, "metadata.uid", pod);
    given
}

/// Copies a field of the given pod. The pod keeps its UID if the given one has none.
fn take(given: &Value, path: &str, pod: &mut Value) {
    let (parent, name) = path.split_once('.').unwrap_or_default();
    match get(given, path) {
        Some(value) => set(pod, path, value.clone()),
        None if name == "uid" => {}
        None => {
            if let Some(parent) = pod.get_mut(parent).and_then(Value::as_object_mut) {
                parent.remove(name);
            }
        }
    }
}

fn containers<'a>(pod: &'a Value, list: &str) -> &'a [Value] {
    get(pod, list).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Returns the stored containers with the resources and resize policies of the new ones.
fn merge_resources(new: &[Value], old: &[Value]) -> Vec<Value> {
    if new.iter().zip(old).any(|(new, old)| new["name"] != old["name"]) {
        return new.to_vec();
    }
    let merge = |(new, old): (&Value, &Value)| {
        let mut merged = old.clone();
        if let Some(members) = merged.as_object_mut() {
            for name in ["resources", "resizePolicy"] {
                match get(new, name) {
                    Some(value) => members.insert(name.to_owned(), value.clone()),
                    None => members.remove(name),
                };
            }
        }
        merged
    };
    new.iter().zip(old).map(merge).collect()
}

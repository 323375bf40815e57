//! Validation of an update of `/resize`: only the CPU and memory of a pod and its containers are mutable.

use serde_json::Value;

use crate::model::cause::{Cause, Causes, NO_FIELD};
use crate::model::kinds::core::pod::qos;
use crate::model::kinds::core::pod::resources::{List, ResourceList};
use crate::model::rules::checks::{FieldView, is_missing};
use crate::model::rules::warnings::list;

use super::is_static;

const LISTS: [List; 2] = [List::Requests, List::Limits];
const ONLY_CPU_AND_MEMORY: &str = "only cpu and memory resources are mutable";

pub(super) fn check(at: &FieldView<'_, '_>, causes: &mut Causes) {
    let Some(old) = at.old else { return };
    if is_static(old) {
        return causes.replace_all(Cause::forbidden(NO_FIELD, "static pods cannot be resized"));
    }
    if old["spec"]["os"]["name"] == "windows" {
        return causes.replace_all(Cause::forbidden(NO_FIELD, "windows pods cannot be resized"));
    }
    check_pod(at.value, old, causes);
    let spec = at.part("spec");
    check_pod_resources(&spec, &old["spec"], causes);
    if list(&old["status"]["nodeAllocatableResourceClaimStatuses"]).next().is_some() {
        let why = "pods with node allocatable resource claims cannot be resized";
        causes.push(Cause::forbidden("spec", why));
    }
    if !has_same_containers(&spec, &old["spec"], causes) {
        return;
    }
    for containers in ["initContainers", "containers"] {
        for (container, before) in spec.elements(containers).zip(list(&old["spec"][containers])) {
            check_removed(&container, before, causes);
        }
    }
    for (container, before) in spec.elements("containers").zip(list(&old["spec"]["containers"])) {
        if changes_other_fields(container.value, before) {
            causes.push(Cause::forbidden("spec", ONLY_CPU_AND_MEMORY));
        }
    }
    for (container, before) in spec.elements("initContainers").zip(list(&old["spec"]["initContainers"])) {
        check_init_container(&container, before, causes);
    }
}

/// Validates that the quality of service class stays, and that the node of the pod supports the resize.
fn check_pod(new: &Value, old: &Value, causes: &mut Causes) {
    let stored = old["status"]["qosClass"].as_str().filter(|class| !class.is_empty());
    if stored.unwrap_or_else(|| qos(old)) != qos(new) {
        let shown = format!("{:?}", new["status"]["qosClass"].as_str().unwrap_or_default());
        let why = "Pod QOS Class may not change as a result of resizing";
        causes.push(Cause::invalid("spec", &shown, why));
    }
    let running =
        list(&old["status"]["containerStatuses"]).find(|container| container["state"]["running"].is_object());
    // A node that supports the resize of pods reports the resources of running containers.
    if running.is_some_and(|container| !container["resources"].is_object()) {
        causes.push(Cause::forbidden("spec", "Pod running on node without support for resize"));
    }
}

/// Validates changes of the pod-level resources.
fn check_pod_resources(spec: &FieldView<'_, '_>, old: &Value, causes: &mut Causes) {
    let (new, before) = (&spec.value["resources"], &old["resources"]);
    let is_set = |spec: &Value| LISTS.iter().any(|list| !list.of(spec).is_empty());
    if !is_set(spec.value) && !is_set(old) {
        // There is no CPU and no memory, so the pod-level resources are immutable.
        if new != before {
            causes.push(Cause::forbidden("spec", ONLY_CPU_AND_MEMORY));
        }
        return;
    }
    if before.is_object() && !new.is_object() {
        let why = "pod-level resources cannot be removed";
        return causes.push(Cause::forbidden(&spec.field_path("resources"), why));
    }
    for list in LISTS {
        if is_removed(&list.of(spec.value), &list.of(old)) {
            let why = format!("pod-level resource {} cannot be removed", list.name());
            let resources = spec.field_path("resources");
            causes.push(Cause::forbidden(&resources.field(list.name()), &why));
        }
    }
    let is_same =
        |list: &List| without_cpu_and_memory(*list, spec.value) == without_cpu_and_memory(*list, old);
    if !LISTS.iter().all(is_same) || claims(spec.value) != claims(old) {
        let why = "only cpu and memory resources are mutable at pod-level";
        causes.push(Cause::forbidden("spec", why));
    }
}

/// Validates that no container was added, removed, renamed or reordered. Returns false if one was.
fn has_same_containers(spec: &FieldView<'_, '_>, old: &Value, causes: &mut Causes) -> bool {
    let known = causes.len();
    for containers in ["containers", "initContainers"] {
        if spec.items(containers).len() != list(&old[containers]).count() {
            let why = format!("{containers} may not be added or removed on resize");
            causes.push(Cause::forbidden(&spec.field_path(containers), &why));
            continue;
        }
        for (container, before) in spec.elements(containers).zip(list(&old[containers])) {
            if container.value["name"] != before["name"] {
                let why = format!("{containers} may not be renamed or reordered on resize");
                causes.push(Cause::forbidden(&container.field_path("name"), &why));
            }
        }
    }
    causes.len() == known
}

fn check_removed(container: &FieldView<'_, '_>, old: &Value, causes: &mut Causes) {
    for list in LISTS {
        if is_removed(&list.of(container.value), &list.of(old)) {
            let why = format!("resource {} cannot be removed", list.name());
            let resources = container.field_path("resources");
            causes.push(Cause::forbidden(&resources.field(list.name()), &why));
        }
    }
}

fn check_init_container(container: &FieldView<'_, '_>, old: &Value, causes: &mut Causes) {
    if changes_other_fields(container.value, old) {
        let why = "only cpu and memory resources for init or sidecar containers are mutable";
        causes.push(Cause::forbidden(&container.path, why));
    }
    let is_sidecar = container.text("restartPolicy") == "Always";
    if is_sidecar || !is_changed(container.value, old) {
        return;
    }
    for policy in container.items("resizePolicy") {
        if policy["restartPolicy"] == "RestartContainer" {
            let why =
                "non-sidecar init containers with a resize policy of RestartContainer cannot be resized";
            causes.push(Cause::forbidden(&container.path, why));
        }
    }
}

fn is_removed(new: &ResourceList, old: &ResourceList) -> bool {
    old.keys().any(|name| !new.contains_key(name))
}

fn is_changed(new: &Value, old: &Value) -> bool {
    without_resources(new).ne(without_resources(old))
        || LISTS.iter().any(|list| list.of(new) != list.of(old))
        || claims(new) != claims(old)
}

/// Returns true if a container differs in more than its CPU and memory. As in kube-apiserver, a container
/// with resource claims cannot be resized.
fn changes_other_fields(new: &Value, old: &Value) -> bool {
    let is_changed = |list: &List| without_cpu_and_memory(*list, new) != without_cpu_and_memory(*list, old);
    without_resources(new).ne(without_resources(old)) || LISTS.iter().any(is_changed) || claims(old).is_some()
}

fn without_resources(container: &Value) -> impl Iterator<Item = (&String, &Value)> {
    let members = container.as_object().into_iter().flatten();
    members.filter(|(name, value)| *name != "resources" && !is_missing(Some(value)))
}

fn without_cpu_and_memory(list: List, holder: &Value) -> ResourceList {
    let mut resources = list.of(holder);
    resources.retain(|name, _| !matches!(name.as_str(), "cpu" | "memory"));
    resources
}

fn claims(holder: &Value) -> Option<&Value> {
    Some(&holder["resources"]["claims"]).filter(|claims| !is_missing(Some(claims)))
}

//! Validation of the resources of containers, of pod-level resources, and of the overhead of a runtime class.

use std::collections::HashSet;
use std::fmt::Display;

use serde_json::{Map, Value};

use crate::model::cause::{Cause, Causes};
use crate::model::kinds::core::pod::resources::{List, aggregate_container_resources};
use crate::model::quantity::Amount;
use crate::model::rules::checks::{FieldView, NameFormat, duplicate, not_found, required, unsupported};
use crate::model::rules::resources::{
    check_container_resource_name, check_resource_name, check_resource_quantity, each_quantity,
    is_divisible_by_page_size, is_huge_pages_of_container, is_overcommit_allowed,
};

use super::{PodParts, all_containers, host, os};

/// The rules for the name of a resource.
type NameCheck = fn(&dyn Display, &str, &mut Causes);

pub(super) fn check_container(at: &FieldView<'_, '_>, pod: &PodParts<'_>, causes: &mut Causes) {
    check_requirements(at, check_container_resource_name, pod.checks_page_size, causes);
    check_claims(at, &pod.claims, causes);
}

/// Validates the overhead of a runtime class. The server treats it as the limits of a container.
pub(super) fn check_overhead(spec: &FieldView<'_, '_>, pod: &PodParts<'_>, causes: &mut Causes) {
    let overhead = spec.part("overhead");
    if overhead.value.is_null() {
        return;
    }
    let limits = Value::Object(Map::from_iter([("limits".to_owned(), overhead.value.clone())]));
    let at = FieldView { value: &limits, old: None, path: overhead.path };
    check_requirements(&at, check_container_resource_name, pod.checks_page_size, causes);
}

/// Validates the limits and requests of a container or a pod.
fn check_requirements(
    at: &FieldView<'_, '_>,
    check_name: NameCheck,
    checks_page_size: bool,
    causes: &mut Causes,
) {
    let (mut has_huge_pages, mut has_compute) = (false, false);
    for list in ["limits", "requests"] {
        each_quantity(at, list, &mut |field, name, quantity| {
            check_name(field, name, causes);
            check_resource_quantity(field, name, quantity, causes);
            if list == "requests" {
                check_request(at, name, quantity, causes);
            }
            if checks_page_size
                && is_huge_pages_of_container(name)
                && !is_divisible_by_page_size(name, quantity)
            {
                let why = format!("{quantity} is not positive integer multiple of {name}");
                causes.push(Cause::invalid(field, &format!("{quantity:?}"), &why));
            }
            has_huge_pages |= is_huge_pages_of_container(name);
            has_compute |= matches!(name, "cpu" | "memory");
        });
    }
    if has_huge_pages && !has_compute {
        causes.push(Cause::forbidden(&at.path, "HugePages require cpu or memory"));
    }
}

/// Validates a request against its limit. Resources that cannot be overcommitted must have an equal limit.
fn check_request(at: &FieldView<'_, '_>, name: &str, quantity: &str, causes: &mut Causes) {
    let field = at.field_path("requests");
    let limit = at.get("limits").and_then(|limits| limits.get(name)?.as_str());
    let can_overcommit = is_overcommit_allowed(name);
    let Some(limit) = limit else {
        if !can_overcommit {
            let why = "Limit must be set for non overcommitable resources";
            causes.push(required(&at.field_path("limits"), why));
        }
        return;
    };
    let (Some(asked), Some(most)) = (Amount::read(quantity), Amount::read(limit)) else { return };
    let relation = match () {
        () if asked != most && !can_overcommit => "equal to",
        () if asked > most => "less than or equal to",
        () => return,
    };
    let why = format!("must be {relation} {name} limit of {limit}");
    causes.push(Cause::invalid(&field, &format!("{quantity:?}"), &why));
}

fn check_claims(at: &FieldView<'_, '_>, claims: &HashSet<&str>, causes: &mut Causes) {
    let mut seen = HashSet::new();
    for claim in at.elements("claims") {
        let (name, request) = (claim.text("name"), claim.text("request"));
        if name.is_empty() {
            causes.push(required(&claim.path, ""));
        } else {
            if !seen.insert((name, request)) {
                causes.push(duplicate(&claim.path, &format!("{name:?}")));
            }
            if !claims.contains(name) {
                let mut known: Vec<&str> = claims.iter().copied().collect();
                known.sort_unstable();
                let known = match &known[..] {
                    [] => " which is empty".to_owned(),
                    known => format!(": {}", known.join(", ")),
                };
                let mut cause = not_found(&claim.path, name);
                cause.message += &format!(": must be one of the names in pod.spec.resourceClaims{known}");
                causes.push(cause);
            }
        }
        if !request.is_empty() {
            NameFormat::Label.check(&claim.field_path("request"), request, causes);
        }
    }
}

/// Returns true if the stored spec has a quantity of huge pages that is not a multiple of the page size. An
/// update of such a spec may keep it.
pub(super) fn had_indivisible_huge_pages(spec: &FieldView<'_, '_>) -> bool {
    let Some(old) = host::stored(spec) else { return false };
    let mut is_indivisible = false;
    let mut look = |at: &FieldView<'_, '_>, map: &str| {
        each_quantity(at, map, &mut |_, name, quantity| {
            is_indivisible |= is_huge_pages_of_container(name) && !is_divisible_by_page_size(name, quantity);
        });
    };
    for container in all_containers(&old) {
        ["resources.limits", "resources.requests"].iter().for_each(|map| look(&container, map));
    }
    look(&old, "overhead");
    is_indivisible
}

const POD_RESOURCES: [&str; 3] = ["cpu", "hugepages-", "memory"];

fn is_pod_resource(name: &str) -> bool {
    matches!(name, "cpu" | "memory") || is_huge_pages_of_container(name)
}

fn check_pod_resource_name(field: &dyn Display, name: &str, causes: &mut Causes) {
    let known = causes.len();
    check_resource_name(field, name, causes);
    if causes.len() == known && !is_pod_resource(name) {
        causes.push(unsupported(field, name, &POD_RESOURCES));
    }
}

/// Validates the pod-level resources.
pub(super) fn check_pod(spec: &FieldView<'_, '_>, pod: &PodParts<'_>, causes: &mut Causes) {
    let at = spec.part("resources");
    if at.value.is_null() {
        return;
    }
    if os::is_windows(spec) {
        return causes.push(Cause::forbidden(&at.path, "may not be set for a windows pod"));
    }
    if at.get("claims").is_some() {
        let why = "claims may not be set for Resources at pod-level";
        causes.push(Cause::forbidden(&at.field_path("claims"), why));
    }
    check_requirements(&at, check_pod_resource_name, pod.checks_page_size, causes);
    check_claims(&at, &pod.claims, causes);
    check_sums(spec, &at, causes);
    let limits = List::Limits.of(spec.value);
    for (index, container) in spec.elements("containers").enumerate() {
        each_quantity(&container, "resources.limits", &mut |_, name, limit| {
            let Some(most) = limits.get(name) else { return };
            if Amount::read(limit).is_some_and(|limit| limit > *most) {
                // As in kube-apiserver, the path begins with that of the resources of the pod.
                let field = format!("{}.containers[{index}][{name}].limits", at.path);
                let why = format!("must be less than or equal to pod limits of {}", most.text());
                causes.push(Cause::invalid(&field, &format!("{limit:?}"), &why));
            }
        });
    }
}

/// Validates that the pod has at least the sum of the requests of its containers, and of their limits of huge
/// pages.
fn check_sums(spec: &FieldView<'_, '_>, at: &FieldView<'_, '_>, causes: &mut Causes) {
    for list in [List::Requests, List::Limits] {
        let given = list.of(spec.value);
        for (name, sum) in aggregate_container_resources(spec.value, list) {
            let is_compared = list == List::Requests || is_huge_pages_of_container(&name);
            let Some(amount) = given.get(&name).filter(|_| is_compared) else { continue };
            if sum > *amount {
                let (list, sum) = (list.name(), sum.text());
                let why = format!("must be greater than or equal to aggregate container {list} of {sum}");
                let field = at.field_path(list).key(&name);
                causes.push(Cause::invalid(&field, &format!("{:?}", amount.text()), &why));
            }
        }
    }
}

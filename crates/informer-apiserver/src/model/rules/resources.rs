//! Validation of the names and quantities of compute resources.

use std::fmt::Display;

use crate::model::cause::{Cause, Causes};
use crate::model::quantity::read;
use crate::model::rules::checks::{FieldView, qualified_problems};

/// The standard resources that are measured.
const MEASURED: [&str; 11] = [
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "storage",
    "requests.storage",
];
/// The standard resources that are counted, so their quantities are integers.
const COUNTED: [&str; 9] = [
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "services.loadbalancers",
    "services.nodeports",
];

const HUGE_PAGES: &str = "hugepages-";
/// One, in the unit of parsed quantities.
const ONE: i128 = 1_000_000_000;

fn is_standard(name: &str) -> bool {
    MEASURED.contains(&name) || COUNTED.contains(&name) || is_huge_pages(name)
}

fn is_huge_pages(name: &str) -> bool {
    name.starts_with(HUGE_PAGES) || name.starts_with("requests.hugepages-")
}

/// Returns true for huge pages of any size, as a container requests them.
pub(crate) fn is_huge_pages_of_container(name: &str) -> bool {
    name.starts_with(HUGE_PAGES)
}

/// Returns true if a quantity of huge pages is a multiple of the page size, which the name of the resource
/// contains.
pub(crate) fn is_divisible_by_page_size(name: &str, quantity: &str) -> bool {
    let size = name.strip_prefix(HUGE_PAGES).and_then(read);
    let size = size.filter(|size| *size > 0 && size % ONE == 0);
    match (size, read(quantity)) {
        (Some(size), Some(quantity)) => (quantity + (-quantity).rem_euclid(ONE)) % size == 0,
        (None, _) => false,
        (_, None) => true,
    }
}

/// Returns true if the requests of a resource may exceed the limit. Extended resources and huge pages do not
/// allow it.
pub(crate) fn is_overcommit_allowed(name: &str) -> bool {
    is_native(name) && !is_huge_pages_of_container(name)
}

/// Returns true for the resources that a ResourceQuota can limit without the prefix `count/`.
pub(crate) fn is_standard_quota_resource(name: &str) -> bool {
    name != "storage" && is_standard(name)
}

fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

fn is_extended(name: &str) -> bool {
    !is_native(name)
        && !name.starts_with("requests.")
        && qualified_problems(&format!("requests.{name}")).is_empty()
}

/// Validates the name of a resource.
pub(crate) fn check_resource_name(field: &dyn Display, name: &str, causes: &mut Causes) {
    let invalid = |why: &str| Cause::invalid(field, &format!("{name:?}"), why);
    let problems = qualified_problems(name);
    if !problems.is_empty() {
        causes.extend(problems.iter().map(|why| invalid(why)));
    } else if !name.contains('/') && !is_standard(name) {
        causes.push(invalid("must be a standard resource type or fully qualified"));
    }
}

/// Validates the name of a resource that a container can request.
pub(crate) fn check_container_resource_name(field: &dyn Display, name: &str, causes: &mut Causes) {
    check_resource_name(field, name, causes);
    let invalid = |why: &str| Cause::invalid(field, &format!("{name:?}"), why);
    if !name.contains('/') {
        let standard = ["cpu", "memory", "ephemeral-storage"].contains(&name) || name.starts_with(HUGE_PAGES);
        causes.extend((!standard).then(|| invalid("must be a standard resource for containers")));
    } else if !is_native(name) && !is_extended(name) {
        causes.push(invalid("doesn't follow extended resource name standard"));
    }
}

/// Validates the name of a resource that a ResourceQuota limits.
pub(crate) fn check_quota_resource_name(field: &dyn Display, name: &str, causes: &mut Causes) {
    check_resource_name(field, name, causes);
    if !name.contains('/') && !is_standard_quota_resource(name) {
        causes.push(Cause::invalid(field, &format!("{name:?}"), "must be a standard resource for quota"));
    }
}

/// Validates that a quantity is not negative, and an integer if the resource is counted.
pub(crate) fn check_resource_quantity(field: &dyn Display, name: &str, quantity: &str, causes: &mut Causes) {
    let Some(billionths) = read(quantity) else { return };
    let invalid = |why: &str| Cause::invalid(field, &format!("{quantity:?}"), why);
    if billionths < 0 {
        causes.push(invalid("must be greater than or equal to 0"));
    }
    let counted = COUNTED.contains(&name) || is_extended(name);
    if counted && billionths % ONE != 0 {
        causes.push(invalid("must be an integer"));
    }
}

/// Calls a function with each resource of a map of quantities: its path, name and quantity.
pub(crate) fn each_quantity(
    at: &FieldView<'_, '_>,
    map: &str,
    visit: &mut dyn FnMut(&dyn Display, &str, &str),
) {
    let quantities = at.get(map).and_then(serde_json::Value::as_object);
    for (name, quantity) in quantities.into_iter().flatten() {
        let field = at.field_path(map).key(name);
        visit(&field, name, quantity.as_str().unwrap_or_default());
    }
}

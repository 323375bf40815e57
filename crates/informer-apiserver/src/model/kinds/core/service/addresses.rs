//! Validation of the cluster IPs and IP families of Services.

use std::collections::HashSet;

use serde_json::Value;

use crate::model::cause::{Cause, Causes};
use crate::model::rules::checks::{FieldView, duplicate, unsupported};
use crate::model::rules::ranges::check_address;

const FAMILIES: &[&str] = &["IPv4", "IPv6"];
const POLICIES: &[&str] = &["PreferDualStack", "RequireDualStack", "SingleStack"];
/// The maximum number of cluster IPs: one of each family.
const MAX_ADDRESSES: usize = 2;

/// Returns `clusterIPs`. If it is empty, returns the address in `clusterIP`.
pub(super) fn cluster_ips(spec: &Value) -> Vec<&str> {
    let all = strings(&spec["clusterIPs"]);
    let first = spec["clusterIP"].as_str().filter(|first| all.is_empty() && !first.is_empty());
    all.into_iter().chain(first).collect()
}

pub(super) fn strings(list: &Value) -> Vec<&str> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

pub(super) fn is_headless(spec: &Value) -> bool {
    cluster_ips(spec) == ["None"]
}

pub(super) fn family_of(address: &str) -> &'static str {
    if address.contains(':') { "IPv6" } else { "IPv4" }
}

fn is_external_name(spec: &Value) -> bool {
    spec["type"] == "ExternalName"
}

/// Formats a list of strings for an error.
pub(super) fn format_list(list: &[&str]) -> String {
    Value::from(list).to_string()
}

/// Rejects cluster IPs and IP families that the type forbids.
pub(super) fn check_type(spec: &FieldView<'_, '_>, causes: &mut Causes) {
    let kind = spec.text("type");
    if is_external_name(spec.value) {
        let given = [
            (!cluster_ips(spec.value).is_empty(), "clusterIPs"),
            (!spec.items("ipFamilies").is_empty(), "ipFamilies"),
            (spec.get("ipFamilyPolicy").is_some(), "ipFamilyPolicy"),
        ];
        let why = "may not be set for ExternalName services";
        let given = given.into_iter().filter(|(given, _)| *given);
        causes.extend(given.map(|(_, name)| Cause::forbidden(&spec.field_path(name), why)));
    } else if matches!(kind, "LoadBalancer" | "NodePort") && is_headless(spec.value) {
        let why = format!("may not be set to 'None' for {kind} services");
        causes.push(Cause::invalid(&spec.field_path("clusterIPs[0]"), "\"None\"", &why));
    }
}

/// Validates the cluster IPs, IP families and the family policy of a Service.
pub(super) fn check(spec: &FieldView<'_, '_>, causes: &mut Causes) {
    if is_external_name(spec.value) {
        return;
    }
    let (address, addresses) = (spec.text("clusterIP"), cluster_ips(spec.value));
    let field = spec.field_path("clusterIPs");
    let invalid = |why: &str| Cause::invalid(&field, &format_list(&addresses), why);
    match addresses.first() {
        Some(_) if address.is_empty() => {
            causes.push(invalid("must be empty when `clusterIP` is not specified"));
        }
        Some(first) if *first != address => causes.push(invalid("first value must match `clusterIP`")),
        _ => {}
    }
    check_families(spec, causes);
    let known = causes.len();
    if addresses.len() > 1 && addresses[0] == "None" {
        causes.push(invalid("'None' must be the first and only value"));
    }
    let before: Vec<&str> = spec.before("clusterIPs").collect();
    for (index, address) in addresses.iter().enumerate() {
        let is_none = index == 0 && *address == "None";
        if !is_none && !before.contains(address) {
            check_address(&field.index(index), address, causes);
        }
    }
    let is_valid = causes.len() == known;
    if addresses.len() > MAX_ADDRESSES {
        causes.push(invalid("may only hold up to 2 values"));
    }
    if !is_valid {
        return;
    }
    let families: HashSet<&str> = addresses.iter().map(|address| family_of(address)).collect();
    if addresses.len() > 1 && families.len() < MAX_ADDRESSES {
        causes.push(invalid("may specify no more than one IP for each IP family"));
    }
    if !is_headless(spec.value) {
        check_families_of(&addresses, spec, causes);
    }
}

fn check_families(spec: &FieldView<'_, '_>, causes: &mut Causes) {
    let mut seen = HashSet::new();
    for family in spec.elements("ipFamilies") {
        let text = family.value.as_str().unwrap_or_default();
        if !FAMILIES.contains(&text) {
            causes.push(unsupported(&family.path, text, FAMILIES));
        }
        if !seen.insert(text) {
            causes.push(duplicate(&family.path, &format!("{text:?}")));
        }
    }
    let policy = spec.text("ipFamilyPolicy");
    if spec.get("ipFamilyPolicy").is_some() && !POLICIES.contains(&policy) {
        causes.push(unsupported(&spec.field_path("ipFamilyPolicy"), policy, POLICIES));
    }
}

/// Validates that each cluster IP has the family at the same position in `ipFamilies`.
fn check_families_of(addresses: &[&str], spec: &FieldView<'_, '_>, causes: &mut Causes) {
    let families = strings(&spec.value["ipFamilies"]);
    for (index, (address, family)) in addresses.iter().zip(families).enumerate() {
        if FAMILIES.contains(&family) && family_of(address) != family {
            let why = format!("expected an {family} value as indicated by `ipFamilies[{index}]`");
            let field = spec.field_path("clusterIPs").index(index);
            causes.push(Cause::invalid(&field, &format!("{address:?}"), &why));
        }
    }
}

/// Validates changes of cluster IPs and IP families. The secondary ones can be added and removed.
pub(super) fn check_changes(spec: &FieldView<'_, '_>, causes: &mut Causes) {
    let Some(old) = spec.old else { return };
    if is_external_name(spec.value) || is_external_name(old) {
        return;
    }
    let headless = (is_headless(old), is_headless(spec.value));
    let policy = spec.text("ipFamilyPolicy");
    if headless != (true, true) {
        let (before, after) = (cluster_ips(old), cluster_ips(spec.value));
        check_list_change(spec, ("clusterIPs", "clusterIP"), (&before, &after), policy, causes);
    }
    if headless == (false, false) {
        let (before, after) = (strings(&old["ipFamilies"]), strings(&spec.value["ipFamilies"]));
        check_list_change(spec, ("ipFamilies", "ipFamily"), (&before, &after), policy, causes);
    }
}

/// Validates the change of `clusterIPs` or `ipFamilies`: the first element is immutable, and the second one
/// can be added and removed. `element` is the name of an element in error messages.
fn check_list_change(
    spec: &FieldView<'_, '_>,
    (name, element): (&str, &str),
    (before, after): (&[&str], &[&str]),
    policy: &str,
    causes: &mut Causes,
) {
    let invalid = |index: usize, why: &str| {
        Cause::invalid(&spec.field_path(name).index(index), &format_list(after), why)
    };
    let fixed = "may not change once set";
    if before.len() == after.len() {
        let changed = before.iter().zip(after).enumerate().filter(|(_, (before, after))| before != after);
        // As in kube-apiserver, the error for a changed family always names the first one.
        let index = |index| if name == "ipFamilies" { 0 } else { index };
        return causes.extend(changed.map(|(at, _)| invalid(index(at), fixed)));
    }
    match (before.first(), after.first()) {
        (Some(_), None) => causes.push(invalid(0, &format!("primary {element} can not be unset"))),
        (Some(before), Some(after)) if before != after => causes.push(invalid(0, fixed)),
        _ => {}
    }
    if before.len() > after.len() && after.len() == 1 && policy != "SingleStack" {
        let why = format!("must be set to 'SingleStack' when releasing the secondary {element}");
        causes.push(Cause::invalid(&spec.field_path("ipFamilyPolicy"), &format!("{policy:?}"), &why));
    }
}

/// Returns the errors for cluster IPs and IP families that this server, which has only an IPv4 range, cannot
/// allocate. `old` is the stored spec if the write is an update.
pub(super) fn family_causes(spec: &Value, old: Option<&Value>) -> Vec<Cause> {
    if old.is_some_and(|old| has_same_families(old, spec)) {
        return Vec::new();
    }
    let (addresses, mut families) = (cluster_ips(spec), strings(&spec["ipFamilies"]));
    let headless_without_selector = is_headless(spec) && !has_selector(spec);
    let policy = family_policy(spec);
    let invalid_policy = |why: &str| Cause::invalid("spec.ipFamilyPolicy", &format!("{policy:?}"), why);
    let mut causes = Vec::new();
    if policy == "SingleStack" {
        let lists = [(addresses.len(), "cluster IPs"), (families.len(), "IP families")];
        let several = lists.into_iter().filter(|(count, _)| *count == MAX_ADDRESSES);
        causes.extend(several.map(|(_, what)| {
            let why =
                format!("must be 'RequireDualStack' or 'PreferDualStack' when multiple {what} are specified");
            invalid_policy(&why)
        }));
    } else if let Some(old) = old {
        let is_reduced = |after: usize, before: usize| after > 0 && after < before && !is_external_name(old);
        if is_reduced(addresses.len(), cluster_ips(old).len()) {
            causes.push(invalid_policy("must be 'SingleStack' to release the secondary cluster IP"));
        }
        if is_reduced(families.len(), strings(&old["ipFamilies"]).len()) {
            causes.push(invalid_policy("must be 'SingleStack' to release the secondary IP family"));
        }
    }
    for (index, address) in addresses.iter().enumerate().skip(families.len()) {
        match family_of(address) {
            _ if *address == "None" => break,
            "IPv4" => families.push("IPv4"),
            family => {
                let why = format!("{family} is not configured on this cluster");
                let field = format!("spec.clusterIPs[{index}]");
                causes.push(Cause::invalid(&field, &format_list(&addresses), &why));
            }
        }
    }
    if !causes.is_empty() || headless_without_selector {
        return causes;
    }
    if policy == "RequireDualStack" {
        causes.push(invalid_policy("this cluster is not configured for dual-stack services"));
    }
    for (index, family) in families.iter().enumerate().filter(|(_, family)| **family != "IPv4") {
        let field = format!("spec.ipFamilies[{index}]");
        causes.push(Cause::invalid(&field, &format!("{family:?}"), "not configured on this cluster"));
    }
    causes
}

/// Returns true if an update changes no field that decides the IP families. A headless Service without a
/// selector may have families for which the server has no range.
fn has_same_families(old: &Value, spec: &Value) -> bool {
    let fields = ["clusterIPs", "ipFamilies", "ipFamilyPolicy", "type"];
    let is_headless = is_headless(spec) && spec["ipFamilyPolicy"] != "PreferDualStack";
    fields.iter().all(|name| old[name] == spec[name])
        && (!is_headless || has_selector(old) == has_selector(spec))
}

pub(super) fn has_selector(spec: &Value) -> bool {
    spec["selector"].as_object().is_some_and(|selector| !selector.is_empty())
}

/// Returns the family policy of a Service, or the default. A headless Service without a selector has both
/// families by default, because the server does not know its endpoints.
pub(super) fn family_policy(spec: &Value) -> &str {
    match spec["ipFamilyPolicy"].as_str() {
        Some(policy) => policy,
        None if is_headless(spec) && !has_selector(spec) => "RequireDualStack",
        None => "SingleStack",
    }
}

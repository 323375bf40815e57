//! What nodes must have.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::checks::{At, Check, Form, duplicate, required, unsupported};
use super::ranges::{range, range_problem};
use crate::model::error::Cause;

pub(super) const NODE: &[Check] = &[Check::Call(taints), Check::Call(resources), Check::Call(ranges)];
// Upstream looks at the taints of a changed node once more, and tells them in the same words.
pub(super) const CHANGES: &[Check] =
    &[Check::Call(addresses), Check::Call(kept), Check::Call(taints), Check::Call(external)];
pub(super) const STATUS: &[Check] = &[Check::Call(resources), Check::Call(addresses)];

const EFFECTS: &[&str] = &["NoSchedule", "PreferNoSchedule", "NoExecute"];

fn taints(at: &At<'_>, causes: &mut Vec<Cause>) {
    let mut seen = HashSet::new();
    for (index, taint) in at.items("spec.taints").iter().enumerate() {
        // Upstream says `metadata`.
        let taint = At { value: taint, old: None, path: format!("metadata.taints[{index}]") };
        let (key, value, effect) = (taint.text("key"), taint.text("value"), taint.text("effect"));
        Form::Qualified.check(&taint.at("key"), key, causes);
        let problems = crate::model::labels::label_value_problems(value);
        if !problems.is_empty() {
            causes.push(Cause::invalid(&taint.at("value"), &format!("{value:?}"), &problems.join(";")));
        }
        if effect.is_empty() {
            causes.push(required(&taint.at("effect"), ""));
        } else if !EFFECTS.contains(&effect) {
            causes.push(unsupported(&taint.at("effect"), effect, EFFECTS));
        }
        if !seen.insert((key, effect)) {
            let time = taint.get("timeAdded").unwrap_or(&Value::Null);
            let shown =
                format!("{{\"Key\":{key:?},\"Value\":{value:?},\"Effect\":{effect:?},\"TimeAdded\":{time}}}");
            let mut cause = duplicate(&taint.path, &shown);
            cause.message += ": taints must be unique by key and effect pair";
            causes.push(cause);
        }
    }
}

/// Amounts are not negative, and whole where the thing cannot be cut.
fn resources(at: &At<'_>, causes: &mut Vec<Cause>) {
    for part in ["status.capacity", "status.allocatable"] {
        for (name, amount) in at.get(part).and_then(Value::as_object).into_iter().flatten() {
            let Some(amount) = amount.as_str() else { continue };
            let Some(billionths) = crate::model::quantity::read(amount) else { continue };
            let mut told = |why| {
                causes.push(Cause::invalid(&format!("{part}.{name}"), &format!("{amount:?}"), why));
            };
            if billionths < 0 {
                told("must be greater than or equal to 0");
            }
            if is_whole(name) && (billionths + 999_999).div_euclid(1_000_000) % 1000 != 0 {
                told("must be an integer");
            }
        }
    }
}

/// What comes in whole numbers: pods and objects, and what is not Kubernetes' own.
fn is_whole(name: &str) -> bool {
    const COUNTED: [&str; 9] = [
        "pods",
        "resourcequotas",
        "services",
        "replicationcontrollers",
        "secrets",
        "configmaps",
        "persistentvolumeclaims",
        "services.nodeports",
        "services.loadbalancers",
    ];
    let own = !name.contains('/') || name.contains("kubernetes.io/") || name.starts_with("requests.");
    COUNTED.contains(&name) || !own && Form::Qualified.fits(&format!("requests.{name}"))
}

/// The ranges of a node's pods: one of a family.
fn ranges(at: &At<'_>, causes: &mut Vec<Cause>) {
    let field = "spec.podCIDRs";
    let all: Vec<&str> = at.items(field).iter().map(|range| range.as_str().unwrap_or_default()).collect();
    for (index, range) in all.iter().enumerate() {
        if let Some(why) = range_problem(range) {
            causes.push(Cause::invalid(&format!("{field}[{index}]"), &format!("{range:?}"), why));
        }
    }
    if all.len() < 2 {
        return;
    }
    let read: Vec<_> = all.iter().map(|text| range(text)).collect();
    if let Some(index) = read.iter().position(Option::is_none) {
        let why = format!("invalid CIDR[{index}]: <nil> (invalid CIDR address: {})", all[index]);
        causes.push(Cause {
            reason: "InternalError",
            message: format!(
                "Internal error: invalid PodCIDRs. failed to check with dual stack with error:{why}"
            ),
            field: field.to_owned(),
        });
    }
    let families: HashSet<bool> = read.iter().flatten().map(|(address, _)| address.is_ipv4()).collect();
    if all.len() > 2 || families.len() < 2 || read.iter().any(Option::is_none) {
        let why = "may specify no more than one CIDR for each IP family";
        causes.push(Cause::invalid(field, &json!(all).to_string(), why));
    }
}

fn addresses(at: &At<'_>, causes: &mut Vec<Cause>) {
    let mut seen = HashSet::new();
    for (index, address) in at.items("status.addresses").iter().enumerate() {
        let text = |name: &str| address[name].as_str().unwrap_or_default();
        let (kind, address) = (text("type"), text("address"));
        if !seen.insert((kind, address)) {
            let shown = format!("{{\"Type\":{kind:?},\"Address\":{address:?}}}");
            causes.push(duplicate(&format!("status.addresses[{index}]"), &shown));
        }
    }
}

/// What somebody has given a node once is its own.
fn kept(at: &At<'_>, causes: &mut Vec<Cause>) {
    let Some(old) = at.old else { return };
    let (before, now) = (At::root(old, None), at);
    let (had, has) = (before.items("spec.podCIDRs"), now.items("spec.podCIDRs"));
    let why = "node updates may not change podCIDR except from \"\" to valid";
    match had.len() == has.len() {
        _ if had.is_empty() => {}
        true => {
            let changed = had.iter().zip(has).filter(|(had, has)| had != has);
            causes.extend(changed.map(|_| Cause::forbidden("spec.podCIDRs", why)));
        }
        false => causes.push(Cause::forbidden("spec.podCIDRs", why)),
    }
    let provider = before.text("spec.providerID");
    if !provider.is_empty() && provider != now.text("spec.providerID") {
        let why = "node updates may not change providerID except from \"\" to valid";
        causes.push(Cause::forbidden("spec.providerID", why));
    }
}

fn external(at: &At<'_>, causes: &mut Vec<Cause>) {
    let before = at.old.and_then(|old| old["spec"]["externalID"].as_str()).unwrap_or_default();
    if before != at.text("spec.externalID") {
        causes.push(Cause::forbidden("spec.externalID", "may not be updated"));
    }
}

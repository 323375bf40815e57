//! What a pod must have, and what it may not change.

use std::collections::HashSet;

use serde_json::Value;

use super::checks::{
    At, Check, Form, at_least, check_labels, check_port, check_unique, duplicate, is_missing, not_found,
    required, run, unsupported,
};
use super::ranges::check_address;
use crate::model::error::Cause;

pub(super) const POD: &[Check] = &[Check::Call(pod)];
pub(super) const CHANGES: &[Check] = &[Check::Call(changes)];

const RESTART: &[&str] = &["Always", "OnFailure", "Never"];
const DNS: &[&str] = &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
const PULL: &[&str] = &["Always", "IfNotPresent", "Never"];
const PROTOCOLS: &[&str] = &["SCTP", "TCP", "UDP"];
const EFFECTS: &[&str] = &["NoSchedule", "PreferNoSchedule", "NoExecute"];

fn pod(at: &At<'_>, causes: &mut Vec<Cause>) {
    check_spec(&at.part("spec"), causes);
}

/// The specification of a pod, or of a template's pods.
pub(super) fn check_spec(at: &At<'_>, causes: &mut Vec<Cause>) {
    let volumes = check_volumes(at, causes);
    check_containers(at, "containers", &volumes, causes);
    check_containers(at, "initContainers", &volumes, causes);
    run(at, &[Check::OneOf("restartPolicy", RESTART), Check::OneOf("dnsPolicy", DNS)], causes);
    check_labels(&at.at("nodeSelector"), at.get("nodeSelector"), causes);
    for (index, server) in at.items("dnsConfig.nameservers").iter().enumerate() {
        let server = server.as_str().unwrap_or_default();
        check_address(&at.at(&format!("dnsConfig.nameservers[{index}]")), server, causes);
    }
    run(
        at,
        &[Check::Form("serviceAccountName", Form::Subdomain), Check::Form("nodeName", Form::Subdomain)],
        causes,
    );
    if let Some(seconds) = at.number("activeDeadlineSeconds").filter(|seconds| *seconds < 1) {
        let why = "must be between 1 and 2147483647, inclusive";
        causes.push(Cause::invalid(&at.at("activeDeadlineSeconds"), &seconds.to_string(), why));
    }
    run(at, &[Check::Form("hostname", Form::Label), Check::Form("subdomain", Form::Label)], causes);
    for (index, item) in at.items("tolerations").iter().enumerate() {
        check_toleration(
            &At { value: item, old: None, path: at.at(&format!("tolerations[{index}]")) },
            causes,
        );
    }
    for (index, alias) in at.items("hostAliases").iter().enumerate() {
        let alias = At { value: alias, old: None, path: at.at(&format!("hostAliases[{index}]")) };
        check_address(&alias.at("ip"), alias.text("ip"), causes);
        for (place, name) in alias.items("hostnames").iter().filter_map(Value::as_str).enumerate() {
            Form::Subdomain.check(&alias.at(&format!("hostnames[{place}]")), name, causes);
        }
    }
}

/// Answers the names of the volumes.
fn check_volumes<'a>(at: &At<'a>, causes: &mut Vec<Cause>) -> HashSet<&'a str> {
    let mut names = HashSet::new();
    for (index, volume) in at.items("volumes").iter().enumerate() {
        let name = volume["name"].as_str().unwrap_or_default();
        let field = at.at(&format!("volumes[{index}].name"));
        if name.is_empty() {
            causes.push(required(&field, ""));
        } else if Form::Label.fits(name) {
            if !names.insert(name) {
                causes.push(duplicate(&field, &format!("{name:?}")));
            }
        } else {
            Form::Label.check(&field, name, causes);
        }
    }
    names
}

fn check_containers(at: &At<'_>, list: &str, volumes: &HashSet<&str>, causes: &mut Vec<Cause>) {
    let containers = at.items(list);
    if containers.is_empty() && list == "containers" {
        causes.push(required(&at.at(list), ""));
    }
    let mut names = HashSet::new();
    for (index, container) in containers.iter().enumerate() {
        let container = At { value: container, old: None, path: at.at(&format!("{list}[{index}]")) };
        let name = container.text("name");
        if name.is_empty() {
            causes.push(required(&container.at("name"), ""));
        } else {
            Form::Label.check(&container.at("name"), name, causes);
            if !names.insert(name) {
                causes.push(duplicate(&container.at("name"), &format!("{name:?}")));
            }
        }
        check_container(&container, volumes, causes);
    }
}

fn check_container(at: &At<'_>, volumes: &HashSet<&str>, causes: &mut Vec<Cause>) {
    if at.text("image").is_empty() {
        causes.push(required(&at.at("image"), ""));
    }
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if at.get(probe).is_some() {
            check_probe(&at.part(probe), causes);
        }
    }
    for (index, port) in at.items("ports").iter().enumerate() {
        check_container_port(&At { value: port, old: None, path: at.at(&format!("ports[{index}]")) }, causes);
    }
    check_unique(at, "ports", "name", causes);
    for (index, variable) in at.items("env").iter().enumerate() {
        if variable["name"].as_str().unwrap_or_default().is_empty() {
            causes.push(required(&at.at(&format!("env[{index}].name")), ""));
        }
    }
    for (index, mount) in at.items("volumeMounts").iter().enumerate() {
        let mount = At { value: mount, old: None, path: at.at(&format!("volumeMounts[{index}]")) };
        let name = mount.text("name");
        if name.is_empty() {
            causes.push(required(&mount.at("name"), ""));
        }
        if !volumes.contains(name) {
            causes.push(not_found(&mount.at("name"), name));
        }
        if mount.text("mountPath").is_empty() {
            causes.push(required(&mount.at("mountPath"), ""));
        }
    }
    run(at, &[Check::OneOf("imagePullPolicy", PULL)], causes);
    check_resources(&at.part("resources"), causes);
}

fn check_probe(at: &At<'_>, causes: &mut Vec<Cause>) {
    let handlers = ["exec", "httpGet", "tcpSocket", "grpc"];
    match handlers.iter().any(|handler| at.get(handler).is_some()) {
        true if at.get("exec").is_some() => {
            run(at, &[Check::In("exec", &[Check::Required("command", "")])], causes)
        }
        true => {}
        false => causes.push(required(&at.path, "must specify a handler type")),
    }
    let numbers = &[
        Check::Min("initialDelaySeconds", 0),
        Check::Min("timeoutSeconds", 0),
        Check::Min("periodSeconds", 0),
        Check::Min("successThreshold", 0),
        Check::Min("failureThreshold", 0),
    ];
    run(at, numbers, causes);
}

fn check_container_port(at: &At<'_>, causes: &mut Vec<Cause>) {
    run(at, &[Check::Form("name", Form::PortName)], causes);
    match at.number("containerPort").unwrap_or_default() {
        0 => causes.push(required(&at.at("containerPort"), "")),
        port => check_port(&at.at("containerPort"), port, causes),
    }
    if let Some(port) = at.number("hostPort").filter(|port| *port != 0) {
        check_port(&at.at("hostPort"), port, causes);
    }
    match at.text("protocol") {
        "" => causes.push(required(&at.at("protocol"), "")),
        other if !PROTOCOLS.contains(&other) => {
            causes.push(unsupported(&at.at("protocol"), other, PROTOCOLS));
        }
        _ => {}
    }
}

fn check_resources(at: &At<'_>, causes: &mut Vec<Cause>) {
    let amounts = |name: &str| at.get(name).and_then(Value::as_object);
    for list in ["limits", "requests"] {
        for (name, amount) in amounts(list).into_iter().flatten() {
            let amount = amount.as_str().unwrap_or_default();
            if amount.starts_with('-') {
                let field = at.at(&format!("{list}[{name}]"));
                causes.push(Cause::invalid(
                    &field,
                    &format!("{amount:?}"),
                    "must be greater than or equal to 0",
                ));
            }
        }
    }
    for (name, asked) in amounts("requests").into_iter().flatten() {
        let limit = amounts("limits").and_then(|limits| limits.get(name)?.as_str());
        let (Some(limit), Some(asked)) = (limit, asked.as_str()) else { continue };
        if crate::model::quantity::exceeds(asked, limit) {
            let why = format!("must be less than or equal to {name} limit of {limit}");
            causes.push(Cause::invalid(&at.at("requests"), &format!("{asked:?}"), &why));
        }
    }
}

fn check_toleration(at: &At<'_>, causes: &mut Vec<Cause>) {
    let (key, operator, value) = (at.text("key"), at.text("operator"), at.text("value"));
    if !key.is_empty() {
        Form::Qualified.check(&at.at("key"), key, causes);
    }
    if key.is_empty() && operator != "Exists" {
        let why =
            "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
        causes.push(Cause::invalid(&at.at("operator"), &format!("{operator:?}"), why));
    }
    match operator {
        "Exists" if !value.is_empty() => {
            let why = "value must be empty when `operator` is 'Exists'";
            causes.push(Cause::invalid(&at.at("operator"), &format!("{value:?}"), why));
        }
        "Exists" | "Equal" | "" => {}
        other => causes.push(unsupported(&at.at("operator"), other, &["Equal", "Exists"])),
    }
    run(at, &[Check::OneOf("effect", EFFECTS)], causes);
}

/// What an update of a pod may touch; the rest of its specification stays.
fn changes(at: &At<'_>, causes: &mut Vec<Cause>) {
    let (new, Some(old)) = (at.part("spec"), at.old.map(|old| &old["spec"])) else { return };
    let count = |spec: &Value, list: &str| spec[list].as_array().map_or(0, Vec::len);
    for list in ["containers", "initContainers"] {
        if count(new.value, list) != count(old, list) {
            let why = "pod updates may not add or remove containers";
            causes.push(Cause::forbidden(&at.at(&format!("spec.{list}")), why));
            return;
        }
    }
    let deadline = |spec: &Value| spec["activeDeadlineSeconds"].as_i64();
    match (deadline(new.value), deadline(old)) {
        (Some(new), Some(old)) if new > old => {
            let why = "must be less than or equal to previous value";
            causes.push(Cause::invalid("spec.activeDeadlineSeconds", &new.to_string(), why));
            return;
        }
        (None, Some(_)) => {
            causes.push(Cause::invalid(
                "spec.activeDeadlineSeconds",
                "null",
                "must not update from a positive integer to nil value",
            ));
            return;
        }
        _ => {}
    }
    if new.value != old && untouchable(new.value) != untouchable(old) {
        let why = "pod updates may not change fields other than \
                   `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,\
                   `spec.tolerations` (only additions to existing tolerations),\
                   `spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";
        causes.push(Cause::forbidden("spec", why));
    }
}

/// The specification without what may change.
fn untouchable(spec: &Value) -> Value {
    let mut spec = spec.clone();
    for list in ["containers", "initContainers"] {
        for container in spec[list].as_array_mut().into_iter().flatten() {
            container["image"] = Value::Null;
        }
    }
    for name in ["activeDeadlineSeconds", "tolerations", "schedulingGates"] {
        if let Some(spec) = spec.as_object_mut() {
            spec.remove(name);
        }
    }
    if let Some(spec) = spec.as_object_mut() {
        spec.retain(|_, value| !value.is_null());
    }
    spec
}

/// The template of a workload.
pub(super) fn check_template(at: &At<'_>, causes: &mut Vec<Cause>) {
    check_labels(&at.at("labels"), at.get("metadata.labels"), causes);
    check_spec(&at.part("spec"), causes);
}

/// Numbers that may not be negative, by the names of their fields.
pub(super) fn not_negative(at: &At<'_>, names: &[&str], causes: &mut Vec<Cause>) {
    for name in names {
        if let Some(number) = at.number(name).filter(|number| *number < 0) {
            causes.push(at_least(&at.at(name), number, 0));
        }
    }
}

/// The labels of a template, as errors show them.
pub(super) fn shown_labels(at: &At<'_>) -> String {
    match at.get("metadata.labels") {
        Some(labels) if !is_missing(Some(labels)) => labels.to_string(),
        _ => "null".to_owned(),
    }
}

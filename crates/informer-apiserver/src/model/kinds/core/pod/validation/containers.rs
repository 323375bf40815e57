//! Validation of containers, init containers and ephemeral containers.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use crate::model::cause::{Cause, Causes};
use crate::model::rules::checks::{
    Check, FieldView, NameFormat, check_port, duplicate, is_missing, not_found, required, run, unsupported,
};
use crate::model::rules::field_path::FieldPath;

use super::volumes::{check_relative_path, has_backsteps};
use super::{PodParts, SpecOwner, environment, probes, resources, security};

const PULL: &[&str] = &["Always", "IfNotPresent", "Never"];
const PROTOCOLS: &[&str] = &["SCTP", "TCP", "UDP"];

/// Validates all containers of a pod.
pub(super) fn check(spec: &FieldView<'_, '_>, pod: &PodParts<'_>, causes: &mut Causes) {
    if spec.items("containers").is_empty() {
        causes.push(required(&spec.field_path("containers"), ""));
    }
    let mut names = HashSet::new();
    let mut host_ports = HashSet::new();
    for container in spec.elements("containers") {
        check_common(&container, pod, causes);
        check_name_is_new(&container, &mut names, causes);
        check_restart_policy(&container, causes);
        probes::check(&container, pod.grace_period, causes);
        check_host_ports(&container, &mut host_ports, causes);
    }
    for container in spec.elements("initContainers") {
        check_common(&container, pod, causes);
        check_restart_policy(&container, causes);
        if container.text("restartPolicy") == "Always" {
            probes::check(&container, pod.grace_period, causes);
        } else {
            for name in ["lifecycle"].into_iter().chain(probes::PROBES) {
                if container.get(name).is_some() {
                    let why = "may not be set for init containers without restartPolicy=Always";
                    causes.push(Cause::forbidden(&container.field_path(name), why));
                }
            }
            for policy in container.elements("resizePolicy") {
                if policy.text("restartPolicy") == "RestartContainer" {
                    let why = "must not be set to 'RestartContainer' for non-sidecar initContainers";
                    let field = policy.field_path("restartPolicy");
                    causes.push(Cause::invalid(&field, "\"RestartContainer\"", why));
                }
            }
        }
        // kube-apiserver does not compare init containers without a name with each other.
        let has_unnamed = names.contains("");
        check_name_is_new(&container, &mut names, causes);
        if !has_unnamed {
            names.remove("");
        }
        // Init containers run one after another, so their host ports may be equal.
        check_host_ports(&container, &mut HashSet::new(), causes);
    }
    let others = if spec.items("ephemeralContainers").is_empty() { HashSet::new() } else { names.clone() };
    for container in spec.elements("ephemeralContainers") {
        check_common(&container, pod, causes);
        check_name_is_new(&container, &mut names, causes);
        check_ephemeral(&container, &others, causes);
    }
}

fn check_name_is_new<'a>(at: &FieldView<'a, '_>, names: &mut HashSet<&'a str>, causes: &mut Causes) {
    let name = at.text("name");
    if !names.insert(name) {
        causes.push(duplicate(&at.field_path("name"), &format!("{name:?}")));
    }
}

/// Applies the rules that all kinds of containers share.
fn check_common(at: &FieldView<'_, '_>, pod: &PodParts<'_>, causes: &mut Causes) {
    match at.text("name") {
        "" => causes.push(required(&at.field_path("name"), "")),
        name => NameFormat::Label.check(&at.field_path("name"), name, causes),
    }
    check_image(at, pod.owner, causes);
    match at.text("terminationMessagePolicy") {
        "File" | "FallbackToLogsOnError" => {}
        "" => causes.push(required(&at.field_path("terminationMessagePolicy"), "")),
        other => {
            let known = ["File", "FallbackToLogsOnError"];
            causes.push(unsupported(&at.field_path("terminationMessagePolicy"), other, &known));
        }
    }
    check_ports(at, causes);
    environment::check(at, causes);
    check_mounts(at, pod, causes);
    check_devices(at, pod, causes);
    run(at, &[Check::OneOf("imagePullPolicy", PULL)], causes);
    resources::check_container(&at.part("resources"), pod, causes);
    check_resize_policy(at, pod.restart_policy, causes);
    security::check_container(&at.part("securityContext"), pod.shares_host_users, causes);
}

pub(super) fn check_image(at: &FieldView<'_, '_>, owner: SpecOwner, causes: &mut Causes) {
    let image = at.text("image");
    if image.is_empty() {
        causes.push(required(&at.field_path("image"), ""));
    } else if owner == SpecOwner::Pod && image.trim() != image {
        let why = "must not have leading or trailing whitespace";
        causes.push(Cause::invalid(&at.field_path("image"), &format!("{image:?}"), why));
    }
}

fn check_ports(at: &FieldView<'_, '_>, causes: &mut Causes) {
    let mut names = HashSet::new();
    for port in at.elements("ports") {
        let name = port.text("name");
        if !name.is_empty() {
            if !NameFormat::PortName.is_valid(name) {
                NameFormat::PortName.check(&port.field_path("name"), name, causes);
            } else if !names.insert(name) {
                causes.push(duplicate(&port.field_path("name"), &format!("{name:?}")));
            }
        }
        match port.number("containerPort").unwrap_or_default() {
            0 => causes.push(required(&port.field_path("containerPort"), "")),
            number => check_port(&port.field_path("containerPort"), number, causes),
        }
        if let Some(number) = port.number("hostPort").filter(|number| *number != 0) {
            check_port(&port.field_path("hostPort"), number, causes);
        }
        match port.text("protocol") {
            "" => causes.push(required(&port.field_path("protocol"), "")),
            other if !PROTOCOLS.contains(&other) => {
                causes.push(unsupported(&port.field_path("protocol"), other, PROTOCOLS));
            }
            _ => {}
        }
    }
}

/// Protocol, host IP and number of a host port.
type HostPort<'a> = (&'a str, &'a str, i64);

fn check_host_ports<'a>(at: &FieldView<'a, '_>, taken: &mut HashSet<HostPort<'a>>, causes: &mut Causes) {
    for port in at.elements("ports") {
        let Some(number) = port.number("hostPort").filter(|number| *number != 0) else { continue };
        let (protocol, address) = (port.text("protocol"), port.text("hostIP"));
        if !taken.insert((protocol, address, number)) {
            let shown = format!("\"{protocol}/{address}/{number}\"");
            causes.push(duplicate(&port.field_path("hostPort"), &shown));
        }
    }
}

/// Returns the last path of each volume in a list of mounts or devices.
fn paths_by_name<'a>(at: &FieldView<'a, '_>, list: &str, path: &str) -> HashMap<&'a str, &'a str> {
    let text = |item: &'a Value, name: &str| item[name].as_str().unwrap_or_default();
    at.items(list).iter().map(|item| (text(item, "name"), text(item, path))).collect()
}

fn check_mounts(at: &FieldView<'_, '_>, pod: &PodParts<'_>, causes: &mut Causes) {
    let devices = paths_by_name(at, "volumeDevices", "devicePath");
    let device_paths: HashSet<&str> = devices.values().copied().collect();
    let all = at.field_path("volumeMounts");
    let mut paths = HashSet::new();
    for mount in at.elements("volumeMounts") {
        let invalid = |name: &str, why: &str| {
            Cause::invalid(&mount.field_path(name), &format!("{:?}", mount.text(name)), why)
        };
        let (name, path) = (mount.text("name"), mount.text("mountPath"));
        if name.is_empty() {
            causes.push(required(&mount.field_path("name"), ""));
        }
        if !pod.volumes.contains_key(name) {
            causes.push(not_found(&mount.field_path("name"), name));
        }
        if path.is_empty() {
            causes.push(required(&mount.field_path("mountPath"), ""));
        }
        if !paths.insert(path) {
            causes.push(invalid("mountPath", "must be unique"));
        }
        if devices.contains_key(name) {
            causes.push(invalid("name", "must not already exist in volumeDevices"));
        }
        if device_paths.contains(path) {
            causes.push(invalid("mountPath", "must not already exist as a path in volumeDevices"));
        }
        // As in kube-apiserver, the errors for `subPath`, `subPathExpr`, `mountPropagation` and
        // `recursiveReadOnly` omit the index of the mount. The error for both sub-paths has it.
        let (sub_path, expression) = (mount.text("subPath"), mount.text("subPathExpr"));
        if !sub_path.is_empty() {
            check_relative_path(&all.field("subPath"), sub_path, causes);
        }
        if !expression.is_empty() {
            if !sub_path.is_empty() {
                causes.push(invalid("subPathExpr", "subPathExpr and subPath are mutually exclusive"));
            }
            check_relative_path(&all.field("subPathExpr"), expression, causes);
        }
        check_propagation(at, &mount, &all, causes);
    }
}

/// Validates `mountPropagation` and `recursiveReadOnly` of a mount.
fn check_propagation(
    at: &FieldView<'_, '_>,
    mount: &FieldView<'_, '_>,
    all: &FieldPath<'_>,
    causes: &mut Causes,
) {
    let propagation = mount.get("mountPropagation").and_then(Value::as_str);
    let field = all.field("mountPropagation");
    match propagation {
        None | Some("None" | "HostToContainer") => {}
        Some("Bidirectional") if at.get("securityContext.privileged") == Some(&Value::Bool(true)) => {}
        Some("Bidirectional") => {
            let why = "Bidirectional mount propagation is available only to privileged containers";
            causes.push(Cause::forbidden(&field, why));
        }
        Some(other) => {
            causes.push(unsupported(&field, other, &["Bidirectional", "HostToContainer", "None"]));
        }
    }
    let field = all.field("recursiveReadOnly");
    match mount.get("recursiveReadOnly").and_then(Value::as_str) {
        None | Some("Disabled") => {}
        Some("Enabled" | "IfPossible") => {
            if mount.get("readOnly") != Some(&Value::Bool(true)) {
                let why = "may only be specified when readOnly is true";
                causes.push(Cause::forbidden(&field, why));
            }
            if propagation.is_some_and(|propagation| propagation != "None") {
                let why = "may only be specified when mountPropagation is None or not specified";
                causes.push(Cause::forbidden(&field, why));
            }
        }
        Some(other) => causes.push(unsupported(&field, other, &["Disabled", "Enabled", "IfPossible"])),
    }
}

fn check_devices(at: &FieldView<'_, '_>, pod: &PodParts<'_>, causes: &mut Causes) {
    if at.items("volumeDevices").is_empty() {
        return;
    }
    let mounts = paths_by_name(at, "volumeMounts", "mountPath");
    let mount_paths: HashSet<&str> = mounts.values().copied().collect();
    let (mut names, mut paths) = (HashSet::new(), HashSet::new());
    for device in at.elements("volumeDevices") {
        let (name, path) = (device.text("name"), device.text("devicePath"));
        let invalid = |field: &str, why: &str| {
            Cause::invalid(&device.field_path(field), &format!("{:?}", device.text(field)), why)
        };
        if name.is_empty() {
            causes.push(required(&device.field_path("name"), ""));
        }
        if names.contains(name) {
            causes.push(invalid("name", "must be unique"));
        }
        match pod.volumes.get(name) {
            None => causes.push(not_found(&device.field_path("name"), name)),
            Some(volume)
                if !["persistentVolumeClaim", "ephemeral"].iter().any(|claim| volume[claim].is_object()) =>
            {
                let why =
                    "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode";
                causes.push(invalid("name", why));
            }
            Some(_) => {}
        }
        if path.is_empty() {
            causes.push(required(&device.field_path("devicePath"), ""));
        }
        if paths.contains(path) {
            causes.push(invalid("devicePath", "must be unique"));
        }
        if has_backsteps(path) {
            causes.push(invalid("devicePath", "can not contain backsteps ('..')"));
        } else {
            paths.insert(path);
        }
        if mounts.contains_key(name) {
            causes.push(invalid("name", "must not already exist in volumeMounts"));
        }
        if mount_paths.contains(path) {
            causes.push(invalid("devicePath", "must not already exist as a path in volumeMounts"));
        }
        if !name.is_empty() {
            names.insert(name);
        }
    }
}

fn check_resize_policy(at: &FieldView<'_, '_>, restart_policy: &str, causes: &mut Causes) {
    let field = at.field_path("resizePolicy");
    let mut seen = HashSet::new();
    for policy in at.elements("resizePolicy") {
        let (resource, restart) = (policy.text("resourceName"), policy.text("restartPolicy"));
        if !seen.insert(resource) {
            causes.push(duplicate(&policy.path, &format!("{resource:?}")));
        }
        match resource {
            "cpu" | "memory" => {}
            "" => causes.push(required(&field, "")),
            other => causes.push(unsupported(&field, other, &["cpu", "memory"])),
        }
        match restart {
            "NotRequired" | "RestartContainer" => {}
            "" => causes.push(required(&field, "")),
            other => causes.push(unsupported(&field, other, &["NotRequired", "RestartContainer"])),
        }
        if restart_policy == "Never" && restart != "NotRequired" {
            let why = "must be 'NotRequired' when pod `restartPolicy` is 'Never'";
            causes.push(Cause::invalid(&field, &format!("{restart:?}"), why));
        }
    }
}

/// The maximum number of restart rules of a container, and of exit codes of a rule, as in kube-apiserver.
const MAX_RESTART_RULES: usize = 20;
const MAX_EXIT_CODES: usize = 255;

fn check_restart_policy(at: &FieldView<'_, '_>, causes: &mut Causes) {
    let rules = at.items("restartPolicyRules");
    let field = at.field_path("restartPolicy");
    match at.get("restartPolicy").and_then(Value::as_str) {
        None if rules.is_empty() => {}
        None => causes.push(required(&field, "must specify restartPolicy when restart rules are used")),
        Some("Always" | "Never" | "OnFailure") => {}
        Some(other) => causes.push(unsupported(&field, other, &["Always", "Never", "OnFailure"])),
    }
    if rules.len() > MAX_RESTART_RULES {
        causes.push(Cause::too_many(&at.field_path("restartPolicyRules"), rules.len(), MAX_RESTART_RULES));
    }
    for rule in at.elements("restartPolicyRules") {
        match rule.text("action") {
            "Restart" | "RestartAllContainers" => {}
            other => {
                let known = ["Restart", "RestartAllContainers"];
                causes.push(unsupported(&rule.field_path("action"), other, &known));
            }
        }
        let codes = rule.part("exitCodes");
        if codes.value.is_null() {
            causes.push(required(&codes.path, "must be specified"));
            continue;
        }
        match codes.text("operator") {
            "In" | "NotIn" => {}
            other => causes.push(unsupported(&codes.field_path("operator"), other, &["In", "NotIn"])),
        }
        let values = codes.items("values").len();
        if values > MAX_EXIT_CODES {
            causes.push(Cause::too_many(&codes.field_path("values"), values, MAX_EXIT_CODES));
        }
    }
}

/// The fields of ephemeral containers that kube-apiserver allows.
const EPHEMERAL_FIELDS: [&str; 17] = [
    "name",
    "image",
    "command",
    "args",
    "workingDir",
    "env",
    "envFrom",
    "volumeMounts",
    "volumeDevices",
    "terminationMessagePath",
    "terminationMessagePolicy",
    "imagePullPolicy",
    "securityContext",
    "stdin",
    "stdinOnce",
    "tty",
    "targetContainerName",
];

fn check_ephemeral(at: &FieldView<'_, '_>, others: &HashSet<&str>, causes: &mut Causes) {
    const FORBIDDEN: &str = "cannot be set for an Ephemeral Container";
    let target = at.text("targetContainerName");
    if !target.is_empty() && !others.contains(target) {
        causes.push(not_found(&at.field_path("targetContainerName"), target));
    }
    for (name, value) in at.value.as_object().into_iter().flatten() {
        let is_empty = is_missing(Some(value));
        if !is_empty && !EPHEMERAL_FIELDS.contains(&name.as_str()) {
            causes.push(Cause::forbidden(&at.field_path(name), FORBIDDEN));
        }
    }
    for mount in at.elements("volumeMounts") {
        for name in ["subPath", "subPathExpr"].into_iter().filter(|name| !mount.text(name).is_empty()) {
            causes.push(Cause::forbidden(&mount.field_path(name), FORBIDDEN));
        }
    }
}

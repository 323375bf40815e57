//! Validation of Pods and pod templates.

use std::collections::HashSet;

use serde_json::Value;

use crate::model::cause::Cause;
use crate::model::rules::checks::{
    Check, FieldView, NameFormat, check_labels, check_port, check_unique, duplicate, is_missing, not_found,
    required, run, unsupported,
};
use crate::model::rules::ranges::check_address;
use crate::model::rules::resources::{check_container_resource_name, check_resource_quantity};
use crate::model::rules::scheduling::{check_node_selector, check_toleration};

pub(crate) const POD: &[Check] = &[Check::Call(pod)];
pub(crate) const CHANGES: &[Check] = &[Check::Call(changes)];
const RESTART: &[&str] = &["Always", "OnFailure", "Never"];
const DNS: &[&str] = &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
const PULL: &[&str] = &["Always", "IfNotPresent", "Never"];
const PROTOCOLS: &[&str] = &["SCTP", "TCP", "UDP"];

fn pod(at: &FieldView<'_>, causes: &mut Vec<Cause>) {
    check_spec(&at.part("spec"), causes);
}

fn check_spec(at: &FieldView<'_>, causes: &mut Vec<Cause>) {
    let volumes = check_volumes(at, causes);
    check_containers(at, "containers", &volumes, causes);
    check_containers(at, "initContainers", &volumes, causes);
    run(at, &[Check::OneOf("restartPolicy", RESTART), Check::OneOf("dnsPolicy", DNS)], causes);
    run(at, &[Check::In("os", &[Check::OneOf("name", &["linux", "windows"])])], causes);
    check_labels(&at.field_path("nodeSelector"), at.get("nodeSelector"), causes);
    for (index, server) in at.items("dnsConfig.nameservers").iter().enumerate() {
        let server = server.as_str().unwrap_or_default();
        check_address(&at.field_path(&format!("dnsConfig.nameservers[{index}]")), server, causes);
    }
    run(
        at,
        &[
            Check::NameFormat("serviceAccountName", NameFormat::Subdomain),
            Check::NameFormat("nodeName", NameFormat::Subdomain),
        ],
        causes,
    );
    if let Some(seconds) = at.number("activeDeadlineSeconds").filter(|seconds| *seconds < 1) {
        let why = "must be between 1 and 2147483647, inclusive";
        causes.push(Cause::invalid(&at.field_path("activeDeadlineSeconds"), &seconds.to_string(), why));
    }
    run(
        at,
        &[
            Check::NameFormat("hostname", NameFormat::Label),
            Check::NameFormat("subdomain", NameFormat::Label),
        ],
        causes,
    );
    let affinity = at.part("affinity.nodeAffinity");
    let required_terms = affinity.part("requiredDuringSchedulingIgnoredDuringExecution");
    if required_terms.value.is_object() {
        check_node_selector(&required_terms, causes);
    }
    for (index, item) in at.items("tolerations").iter().enumerate() {
        check_toleration(
            &FieldView { value: item, old: None, path: at.field_path(&format!("tolerations[{index}]")) },
            causes,
        );
    }
    for (index, alias) in at.items("hostAliases").iter().enumerate() {
        let alias =
            FieldView { value: alias, old: None, path: at.field_path(&format!("hostAliases[{index}]")) };
        check_address(&alias.field_path("ip"), alias.text("ip"), causes);
        for (place, name) in alias.items("hostnames").iter().filter_map(Value::as_str).enumerate() {
            NameFormat::Subdomain.check(&alias.field_path(&format!("hostnames[{place}]")), name, causes);
        }
    }
}

/// The sources of a volume in the order in which kube-apiserver validates them, and their names in errors.
const SOURCES: [(&str, &str); 29] = [
    ("emptyDir", "emptyDir"),
    ("hostPath", "hostPath"),
    ("gitRepo", "gitRepo"),
    ("gcePersistentDisk", "persistentDisk"),
    ("awsElasticBlockStore", "awsElasticBlockStore"),
    ("secret", "secret"),
    ("nfs", "nfs"),
    ("iscsi", "iscsi"),
    ("glusterfs", "glusterfs"),
    ("flocker", "flocker"),
    ("persistentVolumeClaim", "persistentVolumeClaim"),
    ("rbd", "rbd"),
    ("cinder", "cinder"),
    ("cephfs", "cephFS"),
    ("quobyte", "quobyte"),
    ("downwardAPI", "downwarAPI"),
    ("fc", "fc"),
    ("flexVolume", "flexVolume"),
    ("configMap", "configMap"),
    ("azureFile", "azureFile"),
    ("vsphereVolume", "vsphereVolume"),
    ("photonPersistentDisk", "photonPersistentDisk"),
    ("portworxVolume", "portworxVolume"),
    ("azureDisk", "azureDisk"),
    ("storageos", "storageos"),
    ("projected", "projected"),
    ("scaleIO", "scaleIO"),
    ("csi", "csi"),
    ("ephemeral", "ephemeral"),
];

fn check_volumes<'a>(at: &FieldView<'a>, causes: &mut Vec<Cause>) -> HashSet<&'a str> {
    let mut names = HashSet::new();
    for (index, volume) in at.items("volumes").iter().enumerate() {
        let name = volume["name"].as_str().unwrap_or_default();
        let path = at.field_path(&format!("volumes[{index}]"));
        let field = format!("{path}.name");
        let sources = SOURCES.iter().filter(|(source, _)| volume[source].is_object());
        let second = sources.skip(1).map(|(_, shown)| {
            Cause::forbidden(&format!("{path}.{shown}"), "may not specify more than 1 volume type")
        });
        let known = causes.len();
        causes.extend(second);
        if causes.len() > known {
            // Volume mounts of this volume are errors, too.
            continue;
        }
        let claim = &volume["persistentVolumeClaim"];
        if claim.is_object() && claim["claimName"].as_str().unwrap_or_default().is_empty() {
            causes.push(required(&format!("{path}.persistentVolumeClaim.claimName"), ""));
        }
        if name.is_empty() {
            causes.push(required(&field, ""));
        } else if NameFormat::Label.is_valid(name) {
            if !names.insert(name) {
                causes.push(duplicate(&field, &format!("{name:?}")));
            }
        } else {
            NameFormat::Label.check(&field, name, causes);
        }
    }
    names
}

fn check_containers(at: &FieldView<'_>, list: &str, volumes: &HashSet<&str>, causes: &mut Vec<Cause>) {
    let containers = at.items(list);
    if containers.is_empty() && list == "containers" {
        causes.push(required(&at.field_path(list), ""));
    }
    let mut names = HashSet::new();
    for (index, container) in containers.iter().enumerate() {
        let container =
            FieldView { value: container, old: None, path: at.field_path(&format!("{list}[{index}]")) };
        let name = container.text("name");
        if name.is_empty() {
            causes.push(required(&container.field_path("name"), ""));
        } else {
            NameFormat::Label.check(&container.field_path("name"), name, causes);
            if !names.insert(name) {
                causes.push(duplicate(&container.field_path("name"), &format!("{name:?}")));
            }
        }
        check_container(&container, volumes, causes);
    }
}

fn check_container(at: &FieldView<'_>, volumes: &HashSet<&str>, causes: &mut Vec<Cause>) {
    if at.text("image").is_empty() {
        causes.push(required(&at.field_path("image"), ""));
    }
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if at.get(probe).is_some() {
            check_probe(&at.part(probe), causes);
        }
    }
    for (index, port) in at.items("ports").iter().enumerate() {
        check_container_port(
            &FieldView { value: port, old: None, path: at.field_path(&format!("ports[{index}]")) },
            causes,
        );
    }
    check_unique(at, "ports", "name", causes);
    for (index, variable) in at.items("env").iter().enumerate() {
        let field = at.field_path(&format!("env[{index}].name"));
        match variable["name"].as_str().unwrap_or_default() {
            "" => causes.push(required(&field, "")),
            name if !name.bytes().all(|byte| matches!(byte, b' '..=b'~') && byte != b'=') => {
                let why = "a valid environment variable name must consist only of printable ASCII characters \
                           other than '='";
                causes.push(Cause::invalid(&field, &format!("{name:?}"), why));
            }
            _ => {}
        }
    }
    for hook in ["postStart", "preStop"] {
        for handler in ["httpGet", "tcpSocket"] {
            let handler = at.part("lifecycle").part(hook).part(handler);
            if handler.value.is_object() {
                check_handler_port(&handler, causes);
            }
        }
    }
    let mut paths = HashSet::new();
    for (index, mount) in at.items("volumeMounts").iter().enumerate() {
        let mount =
            FieldView { value: mount, old: None, path: at.field_path(&format!("volumeMounts[{index}]")) };
        let name = mount.text("name");
        if name.is_empty() {
            causes.push(required(&mount.field_path("name"), ""));
        }
        if !volumes.contains(name) {
            causes.push(not_found(&mount.field_path("name"), name));
        }
        let path = mount.text("mountPath");
        if path.is_empty() {
            causes.push(required(&mount.field_path("mountPath"), ""));
        }
        if !paths.insert(path) {
            let shown = format!("{path:?}");
            causes.push(Cause::invalid(&mount.field_path("mountPath"), &shown, "must be unique"));
        }
    }
    run(at, &[Check::OneOf("imagePullPolicy", PULL)], causes);
    run(at, &[Check::OneOf("restartPolicy", &["Always", "Never", "OnFailure"])], causes);
    check_resources(&at.part("resources"), causes);
}

fn check_probe(at: &FieldView<'_>, causes: &mut Vec<Cause>) {
    let handlers = ["exec", "httpGet", "tcpSocket", "grpc"];
    let given = handlers.iter().filter(|handler| at.get(handler).is_some());
    for handler in given.skip(1) {
        causes.push(Cause::forbidden(&at.field_path(handler), "may not specify more than 1 handler type"));
    }
    for handler in ["httpGet", "tcpSocket"] {
        if at.get(handler).is_some() {
            check_handler_port(&at.part(handler), causes);
        }
    }
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

/// Validates the port of a probe or a lifecycle hook: a number, or the name of a container port.
fn check_handler_port(at: &FieldView<'_>, causes: &mut Vec<Cause>) {
    let field = at.field_path("port");
    match at.get("port") {
        Some(Value::String(name)) => NameFormat::PortName.check(&field, name, causes),
        port => check_port(&field, port.and_then(Value::as_i64).unwrap_or_default(), causes),
    }
    if at.path.ends_with("httpGet") {
        run(at, &[Check::OneOf("scheme", &["HTTP", "HTTPS"])], causes);
    }
}

fn check_container_port(at: &FieldView<'_>, causes: &mut Vec<Cause>) {
    run(at, &[Check::NameFormat("name", NameFormat::PortName)], causes);
    match at.number("containerPort").unwrap_or_default() {
        0 => causes.push(required(&at.field_path("containerPort"), "")),
        port => check_port(&at.field_path("containerPort"), port, causes),
    }
    if let Some(port) = at.number("hostPort").filter(|port| *port != 0) {
        check_port(&at.field_path("hostPort"), port, causes);
    }
    match at.text("protocol") {
        "" => causes.push(required(&at.field_path("protocol"), "")),
        other if !PROTOCOLS.contains(&other) => {
            causes.push(unsupported(&at.field_path("protocol"), other, PROTOCOLS));
        }
        _ => {}
    }
}

fn check_resources(at: &FieldView<'_>, causes: &mut Vec<Cause>) {
    let amounts = |name: &str| at.get(name).and_then(Value::as_object);
    for list in ["limits", "requests"] {
        for (name, amount) in amounts(list).into_iter().flatten() {
            let field = at.field_path(&format!("{list}[{name}]"));
            check_container_resource_name(&field, name, causes);
            check_resource_quantity(&field, name, amount.as_str().unwrap_or_default(), causes);
        }
    }
    for (name, asked) in amounts("requests").into_iter().flatten() {
        let limit = amounts("limits").and_then(|limits| limits.get(name)?.as_str());
        let (Some(limit), Some(asked)) = (limit, asked.as_str()) else { continue };
        if crate::model::quantity::exceeds(asked, limit) {
            let why = format!("must be less than or equal to {name} limit of {limit}");
            causes.push(Cause::invalid(&at.field_path("requests"), &format!("{asked:?}"), &why));
        }
    }
}

/// Rejects a Pod update that changes fields other than the mutable ones.
fn changes(at: &FieldView<'_>, causes: &mut Vec<Cause>) {
    let (new, Some(old)) = (at.part("spec"), at.old.map(|old| &old["spec"])) else { return };
    let count = |spec: &Value, list: &str| spec[list].as_array().map_or(0, Vec::len);
    for list in ["containers", "initContainers"] {
        if count(new.value, list) != count(old, list) {
            let why = "pod updates may not add or remove containers";
            causes.push(Cause::forbidden(&at.field_path(&format!("spec.{list}")), why));
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
    if new.value != old && without_mutable_fields(new.value) != without_mutable_fields(old) {
        let why = "pod updates may not change fields other than \
                   `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,\
                   `spec.tolerations` (only additions to existing tolerations),\
                   `spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";
        causes.push(Cause::forbidden("spec", why));
    }
}

fn without_mutable_fields(spec: &Value) -> Value {
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

pub(crate) fn check_template(at: &FieldView<'_>, causes: &mut Vec<Cause>) {
    check_labels(&at.field_path("labels"), at.get("metadata.labels"), causes);
    check_spec(&at.part("spec"), causes);
}

pub(crate) fn shown_labels(at: &FieldView<'_>) -> String {
    match at.get("metadata.labels") {
        Some(labels) if !is_missing(Some(labels)) => labels.to_string(),
        _ => "null".to_owned(),
    }
}

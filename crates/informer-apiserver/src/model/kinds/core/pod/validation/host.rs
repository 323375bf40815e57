//! Validation of pods that use namespaces or names of their host.

use crate::model::cause::{Cause, Causes};
use crate::model::rules::checks::{FieldView, NameFormat};

use super::{SpecOwner, all_containers};

/// Validates the ports of the containers if the pod uses the host's network.
pub(super) fn check_ports(spec: &FieldView<'_, '_>, owner: SpecOwner, causes: &mut Causes) {
    if !spec.is_true("hostNetwork") {
        return;
    }
    for container in spec.elements("containers") {
        container.elements("ports").for_each(|port| check_host_port(&port, owner, causes));
    }
}

fn check_host_port(port: &FieldView<'_, '_>, owner: SpecOwner, causes: &mut Causes) {
    let number = |name: &str| port.number(name).unwrap_or_default();
    let (host, inner) = (number("hostPort"), number("containerPort"));
    // A template may omit host ports: they are defaulted when its pods are created.
    if host != inner && (owner == SpecOwner::Pod || host != 0) {
        let why = "must match `containerPort` when `hostNetwork` is true";
        causes.push(Cause::invalid(&port.field_path("hostPort"), &host.to_string(), why));
    }
}

/// Validates containers that run on a Windows host without isolation.
pub(super) fn check_host_process(spec: &FieldView<'_, '_>, causes: &mut Causes) {
    const FIELD: &str = "securityContext.windowsOptions.hostProcess";
    let pod = spec.get(FIELD).and_then(serde_json::Value::as_bool);
    let (mut all, mut on_host) = (0, 0);
    for container in all_containers(spec) {
        let own = container.get(FIELD).and_then(serde_json::Value::as_bool);
        if let (Some(pod), Some(own)) = (pod, own)
            && pod != own
        {
            let why = format!("pod hostProcess value must be identical if both are specified, was {pod}");
            causes.push(Cause::invalid(&container.field_path(FIELD), &own.to_string(), &why));
        }
        all += 1;
        on_host += usize::from(own.or(pod).unwrap_or_default());
    }
    if on_host == 0 {
        return;
    }
    if on_host != all {
        let why =
            "If pod contains any hostProcess containers then all containers must be HostProcess containers";
        causes.push(Cause::invalid(&spec.path, "\"\"", why));
    }
    if !spec.is_true("hostNetwork") {
        let why = "hostNetwork must be true if pod contains any hostProcess containers";
        causes.push(Cause::invalid(&spec.field_path("hostNetwork"), "false", why));
    }
}

const USER_NAMESPACE: &str = "when `hostUsers` is false";

/// Validates pods with a user namespace, which cannot share other namespaces with the host.
pub(super) fn check_users(spec: &FieldView<'_, '_>, causes: &mut Causes) {
    if !has_user_namespace(spec) {
        return;
    }
    if spec.old.is_some() {
        check_disabled_combinations(spec, causes);
    }
    // As in kube-apiserver, the paths contain the Go names of the fields.
    for (name, shown) in [("hostPID", "HostPID"), ("hostIPC", "HostIPC")] {
        if spec.is_true(name) {
            causes.push(Cause::forbidden(&spec.field_path(shown), USER_NAMESPACE));
        }
    }
}

/// Rejects the network of the host and volume devices in a pod with a user namespace, unless the stored pod
/// has them. The feature gate UserNamespacesHostNetworkSupport is off by default, and earlier versions of
/// kube-apiserver accepted volume devices, so stored pods may have them.
pub(super) fn check_disabled_combinations(spec: &FieldView<'_, '_>, causes: &mut Causes) {
    if !has_user_namespace(spec) {
        return;
    }
    let old = stored(spec).filter(has_user_namespace);
    if spec.is_true("hostNetwork") && !old.as_ref().is_some_and(|old| old.is_true("hostNetwork")) {
        causes.push(Cause::forbidden(&spec.field_path("hostNetwork"), USER_NAMESPACE));
    }
    if old.is_none_or(|old| devices(&old).next().is_none()) {
        causes.extend(devices(spec).map(|field| Cause::forbidden(&field, USER_NAMESPACE)));
    }
}

fn has_user_namespace(spec: &FieldView<'_, '_>) -> bool {
    spec.get("hostUsers") == Some(&serde_json::Value::Bool(false))
}

/// Returns the paths of the volume devices of all containers.
fn devices(spec: &FieldView<'_, '_>) -> impl Iterator<Item = String> {
    let with_devices = all_containers(spec).filter(|container| !container.items("volumeDevices").is_empty());
    with_devices.map(|container| container.field_path("volumeDevices").to_string())
}

/// Returns the stored spec that an update replaces.
pub(super) fn stored<'v, 'p>(spec: &FieldView<'v, 'p>) -> Option<FieldView<'v, 'p>> {
    spec.old.map(|old| FieldView { value: old, old: None, path: spec.path })
}

/// The maximum length of the host name of a pod in bytes, as in the Linux kernel.
const MAX_HOSTNAME_BYTES: usize = 64;

pub(super) fn check_hostname(spec: &FieldView<'_, '_>, causes: &mut Causes) {
    if spec.get("hostnameOverride").is_none() {
        return;
    }
    let (field, name) = (spec.field_path("hostnameOverride"), spec.text("hostnameOverride"));
    for other in ["setHostnameAsFQDN", "hostNetwork"].into_iter().filter(|other| spec.is_true(other)) {
        causes.push(Cause::forbidden(&field, &format!("may not be specified when {other} is true")));
    }
    if name.len() > MAX_HOSTNAME_BYTES {
        causes.push(Cause::too_long(&field, MAX_HOSTNAME_BYTES));
    }
    NameFormat::Subdomain.check(&field, name, causes);
}

/// Returns the error for a sysctl of a namespace that the pod shares with its host.
pub(super) fn sysctl_problem(spec: &FieldView<'_, '_>, name: &str) -> Option<&'static str> {
    match namespace_of(&normalized(name)) {
        Some("net") if spec.is_true("hostNetwork") => Some("may not be specified when 'hostNetwork' is true"),
        Some("ipc") if spec.is_true("hostIPC") => Some("may not be specified when 'hostIPC' is true"),
        _ => None,
    }
}

/// Returns the name of a sysctl with dots between its parts. In a name whose first separator is a slash, dots
/// and slashes have changed places.
fn normalized(name: &str) -> String {
    match name.find(['.', '/']) {
        Some(first) if name[first..].starts_with('/') => name
            .chars()
            .map(|char| match char {
                '.' => '/',
                '/' => '.',
                other => other,
            })
            .collect(),
        _ => name.to_owned(),
    }
}

/// The sysctls that are private to an IPC namespace.
const IPC_SYSCTLS: [&str; 10] = [
    "kernel.msg",
    "kernel.msgmax",
    "kernel.msgmnb",
    "kernel.msgmni",
    "kernel.sem",
    "kernel.shm",
    "kernel.shm_rmid_forced",
    "kernel.shmall",
    "kernel.shmmax",
    "kernel.shmmni",
];

/// Returns the kernel namespace of a sysctl, or `None` if the sysctl belongs to the whole host.
fn namespace_of(name: &str) -> Option<&'static str> {
    let name = name.split('*').next().unwrap_or_default();
    if IPC_SYSCTLS.contains(&name) || name.starts_with("fs.mqueue.") {
        Some("ipc")
    } else {
        name.starts_with("net.").then_some("net")
    }
}

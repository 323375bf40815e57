//! Pod Security checks of SELinux options and sysctls.

use serde_json::Value;

use super::{Pod, PodViolation};
use crate::admission::plugins::pod_security::messages::{plural, quoted, setters, sorted};
use crate::admission::plugins::pod_security::pod::name;

const TYPES: &[&str] = &["", "container_t", "container_init_t", "container_kvm_t"];
const TYPES_WITH_ENGINES: &[&str] =
    &["", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"];

pub(in super::super) fn se_linux(pod: &Pod<'_>) -> Option<PodViolation> {
    check_se_linux(pod, TYPES)
}

pub(in super::super) fn se_linux_with_engines(pod: &Pod<'_>) -> Option<PodViolation> {
    check_se_linux(pod, TYPES_WITH_ENGINES)
}

fn check_se_linux(pod: &Pod<'_>, types: &[&str]) -> Option<PodViolation> {
    let of = |container: &'_ Value| container["securityContext"]["seLinuxOptions"].clone();
    let own = pod.context("seLinuxOptions");
    let wrong_type = |options: &Value| !types.contains(&text(options, "type"));
    let is_bad = |options: &Value| {
        wrong_type(options) || !text(options, "user").is_empty() || !text(options, "role").is_empty()
    };
    let who = setters(is_bad(own), &pod.bad(|container| is_bad(&of(container))))?;
    let all: Vec<Value> = std::iter::once(own.clone()).chain(pod.containers().map(of)).collect();
    let wrong_types =
        sorted(all.iter().filter(|options| wrong_type(options)).map(|options| text(options, "type")));
    let mut parts = Vec::new();
    if !wrong_types.is_empty() {
        parts.push(format!("{} {}", plural("type", "types", wrong_types.len()), quoted(wrong_types)));
    }
    for part in ["user", "role"] {
        if all.iter().any(|options| !text(options, part).is_empty()) {
            parts.push(format!("{part} may not be set"));
        }
    }
    let detail = format!("{who} set forbidden securityContext.seLinuxOptions: {}", parts.join("; "));
    PodViolation::about("seLinuxOptions", Some(detail))
}

fn text<'a>(options: &'a Value, name: &str) -> &'a str {
    options[name].as_str().unwrap_or_default()
}

/// Sysctls that pods may set, each with the first minor Kubernetes version whose standard allows it.
const SAFE: [(i64, &str); 12] = [
    (0, "kernel.shm_rmid_forced"),
    (0, "net.ipv4.ip_local_port_range"),
    (0, "net.ipv4.tcp_syncookies"),
    (0, "net.ipv4.ping_group_range"),
    (0, "net.ipv4.ip_unprivileged_port_start"),
    (27, "net.ipv4.ip_local_reserved_ports"),
    (29, "net.ipv4.tcp_keepalive_time"),
    (29, "net.ipv4.tcp_fin_timeout"),
    (29, "net.ipv4.tcp_keepalive_intvl"),
    (29, "net.ipv4.tcp_keepalive_probes"),
    (32, "net.ipv4.tcp_rmem"),
    (32, "net.ipv4.tcp_wmem"),
];

pub(in super::super) fn sysctls(pod: &Pod<'_>) -> Option<PodViolation> {
    check_sysctls(pod, 0)
}

pub(in super::super) fn sysctls_of_27(pod: &Pod<'_>) -> Option<PodViolation> {
    check_sysctls(pod, 27)
}

pub(in super::super) fn sysctls_of_29(pod: &Pod<'_>) -> Option<PodViolation> {
    check_sysctls(pod, 29)
}

pub(in super::super) fn sysctls_of_32(pod: &Pod<'_>) -> Option<PodViolation> {
    check_sysctls(pod, 32)
}

fn check_sysctls(pod: &Pod<'_>, version: i64) -> Option<PodViolation> {
    let safe = |name: &str| SAFE.iter().any(|(since, safe)| *since <= version && *safe == name);
    let set = pod.context("sysctls").as_array().into_iter().flatten().map(name);
    let bad: Vec<_> = set.filter(|name| !safe(name)).collect();
    PodViolation::about("forbidden sysctls", (!bad.is_empty()).then(|| bad.join(", ")))
}

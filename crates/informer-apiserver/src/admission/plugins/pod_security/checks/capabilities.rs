use serde_json::Value;

use super::{Pod, PodViolation};
use crate::admission::plugins::pod_security::messages::{containers, quoted, sorted};

/// The capabilities that container runtimes grant by default. The `baseline` level allows adding them.
const DEFAULT_CAPABILITIES: [&str; 13] = [
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
];
/// The only capability that the level `restricted` allows containers to add.
const ADDABLE: [&str; 1] = ["NET_BIND_SERVICE"];

pub(in super::super) fn added(pod: &Pod<'_>) -> Option<PodViolation> {
    PodViolation::about("non-default capabilities", beyond(pod, &DEFAULT_CAPABILITIES))
}

pub(in super::super) fn dropped(pod: &Pod<'_>) -> Option<PodViolation> {
    let keeps = |container: &&Value| !listed(container, "drop").any(|name| name == "ALL");
    let keeping = pod.bad(keeps);
    let keeping = (!keeping.is_empty())
        .then(|| format!("{} must set securityContext.capabilities.drop=[\"ALL\"]", containers(&keeping)));
    let detail: Vec<_> = keeping.into_iter().chain(beyond(pod, &ADDABLE)).collect();
    PodViolation::about("unrestricted capabilities", (!detail.is_empty()).then(|| detail.join("; ")))
}

pub(in super::super) fn dropped_unless_windows(pod: &Pod<'_>) -> Option<PodViolation> {
    if pod.is_windows() { None } else { dropped(pod) }
}

fn beyond(pod: &Pod<'_>, allowed: &[&str]) -> Option<String> {
    let more = |container| listed(container, "add").filter(|name| !allowed.contains(name));
    let bad = pod.bad(|container| more(container).next().is_some());
    let names = sorted(pod.containers().flat_map(more));
    (!bad.is_empty()).then(|| {
        format!("{} must not include {} in securityContext.capabilities.add", containers(&bad), quoted(names))
    })
}

fn listed<'a>(container: &'a Value, list: &str) -> impl Iterator<Item = &'a str> {
    let names = container["securityContext"]["capabilities"][list].as_array();
    names.into_iter().flatten().filter_map(Value::as_str)
}

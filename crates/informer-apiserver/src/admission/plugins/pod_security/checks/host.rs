//! Pod Security checks of host namespaces, host ports, and the hosts of probes and lifecycle handlers.

use serde_json::Value;

use super::{Pod, PodViolation};
use crate::admission::plugins::pod_security::messages::{containers, plural, quoted, sorted};
use crate::admission::plugins::pod_security::pod::name;

pub(in super::super) fn namespaces(pod: &Pod<'_>) -> Option<PodViolation> {
    let shared = ["hostNetwork", "hostPID", "hostIPC"].into_iter().filter(|name| pod.spec(name) == true);
    let detail: Vec<_> = shared.map(|name| format!("{name}=true")).collect();
    PodViolation::about("host namespaces", (!detail.is_empty()).then(|| detail.join(", ")))
}

pub(in super::super) fn ports(pod: &Pod<'_>) -> Option<PodViolation> {
    let used = |container: &Value| {
        let ports = container["ports"].as_array().into_iter().flatten();
        let numbers = ports.filter_map(|port| port["hostPort"].as_i64()).filter(|number| *number != 0);
        numbers.map(|number| number.to_string()).collect::<Vec<_>>()
    };
    let bad = pod.bad(|container| !used(container).is_empty());
    let all: Vec<_> = pod.containers().flat_map(used).collect();
    let numbers: Vec<_> = sorted(all.iter().map(String::as_str)).into_iter().collect();
    let detail = (!bad.is_empty()).then(|| {
        let uses = plural("uses", "use", bad.len());
        let word = plural("hostPort", "hostPorts", numbers.len());
        format!("{} {uses} {word} {}", containers(&bad), numbers.join(", "))
    });
    PodViolation::about("hostPort", detail)
}

pub(in super::super) fn probes(pod: &Pod<'_>) -> Option<PodViolation> {
    let bad = sorted(pod.containers().filter(|container| probe_hosts(container).next().is_some()).map(name));
    let hosts = sorted(pod.containers().flat_map(probe_hosts));
    let detail = (!bad.is_empty()).then(|| {
        let bad: Vec<_> = bad.into_iter().collect();
        let uses = plural("uses", "use", bad.len());
        let word = plural("probe or lifecycle host", "probe or lifecycle hosts", hosts.len());
        format!("{} {uses} {word} {}", containers(&bad), quoted(hosts))
    });
    PodViolation::about("probe or lifecycle host", detail)
}

/// Returns the `host` fields in the probes and lifecycle handlers of a container.
fn probe_hosts(container: &Value) -> impl Iterator<Item = &str> {
    let probes = ["livenessProbe", "readinessProbe", "startupProbe"].map(|name| &container[name]);
    let hooks = ["postStart", "preStop"].map(|name| &container["lifecycle"][name]);
    let asking = probes.into_iter().chain(hooks);
    let hosts = asking.flat_map(|one| ["httpGet", "tcpSocket"].map(|path| one[path]["host"].as_str()));
    hosts.flatten().filter(|host| !host.is_empty())
}

//! Warnings about duplicate and overlapping container ports.

use std::collections::HashMap;

use serde_json::Value;

use crate::model::rules::field_path::FieldPath;
use crate::model::rules::warnings::{list, text};

struct Port<'a> {
    at: String,
    name: &'a str,
    number: i64,
    protocol: &'a str,
    host_port: i64,
    host: &'a str,
}

/// Returns the warnings for the ports of all containers of a pod, because ports of different containers can
/// conflict.
pub(crate) fn of(containers: &[(FieldPath<'_>, &Value)]) -> Vec<String> {
    let each = || containers.iter().flat_map(|(_, one)| list(&one["ports"]));
    // Fast path for most pods. A single port conflicts with no other one. It causes a warning only if it has
    // a `hostIP` without a `hostPort`.
    if each().count() < 2 && each().all(|port| text(&port["hostIP"]).is_empty()) {
        return Vec::new();
    }
    let ports: Vec<Port<'_>> = containers.iter().flat_map(|(path, one)| ports(path, one)).collect();
    number_conflicts(&ports).into_iter().chain(name_conflicts(&ports)).collect()
}

fn ports<'a>(path: &FieldPath<'_>, container: &'a Value) -> Vec<Port<'a>> {
    let port = |(index, port): (usize, &'a Value)| Port {
        at: format!("{path}.ports[{index}]"),
        name: text(&port["name"]),
        number: port["containerPort"].as_i64().unwrap_or_default(),
        protocol: text(&port["protocol"]),
        host_port: port["hostPort"].as_i64().unwrap_or_default(),
        host: text(&port["hostIP"]),
    };
    list(&container["ports"]).enumerate().map(port).collect()
}

fn number_conflicts(ports: &[Port<'_>]) -> Vec<String> {
    let mut known: HashMap<(i64, &str), Vec<&Port<'_>>> = HashMap::new();
    let mut warnings = Vec::new();
    for port in ports {
        let at = &port.at;
        if !port.host.is_empty() && port.host_port == 0 {
            warnings.push(format!(
                "{at}: hostIP set without hostPort: {{Name:{} HostPort:{} ContainerPort:{} Protocol:{} HostIP:{}}}",
                port.name, port.host_port, port.number, port.protocol, port.host
            ));
        }
        let others = known.entry((port.number, port.protocol)).or_default();
        for other in others.iter() {
            let how = port.conflict_with(other);
            warnings.extend(how.map(|how| format!("{at}: {how} port definition with {}", other.at)));
        }
        others.push(port);
    }
    warnings
}

impl Port<'_> {
    /// Returns the kind of conflict with another port that has the same number and protocol.
    fn conflict_with(&self, other: &Self) -> Option<&'static str> {
        if self.host == other.host && self.host_port == other.host_port {
            Some("duplicate")
        } else if self.host_port == 0 || other.host_port == 0 {
            Some("overlapping")
        } else if self.host_port == other.host_port && self.host.is_empty() != other.host.is_empty() {
            Some("dangerously ambiguous")
        } else {
            None
        }
    }
}

fn name_conflicts(ports: &[Port<'_>]) -> Vec<String> {
    let mut known: HashMap<&str, &str> = HashMap::new();
    let mut warnings = Vec::new();
    for Port { at, name, .. } in ports.iter().filter(|port| !port.name.is_empty()) {
        match known.get(name) {
            Some(other) => warnings.push(format!(
                "{at}: duplicate port name {name:?} with {other}, services and probes that select ports by name will \
                 use {other}"
            )),
            None => drop(known.insert(name, at)),
        }
    }
    warnings
}

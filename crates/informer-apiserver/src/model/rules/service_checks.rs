//! What a service must have, and what it may not change.

use std::collections::HashSet;

use serde_json::Value;

use super::checks::{
    At, Check, Form, IMMUTABLE, check_labels, check_port, duplicate, is_ip, required, run, unsupported,
};
use super::ranges::{check_address, check_range};
use crate::model::error::Cause;

pub(super) const SERVICE: &[Check] = &[Check::Call(service)];

const TYPES: &[&str] = &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
const AFFINITIES: &[&str] = &["ClientIP", "None"];
const PROTOCOLS: &[&str] = &["SCTP", "TCP", "UDP"];

fn service(at: &At<'_>, causes: &mut Vec<Cause>) {
    let spec = at.part("spec");
    let kind = spec.text("type");
    let headless = spec.text("clusterIP") == "None";
    let ports = spec.items("ports");
    addresses_stay(&spec, causes);
    if ports.is_empty() && !headless && kind != "ExternalName" {
        causes.push(required(&spec.at("ports"), ""));
    }
    if kind == "ExternalName" {
        match spec.text("externalName") {
            "" => causes.push(required(&spec.at("externalName"), "")),
            name => Form::Subdomain.check(&spec.at("externalName"), name.trim_end_matches('.'), causes),
        }
    }
    let mut names = HashSet::new();
    for (index, port) in ports.iter().enumerate() {
        let port = At { value: port, old: None, path: spec.at(&format!("ports[{index}]")) };
        check_service_port(&port, ports.len() > 1, &mut names, causes);
    }
    check_labels(&spec.at("selector"), spec.get("selector"), causes);
    run(&spec, &[Check::OneOf("sessionAffinity", AFFINITIES)], causes);
    let address = spec.text("clusterIP");
    if !matches!(address, "" | "None") && !is_ip(address) {
        let why = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
        causes.push(Cause::invalid("spec.clusterIPs[0]", &format!("{address:?}"), why));
    }
    let before: Vec<&str> = spec.before("externalIPs").collect();
    for (index, address) in spec.items("externalIPs").iter().filter_map(Value::as_str).enumerate() {
        if !before.contains(&address) {
            check_address(&spec.at(&format!("externalIPs[{index}]")), address, causes);
        }
    }
    run(&spec, &[Check::OneOf("type", TYPES)], causes);
    let mut seen = HashSet::new();
    for (index, port) in ports.iter().enumerate() {
        let key = (port["protocol"].as_str(), port["port"].as_i64());
        if !seen.insert(key) {
            let shown = format!("{{\"port\":{},\"protocol\":{}}}", port["port"], port["protocol"]);
            causes.push(duplicate(&spec.at(&format!("ports[{index}]")), &shown));
        }
    }
    if kind == "ClusterIP" {
        for (index, port) in ports.iter().enumerate() {
            if port["nodePort"].as_i64().is_some_and(|number| number != 0) {
                let why = "may not be used when `type` is 'ClusterIP'";
                causes.push(Cause::forbidden(&spec.at(&format!("ports[{index}].nodePort")), why));
            }
        }
    }
    balancer(&spec, causes);
}

/// Fields of balancers, which no other service may have.
fn balancer(spec: &At<'_>, causes: &mut Vec<Cause>) {
    let why = "may only be used when `type` is 'LoadBalancer'";
    let is_one = spec.text("type") == "LoadBalancer";
    let ranges = spec.items("loadBalancerSourceRanges");
    // Upstream writes the name of the field as its type has it.
    let field = spec.at("LoadBalancerSourceRanges");
    if !ranges.is_empty() && !is_one {
        causes.push(Cause::forbidden(&field, why));
    }
    let before: Vec<&str> = spec.before("loadBalancerSourceRanges").map(str::trim).collect();
    for (index, range) in ranges.iter().filter_map(Value::as_str).enumerate() {
        check_range(&format!("{field}[{index}]"), range.trim(), &before, causes);
    }
    if spec.get("allocateLoadBalancerNodePorts").is_some() && !is_one {
        causes.push(Cause::forbidden(&spec.at("allocateLoadBalancerNodePorts"), why));
    }
}

/// The address of a service that has one stays, unless it becomes a name or was one.
fn addresses_stay(spec: &At<'_>, causes: &mut Vec<Cause>) {
    let Some(old) = spec.old else { return };
    let text = |value: &Value, name: &str| value[name].as_str().unwrap_or_default().to_owned();
    let named = [spec.value, old].iter().any(|spec| text(spec, "type") == "ExternalName");
    let (before, after) = (text(old, "clusterIP"), text(spec.value, "clusterIP"));
    if !named && !before.is_empty() && before != after {
        let shown = format!("[{after:?}]");
        let why = "may not change once set";
        causes.push(Cause::invalid("spec.clusterIPs[0]", &shown, why));
    }
}

fn check_service_port<'a>(at: &At<'a>, named: bool, names: &mut HashSet<&'a str>, causes: &mut Vec<Cause>) {
    match at.text("name") {
        "" if named => causes.push(required(&at.at("name"), "")),
        "" => {}
        name => {
            Form::Label.check(&at.at("name"), name, causes);
            if !names.insert(name) {
                causes.push(duplicate(&at.at("name"), &format!("{name:?}")));
            }
        }
    }
    check_port(&at.at("port"), at.number("port").unwrap_or_default(), causes);
    match at.text("protocol") {
        "" => causes.push(required(&at.at("protocol"), "")),
        other if !PROTOCOLS.contains(&other) => {
            causes.push(unsupported(&at.at("protocol"), other, PROTOCOLS));
        }
        _ => {}
    }
    match at.get("targetPort") {
        Some(Value::Number(number)) => {
            check_port(&at.at("targetPort"), number.as_i64().unwrap_or_default(), causes);
        }
        Some(Value::String(name)) => Form::PortName.check(&at.at("targetPort"), name, causes),
        _ => {}
    }
}

/// What may not change: the reason is upstream's common one.
pub(super) fn frozen(at: &At<'_>, field: &str, causes: &mut Vec<Cause>) {
    let old = at.old.and_then(|old| super::path::get(old, field));
    if old != at.get(field) {
        let shown = at.get(field).map_or("null".to_owned(), ToString::to_string);
        causes.push(Cause::invalid(&at.at(field), &shown, IMMUTABLE));
    }
}

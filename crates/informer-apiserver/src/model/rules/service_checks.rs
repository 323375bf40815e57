//! Validation of Services.

use std::collections::HashSet;

use serde_json::Value;

use super::checks::{
    Check, FieldView, IMMUTABLE, NameFormat, check_labels, check_port, duplicate, is_ip, required, run,
    unsupported,
};
use super::ranges::{check_address, check_range};
use crate::model::error::Cause;

pub(super) const SERVICE: &[Check] = &[Check::Call(service)];

const TYPES: &[&str] = &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
const AFFINITIES: &[&str] = &["ClientIP", "None"];
const PROTOCOLS: &[&str] = &["SCTP", "TCP", "UDP"];

fn service(at: &FieldView<'_>, causes: &mut Vec<Cause>) {
    let spec = at.part("spec");
    let kind = spec.text("type");
    let headless = spec.text("clusterIP") == "None";
    let ports = spec.items("ports");
    check_cluster_ip_unchanged(&spec, causes);
    if ports.is_empty() && !headless && kind != "ExternalName" {
        causes.push(required(&spec.field_path("ports"), ""));
    }
    if kind == "ExternalName" {
        match spec.text("externalName") {
            "" => causes.push(required(&spec.field_path("externalName"), "")),
            name => NameFormat::Subdomain.check(
                &spec.field_path("externalName"),
                name.trim_end_matches('.'),
                causes,
            ),
        }
    }
    let mut names = HashSet::new();
    for (index, port) in ports.iter().enumerate() {
        let port = FieldView { value: port, old: None, path: spec.field_path(&format!("ports[{index}]")) };
        check_service_port(&port, ports.len() > 1, &mut names, causes);
    }
    check_labels(&spec.field_path("selector"), spec.get("selector"), causes);
    run(&spec, &[Check::OneOf("sessionAffinity", AFFINITIES)], causes);
    let address = spec.text("clusterIP");
    if !matches!(address, "" | "None") && !is_ip(address) {
        let why = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
        causes.push(Cause::invalid("spec.clusterIPs[0]", &format!("{address:?}"), why));
    }
    let before: Vec<&str> = spec.before("externalIPs").collect();
    for (index, address) in spec.items("externalIPs").iter().filter_map(Value::as_str).enumerate() {
        if !before.contains(&address) {
            check_address(&spec.field_path(&format!("externalIPs[{index}]")), address, causes);
        }
    }
    run(&spec, &[Check::OneOf("type", TYPES)], causes);
    let mut seen = HashSet::new();
    for (index, port) in ports.iter().enumerate() {
        let key = (port["protocol"].as_str(), port["port"].as_i64());
        if !seen.insert(key) {
            let shown = format!("{{\"port\":{},\"protocol\":{}}}", port["port"], port["protocol"]);
            causes.push(duplicate(&spec.field_path(&format!("ports[{index}]")), &shown));
        }
    }
    if kind == "ClusterIP" {
        for (index, port) in ports.iter().enumerate() {
            if port["nodePort"].as_i64().is_some_and(|number| number != 0) {
                let why = "may not be used when `type` is 'ClusterIP'";
                causes.push(Cause::forbidden(&spec.field_path(&format!("ports[{index}].nodePort")), why));
            }
        }
    }
    check_load_balancer_fields(&spec, causes);
}

/// Rejects load balancer fields in other Services, and validates the source ranges.
fn check_load_balancer_fields(spec: &FieldView<'_>, causes: &mut Vec<Cause>) {
    let why = "may only be used when `type` is 'LoadBalancer'";
    let is_load_balancer = spec.text("type") == "LoadBalancer";
    let ranges = spec.items("loadBalancerSourceRanges");
    // kube-apiserver reports the Go name of the field.
    let field = spec.field_path("LoadBalancerSourceRanges");
    if !ranges.is_empty() && !is_load_balancer {
        causes.push(Cause::forbidden(&field, why));
    }
    let before: Vec<&str> = spec.before("loadBalancerSourceRanges").map(str::trim).collect();
    for (index, range) in ranges.iter().filter_map(Value::as_str).enumerate() {
        check_range(&format!("{field}[{index}]"), range.trim(), &before, causes);
    }
    if spec.get("allocateLoadBalancerNodePorts").is_some() && !is_load_balancer {
        causes.push(Cause::forbidden(&spec.field_path("allocateLoadBalancerNodePorts"), why));
    }
}

/// Rejects changes of `clusterIP`, unless the Service is or was an ExternalName.
fn check_cluster_ip_unchanged(spec: &FieldView<'_>, causes: &mut Vec<Cause>) {
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

fn check_service_port<'a>(
    at: &FieldView<'a>,
    named: bool,
    names: &mut HashSet<&'a str>,
    causes: &mut Vec<Cause>,
) {
    match at.text("name") {
        "" if named => causes.push(required(&at.field_path("name"), "")),
        "" => {}
        name => {
            NameFormat::Label.check(&at.field_path("name"), name, causes);
            if !names.insert(name) {
                causes.push(duplicate(&at.field_path("name"), &format!("{name:?}")));
            }
        }
    }
    check_port(&at.field_path("port"), at.number("port").unwrap_or_default(), causes);
    match at.text("protocol") {
        "" => causes.push(required(&at.field_path("protocol"), "")),
        other if !PROTOCOLS.contains(&other) => {
            causes.push(unsupported(&at.field_path("protocol"), other, PROTOCOLS));
        }
        _ => {}
    }
    match at.get("targetPort") {
        Some(Value::Number(number)) => {
            check_port(&at.field_path("targetPort"), number.as_i64().unwrap_or_default(), causes);
        }
        Some(Value::String(name)) => NameFormat::PortName.check(&at.field_path("targetPort"), name, causes),
        _ => {}
    }
}

/// Rejects a change of an immutable field.
pub(super) fn check_immutable(at: &FieldView<'_>, field: &str, causes: &mut Vec<Cause>) {
    let old = at.old.and_then(|old| super::path::get(old, field));
    if old != at.get(field) {
        let shown = at.get(field).map_or("null".to_owned(), ToString::to_string);
        causes.push(Cause::invalid(&at.field_path(field), &shown, IMMUTABLE));
    }
}

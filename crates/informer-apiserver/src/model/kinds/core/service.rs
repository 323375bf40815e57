mod addresses;
pub(crate) mod allocation;

use std::collections::HashSet;

use serde_json::{Value, json};

use crate::model::cause::{Cause, Causes};
use crate::model::json::Object;
use crate::model::kinds::Traits;
use crate::model::kinds::core::endpoints::check_unicast;
use crate::model::kinds::descriptor::KindDescriptor;
use crate::model::rules::Rules;
use crate::model::rules::checks::{
    Check, FieldView, NameFormat, check_labels, check_port, duplicate, format_value, required, run,
    unsupported,
};
use crate::model::rules::defaults::Default::{self, Call, Fill, In, When};
use crate::model::rules::defaults::fill;
use crate::model::rules::path::{each_mut, get, set};
use crate::model::rules::ranges::{address_problem, check_range};
use crate::model::rules::warnings::{
    address_warnings, has_annotation, list, load_balancer_warnings, range_warnings, text, value_warnings,
};
use crate::model::table::TableRow;
use crate::model::table::text::{NONE, joined, number, or};
use crate::model::write_options::WriteMode;

pub(crate) static DESCRIPTOR: KindDescriptor = KindDescriptor::new(
    "",
    "v1",
    "Service",
    Traits::STATUS_METADATA.with(Traits::RETURNS_DELETED).with(Traits::UPSERT).with(Traits::OWN_FIELDS),
)
.selectable(&["spec.clusterIP", "spec.type"])
.bookmark(r#","spec":{},"status":{"loadBalancer":{}}"#)
.name_format(Some(NameFormat::Label))
.initial_status(r#"{"loadBalancer":{}}"#)
.rules(Rules::new(DEFAULTS, &[Check::Call(validate)]))
.carry_over(carry_over)
.warnings(|service, _| warn(service))
.status_warnings(load_balancer_warnings)
.cells(cells);

fn carry_over(old: &Object, object: &mut Object, mode: WriteMode) {
    allocation::preserve_allocations(old, object, mode);
}

const DEFAULTS: &[Default] = &[
    In(
        "spec",
        &[
            Fill("sessionAffinity", "\"None\""),
            When("sessionAffinity", "None", &[Call(remove_affinity_config)]),
            When(
                "sessionAffinity",
                "ClientIP",
                &[Fill("sessionAffinityConfig.clientIP.timeoutSeconds", "10800")],
            ),
            Fill("type", "\"ClusterIP\""),
            In("ports[]", &[Fill("protocol", "\"TCP\""), Call(default_target_port)]),
            When("type", "NodePort", EXTERNAL_TRAFFIC),
            When("type", "LoadBalancer", EXTERNAL_TRAFFIC),
            Call(default_external_traffic_policy),
            When("type", "NodePort", INTERNAL_TRAFFIC),
            When("type", "LoadBalancer", INTERNAL_TRAFFIC),
            When("type", "ClusterIP", INTERNAL_TRAFFIC),
            When("type", "LoadBalancer", &[Fill("allocateLoadBalancerNodePorts", "true")]),
        ],
    ),
    Call(default_ip_mode),
];

const EXTERNAL_TRAFFIC: &[Default] = &[Fill("externalTrafficPolicy", "\"Cluster\"")];
const INTERNAL_TRAFFIC: &[Default] = &[Fill("internalTrafficPolicy", "\"Cluster\"")];

fn default_ip_mode(service: &mut Value) {
    if service["spec"]["type"] != "LoadBalancer" {
        return;
    }
    each_mut(service, "status.loadBalancer.ingress[]", &mut |point| {
        let addressed = get(point, "ip").is_some_and(|address| *address != "");
        if addressed && get(point, "ipMode").is_none() {
            set(point, "ipMode", "VIP".into());
        }
    });
}

fn remove_affinity_config(spec: &mut Value) {
    if let Some(spec) = spec.as_object_mut() {
        spec.remove("sessionAffinityConfig");
    }
}

fn default_target_port(port: &mut Value) {
    let given = get(port, "targetPort");
    if given.is_none_or(|given| *given == 0 || *given == "") {
        port["targetPort"] = port["port"].clone();
    }
}

fn default_external_traffic_policy(spec: &mut Value) {
    let addresses = get(spec, "externalIPs").and_then(Value::as_array).is_some_and(|all| !all.is_empty());
    if addresses && get(spec, "type").is_some_and(|kind| *kind == "ClusterIP") {
        fill(spec, EXTERNAL_TRAFFIC);
    }
}

const TYPES: &[&str] = &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
const AFFINITIES: &[&str] = &["ClientIP", "None"];
const PROTOCOLS: &[&str] = &["SCTP", "TCP", "UDP"];

fn validate(at: &FieldView<'_, '_>, causes: &mut Causes) {
    let spec = at.part("spec");
    let kind = spec.text("type");
    let ports = spec.items("ports");
    addresses::check(&spec, causes);
    if !causes.is_empty() {
        // kube-apiserver allocates cluster IPs before it validates the other fields.
        return;
    }
    addresses::check_changes(&spec, causes);
    if ports.is_empty() && !addresses::is_headless(spec.value) && kind != "ExternalName" {
        causes.push(required(&spec.field_path("ports"), ""));
    }
    addresses::check_type(&spec, causes);
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
        let port = FieldView { value: port, old: None, path: spec.field_path("ports").index(index) };
        check_service_port(&port, ports.len() > 1, &mut names, causes);
    }
    check_labels(&spec.field_path("selector"), spec.get("selector"), causes);
    run(&spec, &[Check::OneOf("sessionAffinity", AFFINITIES)], causes);
    let before: HashSet<&str> = spec.before("externalIPs").collect();
    for (index, address) in spec.items("externalIPs").iter().filter_map(Value::as_str).enumerate() {
        let field = spec.field_path("externalIPs").index(index);
        match address_problem(address).filter(|_| !before.contains(address)) {
            Some(why) => causes.push(Cause::invalid(&field, &format!("{address:?}"), why)),
            None => check_unicast(&field, address, causes),
        }
    }
    run(&spec, &[Check::OneOf("type", TYPES)], causes);
    let mut node_ports = HashSet::new();
    for port in spec.elements("ports") {
        let number = port.number("nodePort").unwrap_or_default();
        if number != 0 && !node_ports.insert((port.text("protocol"), number)) {
            causes.push(duplicate(&port.field_path("nodePort"), &number.to_string()));
        }
    }
    let mut seen = HashSet::new();
    for (index, port) in ports.iter().enumerate() {
        let key = (port["protocol"].as_str(), port["port"].as_i64());
        if !seen.insert(key) {
            let shown = format!("{{\"port\":{},\"protocol\":{}}}", port["port"], port["protocol"]);
            causes.push(duplicate(&spec.field_path("ports").index(index), &shown));
        }
    }
    if kind == "ClusterIP" {
        for (index, port) in ports.iter().enumerate() {
            if port["nodePort"].as_i64().is_some_and(|number| number != 0) {
                let why = "may not be used when `type` is 'ClusterIP'";
                let port = spec.field_path("ports").index(index);
                causes.push(Cause::forbidden(&port.field("nodePort"), why));
            }
        }
    }
    check_load_balancer_fields(&spec, causes);
    check_policies(&spec, causes);
}

/// The maximum of `timeoutSeconds` of client IP affinity: one day.
const MAX_AFFINITY_SECONDS: i64 = 86_400;

/// Validates the fields that decide how traffic is distributed.
fn check_policies(spec: &FieldView<'_, '_>, causes: &mut Causes) {
    const DISTRIBUTIONS: &[&str] = &["PreferClose", "PreferSameZone", "PreferSameNode"];
    const POLICIES: &[&str] = &["Cluster", "Local"];
    let external = spec.text("externalTrafficPolicy");
    if allocation::is_reachable(spec.value) {
        run(spec, &[Check::OneOf("externalTrafficPolicy", POLICIES)], causes);
    } else if !external.is_empty() {
        let why = "may only be set for externally-accessible services";
        let field = spec.field_path("externalTrafficPolicy");
        causes.push(Cause::invalid(&field, &format!("{external:?}"), why));
    }
    run(spec, &[Check::OneOf("internalTrafficPolicy", POLICIES)], causes);
    let distribution = spec.text("trafficDistribution");
    if spec.get("trafficDistribution").is_some() && !DISTRIBUTIONS.contains(&distribution) {
        causes.push(unsupported(&spec.field_path("trafficDistribution"), distribution, DISTRIBUTIONS));
    }
    let timeout = "sessionAffinityConfig.clientIP.timeoutSeconds";
    let seconds = spec.number(timeout).filter(|_| spec.text("sessionAffinity") == "ClientIP");
    if let Some(seconds) = seconds.filter(|seconds| !(1..=MAX_AFFINITY_SECONDS).contains(seconds)) {
        let why = format!("must be greater than 0 and less than {MAX_AFFINITY_SECONDS}");
        causes.push(Cause::invalid(&spec.field_path(timeout), &seconds.to_string(), &why));
    }
    let needs_health_check = allocation::has_health_check(spec.value);
    let health_check = spec.number("healthCheckNodePort").filter(|port| *port != 0);
    if let Some(port) = health_check.filter(|_| !needs_health_check) {
        let why = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
        causes.push(Cause::invalid(&spec.field_path("healthCheckNodePort"), &port.to_string(), why));
    }
    check_load_balancer_class(spec, causes);
}

fn check_load_balancer_class(spec: &FieldView<'_, '_>, causes: &mut Causes) {
    let field = spec.field_path("loadBalancerClass");
    let class = spec.get("loadBalancerClass").and_then(Value::as_str);
    if spec.text("type") != "LoadBalancer" {
        let why = "may only be used when `type` is 'LoadBalancer'";
        causes.extend(class.map(|_| Cause::forbidden(&field, why)));
        return;
    }
    let old = spec.old.filter(|old| old["type"] == "LoadBalancer");
    if old.is_some_and(|old| old["loadBalancerClass"].as_str() != class) {
        let shown = format_value(spec.get("loadBalancerClass"));
        causes.push(Cause::invalid(&field, &shown, "may not change once set"));
    }
    if let Some(class) = class {
        NameFormat::Qualified.check(&field, class, causes);
    }
}

/// Rejects load balancer fields in Services of other types, and validates `loadBalancerSourceRanges`.
fn check_load_balancer_fields(spec: &FieldView<'_, '_>, causes: &mut Causes) {
    let why = "may only be used when `type` is 'LoadBalancer'";
    let is_load_balancer = spec.text("type") == "LoadBalancer";
    let ranges = spec.items("loadBalancerSourceRanges");
    // As in kube-apiserver, the error path contains the Go name of the field.
    let field = spec.field_path("LoadBalancerSourceRanges");
    if !ranges.is_empty() && !is_load_balancer {
        causes.push(Cause::forbidden(&field, why));
    }
    let before: HashSet<&str> = spec.before("loadBalancerSourceRanges").map(str::trim).collect();
    for (index, range) in ranges.iter().filter_map(Value::as_str).enumerate() {
        check_range(&field.index(index), range.trim(), &before, causes);
    }
    if spec.get("allocateLoadBalancerNodePorts").is_some() && !is_load_balancer {
        causes.push(Cause::forbidden(&spec.field_path("allocateLoadBalancerNodePorts"), why));
    }
}

fn check_service_port<'a>(
    at: &FieldView<'a, '_>,
    named: bool,
    names: &mut HashSet<&'a str>,
    causes: &mut Causes,
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
    if at.get("appProtocol").is_some() {
        NameFormat::Qualified.check(&at.field_path("appProtocol"), at.text("appProtocol"), causes);
    }
}

const TOPOLOGY_HINTS: &str = "service.kubernetes.io/topology-aware-hints";
const TOPOLOGY_MODE: &str = "service.kubernetes.io/topology-mode";

fn warn(service: &Value) -> Vec<String> {
    let spec = &service["spec"];
    let mut warnings = Vec::new();
    if has_annotation(service, TOPOLOGY_HINTS) {
        warnings
            .push(format!("annotation {TOPOLOGY_HINTS} is deprecated, please use {TOPOLOGY_MODE} instead"));
    }
    let address = text(&spec["clusterIP"]);
    if !matches!(address, "" | "None") {
        warnings.extend(value_warnings(&spec["clusterIPs"], "spec.clusterIPs", address_warnings));
    }
    let (headless, named) =
        (spec["type"] == "ClusterIP" && address == "None", spec["type"] == "ExternalName");
    let (balancer, outside) = (text(&spec["loadBalancerIP"]), list(&spec["externalIPs"]).count() > 0);
    if headless {
        let ignored = [
            (!balancer.is_empty(), "loadBalancerIP"),
            (outside, "externalIPs"),
            (spec["sessionAffinity"] != "None", "SessionAffinity"),
        ];
        let ignored = ignored.iter().filter(|(there, _)| *there);
        warnings.extend(ignored.map(|(_, field)| format!("spec.{field} is ignored for headless services")));
    }
    warnings.extend(value_warnings(&spec["externalIPs"], "spec.externalIPs", address_warnings));
    if outside && !headless && !named {
        warnings.push(
            "spec.externalIPs is deprecated and may no longer be implemented in some clusters".to_owned(),
        );
    }
    if !balancer.is_empty() {
        warnings.extend(address_warnings("spec.loadBalancerIP", balancer));
    }
    warnings.extend(value_warnings(
        &spec["loadBalancerSourceRanges"],
        "spec.loadBalancerSourceRanges",
        range_warnings,
    ));
    if named && outside {
        warnings.push("spec.externalIPs is ignored when spec.type is \"ExternalName\"".to_owned());
    }
    if !named && !text(&spec["externalName"]).is_empty() {
        warnings.push("spec.externalName is ignored when spec.type is not \"ExternalName\"".to_owned());
    }
    if spec["trafficDistribution"] == "PreferClose" {
        warnings.push(
            "spec.trafficDistribution: \"PreferClose\" is deprecated; use \"PreferSameZone\"".to_owned(),
        );
    }
    warnings
}

fn cells(row: &TableRow<'_>) -> Vec<Value> {
    let object = row.object;
    let spec = &object["spec"];
    let kind = or(&spec["type"], "ClusterIP");
    let external: Vec<&str> = list(&spec["externalIPs"]).map(text).collect();
    let ingress: Vec<&str> = list(&object["status"]["loadBalancer"]["ingress"])
        .map(|one| or(&one["ip"], text(&one["hostname"])))
        .collect();
    let address = match kind {
        "ExternalName" => or(&spec["externalName"], NONE).to_owned(),
        "LoadBalancer" if ingress.is_empty() && external.is_empty() => "<pending>".to_owned(),
        "LoadBalancer" => joined(ingress.into_iter().chain(external), NONE),
        _ => joined(external.into_iter(), NONE),
    };
    let ports: Vec<String> = list(&spec["ports"])
        .map(|port| {
            let (number, protocol) = (number(&port["port"]), or(&port["protocol"], "TCP"));
            match port["nodePort"].as_i64().filter(|port| *port > 0) {
                Some(node) => format!("{number}:{node}/{protocol}"),
                None => format!("{number}/{protocol}"),
            }
        })
        .collect();
    let selector: Vec<String> = spec["selector"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, value)| format!("{key}={}", text(value)))
        .collect();
    vec![
        row.name(),
        json!(kind),
        json!(or(&spec["clusterIP"], NONE)),
        json!(address),
        json!(joined(ports.iter().map(String::as_str), NONE)),
        row.age(),
        json!(joined(selector.iter().map(String::as_str), NONE)),
    ]
}

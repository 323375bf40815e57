//! Defaults of Services, Endpoints, EndpointSlices, Ingresses and NetworkPolicies.

use serde_json::{Value, json};

use super::Rules;
use super::defaults::Default::{self, Call, Fill, In, When};
use super::network_checks as checks;
use super::path::{get, set};

pub(super) fn rules((group, kind): (&str, &str)) -> Option<Rules> {
    Some(match (group, kind) {
        ("", "Service") => Rules::new(SERVICE, super::service_checks::SERVICE),
        ("", "Endpoints") => Rules::new(&[In("subsets[].ports[]", TCP)], &[]),
        ("discovery.k8s.io", "EndpointSlice") => {
            Rules::new(&[In("ports[]", SLICE_PORT)], checks::SLICE).changes(checks::SLICE_CHANGES)
        }
        ("networking.k8s.io", "NetworkPolicy") => Rules::new(POLICY, checks::POLICY),
        ("networking.k8s.io", "Ingress") => Rules::new(&[], checks::INGRESS),
        ("networking.k8s.io", "IngressClass") => {
            Rules::new(&[In("spec.parameters", &[Fill("scope", "\"Cluster\"")])], &[])
        }
        _ => return None,
    })
}

const TCP: &[Default] = &[Fill("protocol", "\"TCP\"")];
const SLICE_PORT: &[Default] = &[Call(default_port_name), Fill("protocol", "\"TCP\"")];

const SERVICE: &[Default] = &[
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

const POLICY: &[Default] = &[
    In("spec", &[Call(default_policy_types)]),
    In("spec.ingress[].ports[]", TCP),
    In("spec.egress[].ports[]", TCP),
];

/// Defaults `ipMode` in the ingress points of a load balancer.
fn default_ip_mode(service: &mut Value) {
    if service["spec"]["type"] != "LoadBalancer" {
        return;
    }
    super::path::each_mut(service, "status.loadBalancer.ingress[]", &mut |point| {
        let addressed = get(point, "ip").is_some_and(|address| *address != "");
        if addressed && get(point, "ipMode").is_none() {
            set(point, "ipMode", "VIP".into());
        }
    });
}

/// Defaults the name of a port to the empty string. In Go the field is a pointer.
fn default_port_name(port: &mut Value) {
    if get(port, "name").is_none() {
        set(port, "name", "".into());
    }
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
        super::defaults::fill(spec, EXTERNAL_TRAFFIC);
    }
}

fn default_policy_types(spec: &mut Value) {
    if super::checks::is_missing(get(spec, "policyTypes")) {
        let egress = !super::checks::is_missing(get(spec, "egress"));
        set(spec, "policyTypes", if egress { json!(["Ingress", "Egress"]) } else { json!(["Ingress"]) });
    }
}

//! Addresses and ranges that can be read in more than one way, and fields of services that do nothing.

use std::net::IpAddr;

use serde_json::Value;

use super::{has_annotation, list, text};
use crate::model::rules::ranges::{address, first, is_mapped, range};

const TOPOLOGY_HINTS: &str = "service.kubernetes.io/topology-aware-hints";
const TOPOLOGY_MODE: &str = "service.kubernetes.io/topology-mode";
const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
const ENDPOINTS_MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";

pub(super) fn of_service(service: &Value) -> Vec<String> {
    let spec = &service["spec"];
    let mut told = Vec::new();
    if has_annotation(service, TOPOLOGY_HINTS) {
        told.push(format!("annotation {TOPOLOGY_HINTS} is deprecated, please use {TOPOLOGY_MODE} instead"));
    }
    let address = text(&spec["clusterIP"]);
    if !matches!(address, "" | "None") {
        told.extend(each(&spec["clusterIPs"], "spec.clusterIPs", of_address));
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
        told.extend(ignored.map(|(_, field)| format!("spec.{field} is ignored for headless services")));
    }
    told.extend(each(&spec["externalIPs"], "spec.externalIPs", of_address));
    if outside && !headless && !named {
        told.push(
            "spec.externalIPs is deprecated and may no longer be implemented in some clusters".to_owned(),
        );
    }
    if !balancer.is_empty() {
        told.extend(of_address("spec.loadBalancerIP", balancer));
    }
    told.extend(each(&spec["loadBalancerSourceRanges"], "spec.loadBalancerSourceRanges", of_range));
    if named && outside {
        told.push("spec.externalIPs is ignored when spec.type is \"ExternalName\"".to_owned());
    }
    if !named && !text(&spec["externalName"]).is_empty() {
        told.push("spec.externalName is ignored when spec.type is not \"ExternalName\"".to_owned());
    }
    if spec["trafficDistribution"] == "PreferClose" {
        told.push(
            "spec.trafficDistribution: \"PreferClose\" is deprecated; use \"PreferSameZone\"".to_owned(),
        );
    }
    told
}

pub(super) fn of_node(node: &Value) -> Vec<String> {
    let spec = &node["spec"];
    let mut told = Vec::new();
    if spec["configSource"].is_object() {
        told.push("spec.configSource: the feature is removed".to_owned());
    }
    if !text(&spec["externalID"]).is_empty() {
        told.push("spec.externalID: this field is deprecated, and is unused by Kubernetes".to_owned());
    }
    told.extend(each(&spec["podCIDRs"], "spec.podCIDRs", of_range));
    told
}

pub(super) fn of_pod(spec: &Value, at: &str) -> Vec<String> {
    let servers = format!("{at}spec.dnsConfig.nameservers");
    let mut told = each(&spec["dnsConfig"]["nameservers"], &servers, of_address);
    told.extend(each_of(&spec["hostAliases"], "ip", &format!("{at}spec.hostAliases")));
    told
}

pub(super) fn of_pod_status(pod: &Value) -> Vec<String> {
    let mut told = each_of(&pod["status"]["podIPs"], "ip", "status.podIPs");
    told.extend(each_of(&pod["status"]["hostIPs"], "ip", "status.hostIPs"));
    told
}

/// The status of what a balancer is in front of.
pub(super) fn of_balancer(object: &Value) -> Vec<String> {
    let points =
        list(&object["status"]["loadBalancer"]["ingress"]).map(|point| text(&point["ip"])).enumerate();
    let told = points.filter(|(_, address)| !address.is_empty());
    told.flat_map(|(index, address)| of_address(&format!("status.loadBalancer.ingress[{index}]"), address))
        .collect()
}

pub(super) fn of_endpoints(endpoints: &Value) -> Vec<String> {
    if endpoints["metadata"]["labels"][ENDPOINTS_MANAGED_BY] == "endpoint-controller" {
        return Vec::new();
    }
    let mut told = Vec::new();
    for (index, subset) in list(&endpoints["subsets"]).enumerate() {
        for which in ["addresses", "notReadyAddresses"] {
            told.extend(each_of(&subset[which], "ip", &format!("subsets[{index}].{which}")));
        }
    }
    told
}

pub(super) fn of_slice(slice: &Value, new: bool) -> Vec<String> {
    let mut told = Vec::new();
    if new && slice["addressType"] == "FQDN" {
        told.push("spec.addressType: FQDN endpoints are deprecated".to_owned());
    }
    let by = text(&slice["metadata"]["labels"][MANAGED_BY]);
    if matches!(by, "endpointslice-controller.k8s.io" | "endpointslicemirroring-controller.k8s.io") {
        return told;
    }
    for (index, endpoint) in list(&slice["endpoints"]).enumerate() {
        told.extend(each(&endpoint["addresses"], &format!("endpoints[{index}].addresses"), of_address));
    }
    told
}

pub(super) fn of_network_policy(policy: &Value) -> Vec<String> {
    let mut told = Vec::new();
    for (which, peers) in [("ingress", "from"), ("egress", "to")] {
        for (index, rule) in list(&policy["spec"][which]).enumerate() {
            for (place, peer) in
                list(&rule[peers]).enumerate().filter(|(_, peer)| peer["ipBlock"].is_object())
            {
                let (block, path) =
                    (&peer["ipBlock"], format!("spec.{which}[{index}].{peers}[{place}].ipBlock"));
                told.extend(of_range(&format!("{path}.cidr"), text(&block["cidr"])));
                told.extend(each(&block["except"], &format!("{path}.except"), of_range));
            }
        }
    }
    told
}

fn each(values: &Value, at: &str, of: fn(&str, &str) -> Vec<String>) -> Vec<String> {
    let values = list(values).map(text).enumerate();
    values.flat_map(|(index, value)| of(&format!("{at}[{index}]"), value)).collect()
}

fn each_of(values: &Value, member: &str, at: &str) -> Vec<String> {
    let values = list(values).map(|value| text(&value[member])).enumerate();
    values.flat_map(|(index, value)| of_address(&format!("{at}[{index}].{member}"), value)).collect()
}

/// What is odd about an address; what is none is refused elsewhere.
fn of_address(at: &str, value: &str) -> Vec<String> {
    let strict = value.parse::<IpAddr>().is_ok();
    let told = address(value).and_then(|address| match address {
        _ if !strict || is_mapped(address) => {
            let plain = address.to_canonical();
            Some(format!("{at}: non-standard IP address {value:?} is invalid: use \"{plain}\""))
        }
        IpAddr::V6(address) if address.to_string() != value => Some(format!(
            "{at}: IPv6 address {value:?} should be in RFC 5952 canonical format (\"{address}\")"
        )),
        _ => None,
    });
    told.into_iter().collect()
}

/// What is odd about a range of addresses.
fn of_range(at: &str, value: &str) -> Vec<String> {
    let Some((address, bits)) = range(value) else { return Vec::new() };
    let canonical = format!("{address}/{bits}");
    let mut told = Vec::new();
    let (first, width) = (first(address, bits), if address.is_ipv4() { 32 } else { 128 });
    let network = format!("{first}/{bits}");
    if first != address {
        told.push(format!(
            "{at}: CIDR value {value:?} is ambiguous in this context (should be {network:?} or \"{address}/{width}\"?)"
        ));
    }
    if is_mapped(address) || address.is_ipv4() && canonical != value {
        told.push(format!("{at}: non-standard CIDR value {value:?} is invalid: use {network:?}"));
    }
    if told.is_empty() && address.is_ipv6() && canonical != value {
        told.push(format!(
            "{at}: IPv6 CIDR value {value:?} should be in RFC 5952 canonical format ({canonical:?})"
        ));
    }
    told
}

//! Warnings about ambiguous IP addresses and CIDRs, and about Service fields without effect.

use std::net::IpAddr;

use serde_json::Value;

use super::{has_annotation, list, text};
use crate::model::rules::ranges::{address, first_address, is_mapped, range};

const TOPOLOGY_HINTS: &str = "service.kubernetes.io/topology-aware-hints";
const TOPOLOGY_MODE: &str = "service.kubernetes.io/topology-mode";
const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
const ENDPOINTS_MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";

pub(super) fn of_service(service: &Value) -> Vec<String> {
    let spec = &service["spec"];
    let mut warnings = Vec::new();
    if has_annotation(service, TOPOLOGY_HINTS) {
        warnings
            .push(format!("annotation {TOPOLOGY_HINTS} is deprecated, please use {TOPOLOGY_MODE} instead"));
    }
    let address = text(&spec["clusterIP"]);
    if !matches!(address, "" | "None") {
        warnings.extend(each(&spec["clusterIPs"], "spec.clusterIPs", of_address));
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
    warnings.extend(each(&spec["externalIPs"], "spec.externalIPs", of_address));
    if outside && !headless && !named {
        warnings.push(
            "spec.externalIPs is deprecated and may no longer be implemented in some clusters".to_owned(),
        );
    }
    if !balancer.is_empty() {
        warnings.extend(of_address("spec.loadBalancerIP", balancer));
    }
    warnings.extend(each(&spec["loadBalancerSourceRanges"], "spec.loadBalancerSourceRanges", of_range));
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

pub(super) fn of_node(node: &Value) -> Vec<String> {
    let spec = &node["spec"];
    let mut warnings = Vec::new();
    if spec["configSource"].is_object() {
        warnings.push("spec.configSource: the feature is removed".to_owned());
    }
    if !text(&spec["externalID"]).is_empty() {
        warnings.push("spec.externalID: this field is deprecated, and is unused by Kubernetes".to_owned());
    }
    warnings.extend(each(&spec["podCIDRs"], "spec.podCIDRs", of_range));
    warnings
}

pub(super) fn of_pod(spec: &Value, at: &str) -> Vec<String> {
    let servers = format!("{at}spec.dnsConfig.nameservers");
    let mut warnings = each(&spec["dnsConfig"]["nameservers"], &servers, of_address);
    warnings.extend(each_of(&spec["hostAliases"], "ip", &format!("{at}spec.hostAliases")));
    warnings
}

pub(super) fn of_pod_status(pod: &Value) -> Vec<String> {
    let mut warnings = each_of(&pod["status"]["podIPs"], "ip", "status.podIPs");
    warnings.extend(each_of(&pod["status"]["hostIPs"], "ip", "status.hostIPs"));
    warnings
}

/// Checks the load balancer status of a Service or Ingress.
pub(super) fn of_balancer(object: &Value) -> Vec<String> {
    let points =
        list(&object["status"]["loadBalancer"]["ingress"]).map(|point| text(&point["ip"])).enumerate();
    let warnings = points.filter(|(_, address)| !address.is_empty());
    warnings
        .flat_map(|(index, address)| of_address(&format!("status.loadBalancer.ingress[{index}]"), address))
        .collect()
}

pub(super) fn of_endpoints(endpoints: &Value) -> Vec<String> {
    if endpoints["metadata"]["labels"][ENDPOINTS_MANAGED_BY] == "endpoint-controller" {
        return Vec::new();
    }
    let mut warnings = Vec::new();
    for (index, subset) in list(&endpoints["subsets"]).enumerate() {
        for which in ["addresses", "notReadyAddresses"] {
            warnings.extend(each_of(&subset[which], "ip", &format!("subsets[{index}].{which}")));
        }
    }
    warnings
}

pub(super) fn of_slice(slice: &Value, new: bool) -> Vec<String> {
    let mut warnings = Vec::new();
    if new && slice["addressType"] == "FQDN" {
        warnings.push("spec.addressType: FQDN endpoints are deprecated".to_owned());
    }
    let by = text(&slice["metadata"]["labels"][MANAGED_BY]);
    if matches!(by, "endpointslice-controller.k8s.io" | "endpointslicemirroring-controller.k8s.io") {
        return warnings;
    }
    for (index, endpoint) in list(&slice["endpoints"]).enumerate() {
        warnings.extend(each(&endpoint["addresses"], &format!("endpoints[{index}].addresses"), of_address));
    }
    warnings
}

pub(super) fn of_network_policy(policy: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    for (which, peers) in [("ingress", "from"), ("egress", "to")] {
        for (index, rule) in list(&policy["spec"][which]).enumerate() {
            for (place, peer) in
                list(&rule[peers]).enumerate().filter(|(_, peer)| peer["ipBlock"].is_object())
            {
                let (block, path) =
                    (&peer["ipBlock"], format!("spec.{which}[{index}].{peers}[{place}].ipBlock"));
                warnings.extend(of_range(&format!("{path}.cidr"), text(&block["cidr"])));
                warnings.extend(each(&block["except"], &format!("{path}.except"), of_range));
            }
        }
    }
    warnings
}

fn each(values: &Value, at: &str, of: fn(&str, &str) -> Vec<String>) -> Vec<String> {
    let values = list(values).map(text).enumerate();
    values.flat_map(|(index, value)| of(&format!("{at}[{index}]"), value)).collect()
}

fn each_of(values: &Value, member: &str, at: &str) -> Vec<String> {
    let values = list(values).map(|value| text(&value[member])).enumerate();
    values.flat_map(|(index, value)| of_address(&format!("{at}[{index}].{member}"), value)).collect()
}

/// Warns of an ambiguous IP address. Invalid ones are rejected by the validation.
fn of_address(at: &str, value: &str) -> Vec<String> {
    let strict = value.parse::<IpAddr>().is_ok();
    let warnings = address(value).and_then(|address| match address {
        _ if !strict || is_mapped(address) => {
            let plain = address.to_canonical();
            Some(format!("{at}: non-standard IP address {value:?} is invalid: use \"{plain}\""))
        }
        IpAddr::V6(address) if address.to_string() != value => Some(format!(
            "{at}: IPv6 address {value:?} should be in RFC 5952 canonical format (\"{address}\")"
        )),
        _ => None,
    });
    warnings.into_iter().collect()
}

/// Warns of an ambiguous CIDR.
fn of_range(at: &str, value: &str) -> Vec<String> {
    let Some((address, bits)) = range(value) else { return Vec::new() };
    let canonical = format!("{address}/{bits}");
    let mut warnings = Vec::new();
    let (first_address, width) = (first_address(address, bits), if address.is_ipv4() { 32 } else { 128 });
    let network = format!("{first_address}/{bits}");
    if first_address != address {
        warnings.push(format!(
            "{at}: CIDR value {value:?} is ambiguous in this context (should be {network:?} or \"{address}/{width}\"?)"
        ));
    }
    if is_mapped(address) || address.is_ipv4() && canonical != value {
        warnings.push(format!("{at}: non-standard CIDR value {value:?} is invalid: use {network:?}"));
    }
    if warnings.is_empty() && address.is_ipv6() && canonical != value {
        warnings.push(format!(
            "{at}: IPv6 CIDR value {value:?} should be in RFC 5952 canonical format ({canonical:?})"
        ));
    }
    warnings
}

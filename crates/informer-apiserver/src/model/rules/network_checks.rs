//! Validation of EndpointSlices, Ingresses and NetworkPolicies.

use serde_json::Value;

use super::checks::{
    Check, FieldView, NameFormat, check_port, check_selector, check_unique, is_missing, required, run,
    unsupported,
};
use super::ranges::{address_problem, canonical_problem, check_range, is_strict_subset, range};
use super::service_checks::check_immutable;
use crate::model::error::Cause;

pub(super) const SLICE: &[Check] = &[Check::Call(slice)];
pub(super) const SLICE_CHANGES: &[Check] =
    &[Check::Call(|at, causes| check_immutable(at, "addressType", causes))];
pub(super) const INGRESS: &[Check] = &[Check::Call(ingress)];
pub(super) const POLICY: &[Check] = &[Check::Call(policy)];

fn slice(at: &FieldView<'_>, causes: &mut Vec<Cause>) {
    const KINDS: &[&str] = &["FQDN", "IPv4", "IPv6"];
    let kind = at.text("addressType");
    if kind.is_empty() {
        causes.push(required("addressType", ""));
        return;
    }
    if !KINDS.contains(&kind) {
        causes.push(unsupported("addressType", kind, KINDS));
    }
    for (index, port) in at.items("ports").iter().enumerate() {
        let port = FieldView { value: port, old: None, path: format!("ports[{index}]") };
        let name = port.text("name");
        if !name.is_empty() {
            NameFormat::Label.check(&port.field_path("name"), name, causes);
        }
        run(&port, &[Check::OneOf("protocol", &["SCTP", "TCP", "UDP"])], causes);
    }
    check_unique(at, "ports", "name", causes);
    for (index, endpoint) in at.items("endpoints").iter().enumerate() {
        let endpoint = FieldView { value: endpoint, old: None, path: format!("endpoints[{index}]") };
        let addresses = endpoint.items("addresses");
        if addresses.is_empty() {
            causes.push(required(&endpoint.field_path("addresses"), "must contain at least 1 address"));
        }
        for (index, address) in addresses.iter().filter_map(Value::as_str).enumerate() {
            let problem = match kind {
                "IPv4" => address_problem(address).map(str::to_owned),
                "IPv6" => canonical_problem(address),
                _ => None,
            };
            let field = endpoint.field_path(&format!("addresses[{index}]"));
            causes.extend(problem.map(|why| Cause::invalid(&field, &format!("{address:?}"), &why)));
        }
    }
}

fn ingress(at: &FieldView<'_>, causes: &mut Vec<Cause>) {
    let spec = at.part("spec");
    if is_missing(spec.get("rules")) && spec.get("defaultBackend").is_none() {
        let why = "either `defaultBackend` or `rules` must be specified";
        causes.push(Cause::invalid("spec", "null", why));
    }
    if spec.get("defaultBackend").is_some() {
        backend(&spec.part("defaultBackend"), causes);
    }
    for (index, rule) in spec.items("rules").iter().enumerate() {
        let rule = FieldView { value: rule, old: None, path: spec.field_path(&format!("rules[{index}]")) };
        let host = rule.text("host");
        if !host.is_empty() && !host.starts_with("*.") {
            NameFormat::Subdomain.check(&rule.field_path("host"), host, causes);
        }
        for (index, path) in rule.items("http.paths").iter().enumerate() {
            ingress_path(
                &FieldView { value: path, old: None, path: rule.field_path(&format!("http.paths[{index}]")) },
                causes,
            );
        }
    }
}

fn ingress_path(at: &FieldView<'_>, causes: &mut Vec<Cause>) {
    const KINDS: &[&str] = &["Exact", "ImplementationSpecific", "Prefix"];
    match at.text("pathType") {
        "" => {
            causes.push(required(&at.field_path("pathType"), "pathType must be specified"));
            return;
        }
        "Exact" | "Prefix" if !at.text("path").starts_with('/') => {
            let shown = format!("{:?}", at.text("path"));
            causes.push(Cause::invalid(&at.field_path("path"), &shown, "must be an absolute path"));
        }
        other if !KINDS.contains(&other) => {
            causes.push(unsupported(&at.field_path("pathType"), other, KINDS))
        }
        _ => {}
    }
    backend(&at.part("backend"), causes);
}

fn backend(at: &FieldView<'_>, causes: &mut Vec<Cause>) {
    match (at.get("service"), at.get("resource")) {
        (None, None) => causes.push(required(&at.path, "resource or service backend is required")),
        (Some(_), Some(_)) => {
            causes.push(Cause::invalid(&at.path, "\"\"", "cannot set both resource and service backends"));
        }
        (Some(_), None) => {
            let service = at.part("service");
            if service.text("name").is_empty() {
                causes.push(required(&service.field_path("name"), ""));
            }
            let (name, number) =
                (service.text("port.name"), service.number("port.number").unwrap_or_default());
            match (name, number) {
                ("", 0) => causes.push(required(&at.path, "port name or number is required")),
                ("", number) => check_port(&service.field_path("port.number"), number, causes),
                (name, 0) => NameFormat::PortName.check(&service.field_path("port.name"), name, causes),
                _ => causes.push(Cause::invalid(&at.path, "\"\"", "cannot set both port name & port number")),
            }
        }
        (None, Some(_)) => {}
    }
}

fn policy(at: &FieldView<'_>, causes: &mut Vec<Cause>) {
    let spec = at.part("spec");
    check_selector(&spec.part("podSelector"), causes);
    let before = spec.old.map(ranges).unwrap_or_default();
    for (list, peers) in [("ingress", "from"), ("egress", "to")] {
        for (index, rule) in spec.items(list).iter().enumerate() {
            let rule =
                FieldView { value: rule, old: None, path: spec.field_path(&format!("{list}[{index}]")) };
            for (index, port) in rule.items("ports").iter().enumerate() {
                let port =
                    FieldView { value: port, old: None, path: rule.field_path(&format!("ports[{index}]")) };
                run(&port, &[Check::OneOf("protocol", &["TCP", "UDP", "SCTP"])], causes);
                if let Some(number) = port.number("port") {
                    check_port(&port.field_path("port"), number, causes);
                }
            }
            for (index, peer) in rule.items(peers).iter().enumerate() {
                if peer.as_object().is_none_or(serde_json::Map::is_empty) {
                    causes.push(required(
                        &rule.field_path(&format!("{peers}[{index}]")),
                        "must specify a peer",
                    ));
                }
                if peer["ipBlock"].is_object() {
                    let path = rule.field_path(&format!("{peers}[{index}].ipBlock"));
                    block(&FieldView { value: &peer["ipBlock"], old: None, path }, &before, causes);
                }
            }
        }
    }
    for (index, kind) in spec.items("policyTypes").iter().filter_map(Value::as_str).enumerate() {
        if !matches!(kind, "Ingress" | "Egress") {
            let field = spec.field_path(&format!("policyTypes[{index}]"));
            causes.push(unsupported(&field, kind, &["Ingress", "Egress"]));
        }
    }
}

/// Returns all CIDRs of a NetworkPolicy. A CIDR of the old object is not validated again, even if it moved.
fn ranges(spec: &Value) -> Vec<&str> {
    let rules = [("ingress", "from"), ("egress", "to")].into_iter();
    let blocks =
        rules.flat_map(|(list, peers)| entries(&spec[list]).flat_map(move |rule| entries(&rule[peers])));
    let blocks = blocks.map(|peer| &peer["ipBlock"]);
    blocks
        .flat_map(|block| entries(&block["except"]).chain([&block["cidr"]]))
        .filter_map(Value::as_str)
        .collect()
}

fn entries(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

/// Validates an `ipBlock`.
fn block(at: &FieldView<'_>, before: &[&str], causes: &mut Vec<Cause>) {
    let whole = at.text("cidr");
    if whole.is_empty() {
        causes.push(required(&at.field_path("cidr"), ""));
        return;
    }
    check_range(&at.field_path("cidr"), whole, before, causes);
    let Some(whole) = range(whole) else { return };
    for (index, except) in at.items("except").iter().filter_map(Value::as_str).enumerate() {
        let field = at.field_path(&format!("except[{index}]"));
        check_range(&field, except, before, causes);
        if range(except).is_some_and(|except| !is_strict_subset(except, whole)) {
            let why = "must be a strict subset of `cidr`";
            causes.push(Cause::invalid(&field, &format!("{except:?}"), why));
        }
    }
}

use std::fmt::Display;
use std::net::IpAddr;

use serde_json::{Value, json};

use crate::model::cause::{Cause, Causes};
use crate::model::kinds::Traits;
use crate::model::kinds::descriptor::KindDescriptor;
use crate::model::rules::Rules;
use crate::model::rules::checks::{Check, FieldView, NameFormat, check_port, required, run};
use crate::model::rules::defaults::Default::In;
use crate::model::rules::defaults::TCP;
use crate::model::rules::field_path::FieldPath;
use crate::model::rules::ranges::{address, check_address};
use crate::model::rules::warnings::{item_address_warnings, list, text};
use crate::model::table::TableRow;
use crate::model::table::text::{NONE, number};

pub(crate) static DESCRIPTOR: KindDescriptor = KindDescriptor::new("", "v1", "Endpoints", Traits::UPSERT)
    .with_traits(Traits::REVALIDATES_METADATA)
    .deprecated("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice")
    .rules(Rules::new(&[In("subsets[].ports[]", TCP)], &[Check::Call(validate)]))
    .warnings(|endpoints, _| warn(endpoints))
    .cells(cells);

fn validate(at: &FieldView<'_, '_>, causes: &mut Causes) {
    for (index, subset) in at.items("subsets").iter().enumerate() {
        let subset = FieldView { value: subset, old: None, path: FieldPath::new("subsets").index(index) };
        if subset.items("addresses").is_empty() && subset.items("notReadyAddresses").is_empty() {
            causes.push(required(&subset.path, "must specify `addresses` or `notReadyAddresses`"));
        }
        for list in ["addresses", "notReadyAddresses"] {
            for (index, address) in subset.items(list).iter().enumerate() {
                let path = subset.field_path(list).index(index);
                check_endpoint(&FieldView { value: address, old: None, path }, causes);
            }
        }
        let ports = subset.items("ports");
        for (index, port) in ports.iter().enumerate() {
            let path = subset.field_path("ports").index(index);
            check_port_of_endpoint(&FieldView { value: port, old: None, path }, ports.len() > 1, causes);
        }
    }
}

fn check_endpoint(at: &FieldView<'_, '_>, causes: &mut Causes) {
    let (ip, field) = (at.text("ip"), at.field_path("ip"));
    check_address(&field, ip, causes);
    if !at.text("hostname").is_empty() {
        NameFormat::Label.check(&at.field_path("hostname"), at.text("hostname"), causes);
    }
    if at.get("nodeName").is_some() {
        NameFormat::Subdomain.check(&at.field_path("nodeName"), at.text("nodeName"), causes);
    }
    check_unicast(&field, ip, causes);
}

/// Validates that other machines can reach an address.
pub(crate) fn check_unicast(field: &dyn Display, text: &str, causes: &mut Causes) {
    let why = match address(text) {
        None => "must be a valid IP address",
        Some(ip) if ip.is_unspecified() => "may not be unspecified (0.0.0.0 or ::)",
        Some(ip) if ip.is_loopback() => "may not be in the loopback range (127.0.0.0/8, ::1/128)",
        Some(IpAddr::V4(ip)) if ip.is_link_local() => {
            "may not be in the link-local range (169.254.0.0/16, fe80::/10)"
        }
        Some(IpAddr::V6(ip)) if ip.is_unicast_link_local() => {
            "may not be in the link-local range (169.254.0.0/16, fe80::/10)"
        }
        Some(ip) if is_link_local_multicast(ip) => {
            "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"
        }
        Some(_) => return,
    };
    causes.push(Cause::invalid(field, &format!("{text:?}"), why));
}

fn is_link_local_multicast(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.octets()[..3] == [224, 0, 0],
        IpAddr::V6(ip) => ip.segments()[0] & 0xff0f == 0xff02,
    }
}

fn check_port_of_endpoint(at: &FieldView<'_, '_>, needs_name: bool, causes: &mut Causes) {
    let name = at.text("name");
    if name.is_empty() && needs_name {
        causes.push(required(&at.field_path("name"), ""));
    } else if !name.is_empty() {
        NameFormat::Label.check(&at.field_path("name"), name, causes);
    }
    check_port(&at.field_path("port"), at.number("port").unwrap_or_default(), causes);
    run(at, &[Check::OneOf("protocol", &["SCTP", "TCP", "UDP"])], causes);
    if at.get("appProtocol").is_some() {
        NameFormat::Qualified.check(&at.field_path("appProtocol"), at.text("appProtocol"), causes);
    }
}

const MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";

fn warn(endpoints: &Value) -> Vec<String> {
    if endpoints["metadata"]["labels"][MANAGED_BY] == "endpoint-controller" {
        return Vec::new();
    }
    let mut warnings = Vec::new();
    for (index, subset) in list(&endpoints["subsets"]).enumerate() {
        for which in ["addresses", "notReadyAddresses"] {
            warnings.extend(item_address_warnings(
                &subset[which],
                "ip",
                &format!("subsets[{index}].{which}"),
            ));
        }
    }
    warnings
}

fn cells(row: &TableRow<'_>) -> Vec<Value> {
    vec![row.name(), json!(endpoints(row.object)), row.age()]
}

fn endpoints(object: &Value) -> String {
    let all: Vec<String> = list(&object["subsets"])
        .flat_map(|subset| {
            list(&subset["addresses"]).flat_map(move |address| {
                list(&subset["ports"])
                    .map(move |port| format!("{}:{}", text(&address["ip"]), number(&port["port"])))
            })
        })
        .collect();
    match all.len() {
        0 => NONE.to_owned(),
        count @ 1..=3 => all[..count].join(","),
        count => format!("{} + {} more...", all[..3].join(","), count - 3),
    }
}

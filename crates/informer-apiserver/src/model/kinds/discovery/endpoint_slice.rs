use serde_json::{Value, json};

use crate::model::cause::Cause;
use crate::model::kinds::Traits;
use crate::model::kinds::descriptor::KindDescriptor;
use crate::model::rules::Rules;
use crate::model::rules::checks::{
    Check, FieldView, NameFormat, check_immutable, check_unique, required, run, unsupported,
};
use crate::model::rules::defaults::Default::{self, Call, Fill, In};
use crate::model::rules::path::{get, set};
use crate::model::rules::ranges::{address_problem, canonical_problem};
use crate::model::rules::warnings::{address_warnings, list, text, value_warnings};
use crate::model::table::TableRow;
use crate::model::table::text::{UNSET, int_or_text, joined};

pub(crate) static DESCRIPTOR: KindDescriptor =
    KindDescriptor::new("discovery.k8s.io", "v1", "EndpointSlice", Traits::GENERATION)
        .with_traits(Traits::REVALIDATES_METADATA)
        .bookmark(r#","addressType":"","endpoints":null,"ports":null"#)
        .null_list("endpoints")
        .rules(Rules::new(&[In("ports[]", PORT)], &[Check::Call(validate)]).changes(UPDATE_CHECKS))
        .warnings(|slice, old| warn(slice, old.is_none()))
        .cells(cells);

const PORT: &[Default] = &[Call(default_port_name), Fill("protocol", "\"TCP\"")];

/// Defaults the `name` of a port to the empty string, as in Go, where this field is a pointer.
fn default_port_name(port: &mut Value) {
    if get(port, "name").is_none() {
        set(port, "name", "".into());
    }
}

pub(crate) const UPDATE_CHECKS: &[Check] =
    &[Check::Call(|at, causes| check_immutable(at, "addressType", causes))];

fn validate(at: &FieldView<'_>, causes: &mut Vec<Cause>) {
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
        if port.get("appProtocol").is_some() {
            NameFormat::Qualified.check(&port.field_path("appProtocol"), port.text("appProtocol"), causes);
        }
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
        if endpoint.get("nodeName").is_some() {
            NameFormat::Subdomain.check(&endpoint.field_path("nodeName"), endpoint.text("nodeName"), causes);
        }
        if endpoint.get("hostname").is_some() {
            NameFormat::Label.check(&endpoint.field_path("hostname"), endpoint.text("hostname"), causes);
        }
    }
}

const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";

fn warn(slice: &Value, new: bool) -> Vec<String> {
    let mut warnings = Vec::new();
    if new && slice["addressType"] == "FQDN" {
        warnings.push("spec.addressType: FQDN endpoints are deprecated".to_owned());
    }
    let by = text(&slice["metadata"]["labels"][MANAGED_BY]);
    if matches!(by, "endpointslice-controller.k8s.io" | "endpointslicemirroring-controller.k8s.io") {
        return warnings;
    }
    for (index, endpoint) in list(&slice["endpoints"]).enumerate() {
        warnings.extend(value_warnings(
            &endpoint["addresses"],
            &format!("endpoints[{index}].addresses"),
            address_warnings,
        ));
    }
    warnings
}

fn cells(row: &TableRow<'_>) -> Vec<Value> {
    let slice = row.object;
    let ports: Vec<String> = list(&slice["ports"]).map(|port| int_or_text(&port["port"], "*")).collect();
    let addresses = list(&slice["endpoints"]).flat_map(|endpoint| list(&endpoint["addresses"]));
    vec![
        row.name(),
        json!(text(&slice["addressType"])),
        json!(joined(ports.iter().map(String::as_str), UNSET)),
        json!(joined(addresses.map(text), UNSET)),
        row.age(),
    ]
}

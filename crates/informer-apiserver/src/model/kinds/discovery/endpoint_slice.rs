use std::collections::HashSet;
use std::fmt::Display;

use serde_json::{Value, json};

use crate::model::cause::{Cause, Causes};
use crate::model::kinds::Traits;
use crate::model::kinds::core::endpoints::check_unicast;
use crate::model::kinds::descriptor::KindDescriptor;
use crate::model::labels::label_value_problems;
use crate::model::rules::Rules;
use crate::model::rules::checks::{
    Check, FieldView, NameFormat, check_immutable, duplicate, label_problems, required, run, unsupported,
};
use crate::model::rules::defaults::Default::{self, Call, Fill, In};
use crate::model::rules::field_path::FieldPath;
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

fn validate(at: &FieldView<'_, '_>, causes: &mut Causes) {
    const KINDS: &[&str] = &["FQDN", "IPv4", "IPv6"];
    let kind = at.text("addressType");
    if kind.is_empty() {
        causes.push(required(&"addressType", ""));
        return;
    }
    if !KINDS.contains(&kind) {
        causes.push(unsupported(&"addressType", kind, KINDS));
    }
    for (index, port) in at.items("ports").iter().enumerate() {
        let port = FieldView { value: port, old: None, path: FieldPath::new("ports").index(index) };
        let name = port.text("name");
        if !name.is_empty() {
            NameFormat::Label.check(&port.field_path("name"), name, causes);
        }
        run(&port, &[Check::OneOf("protocol", &["SCTP", "TCP", "UDP"])], causes);
        if port.get("appProtocol").is_some() {
            NameFormat::Qualified.check(&port.field_path("appProtocol"), port.text("appProtocol"), causes);
        }
    }
    let mut names = HashSet::new();
    for port in at.elements("ports").filter(|port| !names.insert(port.text("name"))) {
        causes.push(duplicate(&port.field_path("name"), &format!("{:?}", port.text("name"))));
    }
    // As in kube-apiserver, an update does not validate endpoints if it changes none.
    if at.old.is_none_or(|old| old["endpoints"] != at.value["endpoints"]) {
        at.elements("endpoints").for_each(|endpoint| check_endpoint(&endpoint, kind, causes));
    }
}

/// The maximum number of addresses of an endpoint, as in kube-apiserver.
const MAX_ADDRESSES: usize = 100;

fn check_endpoint(at: &FieldView<'_, '_>, kind: &str, causes: &mut Causes) {
    let (field, count) = (at.field_path("addresses"), at.items("addresses").len());
    if count == 0 {
        causes.push(required(&field, "must contain at least 1 address"));
    } else if count > MAX_ADDRESSES {
        causes.push(Cause::too_many(&field, count, MAX_ADDRESSES));
    }
    for address in at.elements("addresses") {
        check_endpoint_address(at, &address, kind, causes);
    }
    if at.get("nodeName").is_some() {
        NameFormat::Subdomain.check(&at.field_path("nodeName"), at.text("nodeName"), causes);
    }
    if at.get("hostname").is_some() {
        NameFormat::Label.check(&at.field_path("hostname"), at.text("hostname"), causes);
    }
    check_hints(&at.part("hints"), causes);
}

fn check_endpoint_address(
    endpoint: &FieldView<'_, '_>,
    address: &FieldView<'_, '_>,
    kind: &str,
    causes: &mut Causes,
) {
    let (field, text) = (&address.path, address.value.as_str().unwrap_or_default());
    let problem = match kind {
        "IPv4" => address_problem(text).map(str::to_owned),
        "IPv6" => canonical_problem(text),
        "FQDN" => return check_domain_name(field, text, causes),
        _ => return,
    };
    if let Some(why) = problem {
        return causes.push(Cause::invalid(field, &format!("{text:?}"), &why));
    }
    if text.contains(':') != (kind == "IPv6") {
        let why = format!("must be an {kind} address");
        causes.push(Cause::invalid(&endpoint.field_path("addresses"), &format!("{text:?}"), &why));
    }
    check_unicast(field, text, causes);
}

/// Validates a domain name of two or more labels. It may end with a dot.
fn check_domain_name(field: &dyn Display, text: &str, causes: &mut Causes) {
    if text.is_empty() {
        return causes.push(required(field, ""));
    }
    let name = text.strip_suffix('.').unwrap_or(text);
    let invalid = |shown: &str, why: &str| Cause::invalid(field, &format!("{shown:?}"), why);
    if !NameFormat::Subdomain.is_valid(name) {
        NameFormat::Subdomain.check(field, name, causes);
    } else if !name.contains('.') {
        causes.push(invalid(name, "should be a domain with at least two segments separated by dots"));
    } else if let Some(label) = name.split('.').find(|label| !NameFormat::Label.is_valid(label)) {
        causes.push(invalid(label, &label_problems(label).join(",")));
    }
}

/// The maximum number of zones or nodes in the hints of an endpoint, as in kube-apiserver.
const MAX_HINTS: usize = 8;

fn check_hints(at: &FieldView<'_, '_>, causes: &mut Causes) {
    for list in ["forZones", "forNodes"] {
        let length = at.items(list).len();
        if length > MAX_HINTS {
            causes.push(Cause::too_many(&at.field_path(list), length, MAX_HINTS));
        }
        let mut names = HashSet::new();
        for hint in at.elements(list) {
            let (field, name) = (hint.field_path("name"), hint.text("name"));
            if !names.insert(name) {
                causes.push(duplicate(&field, &format!("{name:?}")));
            }
            if list == "forNodes" {
                NameFormat::Subdomain.check(&field, name, causes);
            } else {
                let invalid = |why: &&str| Cause::invalid(&field, &format!("{name:?}"), why);
                causes.extend(label_value_problems(name).iter().map(invalid));
            }
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

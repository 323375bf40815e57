use std::collections::HashSet;

use serde_json::{Value, json};

use crate::model::cause::{Cause, Causes};
use crate::model::kinds::Traits;
use crate::model::kinds::descriptor::KindDescriptor;
use crate::model::kinds::workload::selector_cell;
use crate::model::rules::Rules;
use crate::model::rules::checks::{
    Check, FieldView, NameFormat, check_port, check_selector, is_missing, required, run, unsupported,
};
use crate::model::rules::defaults::Default::{self, Call, In};
use crate::model::rules::defaults::TCP;
use crate::model::rules::path::{get, set};
use crate::model::rules::ranges::{check_range, is_strict_subset, range};
use crate::model::rules::warnings::{list, range_warnings, text, value_warnings};
use crate::model::table::TableRow;

pub(crate) static DESCRIPTOR: KindDescriptor =
    KindDescriptor::new("networking.k8s.io", "v1", "NetworkPolicy", Traits::GENERATION)
        .rules(Rules::new(DEFAULTS, &[Check::Call(validate)]))
        .warnings(|policy, _| warn(policy))
        .cells(cells);

const DEFAULTS: &[Default] = &[
    In("spec", &[Call(default_policy_types)]),
    In("spec.ingress[].ports[]", TCP),
    In("spec.egress[].ports[]", TCP),
];

fn default_policy_types(spec: &mut Value) {
    if is_missing(get(spec, "policyTypes")) {
        let egress = !is_missing(get(spec, "egress"));
        set(spec, "policyTypes", if egress { json!(["Ingress", "Egress"]) } else { json!(["Ingress"]) });
    }
}

fn validate(at: &FieldView<'_, '_>, causes: &mut Causes) {
    let spec = at.part("spec");
    check_selector(&spec.part("podSelector"), causes);
    let before = spec.old.map(ranges).unwrap_or_default();
    for (list, peers) in [("ingress", "from"), ("egress", "to")] {
        for (index, rule) in spec.items(list).iter().enumerate() {
            let rule = FieldView { value: rule, old: None, path: spec.field_path(list).index(index) };
            for (index, port) in rule.items("ports").iter().enumerate() {
                let port = FieldView { value: port, old: None, path: rule.field_path("ports").index(index) };
                run(&port, &[Check::OneOf("protocol", &["TCP", "UDP", "SCTP"])], causes);
                check_ports(&port, causes);
            }
            for (index, peer) in rule.items(peers).iter().enumerate() {
                if peer.as_object().is_none_or(serde_json::Map::is_empty) {
                    causes.push(required(&rule.field_path(peers).index(index), "must specify a peer"));
                }
                let peer_view =
                    FieldView { value: peer, old: None, path: rule.field_path(peers).index(index) };
                for selector in ["podSelector", "namespaceSelector"] {
                    if peer[selector].is_object() {
                        check_selector(&peer_view.part(selector), causes);
                    }
                }
                let selects = peer["podSelector"].is_object() || peer["namespaceSelector"].is_object();
                if selects && peer["ipBlock"].is_object() {
                    let why = "may not specify both ipBlock and another peer";
                    causes.push(Cause::forbidden(&peer_view.path, why));
                }
                if peer["ipBlock"].is_object() {
                    block(&peer_view.part("ipBlock"), &before, causes);
                }
            }
        }
    }
    let types = spec.items("policyTypes");
    if types.len() > 2 {
        let why = "may not specify more than two policyTypes";
        let shown = Value::from(types).to_string();
        return causes.push(Cause::invalid(&spec.field_path("policyTypes"), &shown, why));
    }
    for (index, kind) in types.iter().filter_map(Value::as_str).enumerate() {
        if !matches!(kind, "Ingress" | "Egress") {
            let field = spec.field_path("policyTypes").index(index);
            causes.push(unsupported(&field, kind, &["Ingress", "Egress"]));
        }
    }
}

fn check_ports(at: &FieldView<'_, '_>, causes: &mut Causes) {
    let (field, end_field) = (at.field_path("port"), at.field_path("endPort"));
    let end = at.number("endPort");
    let invalid_end = |why: &str| end.map(|end| Cause::invalid(&end_field, &end.to_string(), why));
    match at.get("port") {
        None => causes.extend(invalid_end("may not be specified when `port` is not specified")),
        Some(Value::String(name)) => {
            causes.extend(invalid_end("may not be specified when `port` is non-numeric"));
            NameFormat::PortName.check(&field, name, causes);
        }
        Some(_) => {
            let first = at.number("port").unwrap_or_default();
            check_port(&field, first, causes);
            if end.is_some_and(|end| end < first) {
                causes.extend(invalid_end("must be greater than or equal to `port`"));
            }
            if let Some(end) = end {
                check_port(&end_field, end, causes);
            }
        }
    }
}

/// Returns all CIDRs of a NetworkPolicy. An update does not validate a CIDR again that the stored object has
/// at any position.
fn ranges(spec: &Value) -> HashSet<&str> {
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

fn block(at: &FieldView<'_, '_>, before: &HashSet<&str>, causes: &mut Causes) {
    let whole = at.text("cidr");
    if whole.is_empty() {
        causes.push(required(&at.field_path("cidr"), ""));
        return;
    }
    check_range(&at.field_path("cidr"), whole, before, causes);
    let Some(whole) = range(whole) else { return };
    for (index, except) in at.items("except").iter().filter_map(Value::as_str).enumerate() {
        let field = at.field_path("except").index(index);
        check_range(&field, except, before, causes);
        if range(except).is_some_and(|except| !is_strict_subset(except, whole)) {
            let why = "must be a strict subset of `cidr`";
            causes.push(Cause::invalid(&field, &format!("{except:?}"), why));
        }
    }
}

fn warn(policy: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    for (which, peers) in [("ingress", "from"), ("egress", "to")] {
        for (index, rule) in list(&policy["spec"][which]).enumerate() {
            for (place, peer) in
                list(&rule[peers]).enumerate().filter(|(_, peer)| peer["ipBlock"].is_object())
            {
                let (block, path) =
                    (&peer["ipBlock"], format!("spec.{which}[{index}].{peers}[{place}].ipBlock"));
                warnings.extend(range_warnings(&format!("{path}.cidr"), text(&block["cidr"])));
                warnings.extend(value_warnings(&block["except"], &format!("{path}.except"), range_warnings));
            }
        }
    }
    warnings
}

fn cells(row: &TableRow<'_>) -> Vec<Value> {
    vec![row.name(), selector_cell(&row.spec()["podSelector"]), row.age()]
}

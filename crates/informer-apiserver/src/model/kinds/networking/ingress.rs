use serde_json::{Value, json};

use crate::model::cause::{Cause, Causes};
use crate::model::kinds::Traits;
use crate::model::kinds::descriptor::KindDescriptor;
use crate::model::rules::checks::{
    Check, FieldView, NameFormat, check_port, is_missing, required, run, unsupported,
};
use crate::model::rules::warnings::{has_annotation, list, load_balancer_warnings, text};
use crate::model::rules::{Rules, path_segment_problems};
use crate::model::table::TableRow;
use crate::model::table::text::{NONE, joined, or, size};

pub(crate) static DESCRIPTOR: KindDescriptor =
    KindDescriptor::new("networking.k8s.io", "v1", "Ingress", Traits::SPEC_STATUS)
        .with_traits(Traits::REVALIDATES_METADATA)
        .bookmark(r#","spec":{},"status":{"loadBalancer":{}}"#)
        .initial_status(r#"{"loadBalancer":{}}"#)
        .rules(Rules::new(&[], &[Check::Call(validate)]))
        .warnings(|ingress, old| if old.is_none() { warn(ingress) } else { Vec::new() })
        .status_warnings(load_balancer_warnings)
        .cells(cells);

fn validate(at: &FieldView<'_, '_>, causes: &mut Causes) {
    let spec = at.part("spec");
    if is_missing(spec.get("rules")) && spec.get("defaultBackend").is_none() {
        let why = "either `defaultBackend` or `rules` must be specified";
        causes.push(Cause::invalid("spec", "null", why));
    }
    if spec.get("ingressClassName").is_some() {
        let class = spec.text("ingressClassName");
        NameFormat::Subdomain.check(&spec.field_path("ingressClassName"), class, causes);
    }
    for (index, tls) in spec.items("tls").iter().enumerate() {
        let path = spec.field_path("tls").index(index);
        check_tls(&FieldView { value: tls, old: None, path }, causes);
    }
    if spec.get("defaultBackend").is_some() {
        backend(&spec.part("defaultBackend"), causes);
    }
    for (index, rule) in spec.items("rules").iter().enumerate() {
        let rule = FieldView { value: rule, old: None, path: spec.field_path("rules").index(index) };
        let host = rule.text("host");
        if !host.is_empty() && !host.starts_with("*.") {
            NameFormat::Subdomain.check(&rule.field_path("host"), host, causes);
        }
        if rule.get("http").is_some() && rule.items("http.paths").is_empty() {
            causes.push(required(&rule.field_path("http.paths"), ""));
        }
        for (index, path) in rule.items("http.paths").iter().enumerate() {
            ingress_path(
                &FieldView { value: path, old: None, path: rule.field_path("http.paths").index(index) },
                causes,
            );
        }
    }
}

fn check_tls(at: &FieldView<'_, '_>, causes: &mut Causes) {
    for (index, host) in at.items("hosts").iter().filter_map(Value::as_str).enumerate() {
        if !host.starts_with("*.") {
            NameFormat::Subdomain.check(&at.field_path("hosts").index(index), host, causes);
        }
    }
    run(at, &[Check::NameFormat("secretName", NameFormat::Subdomain)], causes);
}

fn ingress_path(at: &FieldView<'_, '_>, causes: &mut Causes) {
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

fn backend(at: &FieldView<'_, '_>, causes: &mut Causes) {
    match (at.get("service"), at.get("resource")) {
        (None, None) => causes.push(required(&at.path, "resource or service backend is required")),
        (Some(_), Some(_)) => {
            causes.push(Cause::invalid(&at.path, "\"\"", "cannot set both resource and service backends"));
        }
        (Some(_), None) => {
            let service = at.part("service");
            match service.text("name") {
                "" => causes.push(required(&service.field_path("name"), "")),
                name => NameFormat::Label.check(&service.field_path("name"), name, causes),
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
        (None, Some(_)) => {
            let resource = at.part("resource");
            run(&resource, &[Check::NameFormat("apiGroup", NameFormat::Subdomain)], causes);
            for name in ["kind", "name"] {
                match resource.text(name) {
                    "" => causes.push(required(&resource.field_path(name), "")),
                    value => {
                        let field = resource.field_path(name);
                        let invalid = |why: &&str| Cause::invalid(&field, &format!("{value:?}"), why);
                        causes.extend(path_segment_problems(value).iter().map(invalid));
                    }
                }
            }
        }
    }
}

fn warn(ingress: &Value) -> Vec<String> {
    const ANNOTATION: &str = "kubernetes.io/ingress.class";
    let old_way = has_annotation(ingress, ANNOTATION) && ingress["spec"]["ingressClassName"].is_null();
    let warning =
        format!("annotation {ANNOTATION:?} is deprecated, please use 'spec.ingressClassName' instead");
    old_way.then_some(warning).into_iter().collect()
}

fn cells(row: &TableRow<'_>) -> Vec<Value> {
    let (spec, status) = (row.spec(), row.status());
    let hosts = list(&spec["rules"]).map(|rule| or(&rule["host"], "*"));
    let addresses =
        list(&status["loadBalancer"]["ingress"]).map(|one| or(&one["ip"], text(&one["hostname"])));
    vec![
        row.name(),
        json!(or(&spec["ingressClassName"], NONE)),
        json!(joined(hosts, "*")),
        json!(joined(addresses, "")),
        json!(if size(&spec["tls"]) > 0 { "80, 443" } else { "80" }),
        row.age(),
    ]
}

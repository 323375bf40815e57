//! Validation of `clientConfig` in admission webhooks and in CRD conversion webhooks.

use std::collections::HashSet;
use std::fmt::Display;

use serde_json::Value;

use crate::model::cause::{Cause, Causes};
use crate::model::labels::SUBDOMAIN_RULE;
use crate::model::rules::checks::{FieldView, NameFormat, required, unsupported};
use crate::model::rules::field_path::FieldPath;

pub(crate) fn check_conversion(conversion: &Value, path: &str, causes: &mut Causes) {
    const STRATEGIES: &[&str] = &["None", "Webhook"];
    let at = FieldView { value: conversion, old: None, path: FieldPath::new(path) };
    match at.text("strategy") {
        "" => causes.push(required(&at.field_path("strategy"), "")),
        other if !STRATEGIES.contains(&other) => {
            causes.push(unsupported(&at.field_path("strategy"), other, STRATEGIES));
        }
        _ => {}
    }
    // As in kube-apiserver, errors contain the field paths of its internal type.
    let (webhook, client_path) = (at.part("webhook"), at.field_path("webhookClientConfig"));
    let reviews = FieldView { value: webhook.value, old: None, path: FieldPath::new(path) };
    let given = webhook.get("clientConfig").is_some();
    if at.text("strategy") == "Webhook" {
        if given {
            check_client_config(&FieldView { path: client_path, ..webhook.part("clientConfig") }, causes)
        } else {
            causes.push(required(&client_path, "required when strategy is set to Webhook"))
        }
        check_review_versions(&reviews, "conversionReviewVersions", "", causes);
        return;
    }
    let why = "should not be set when strategy is not set to Webhook";
    if given {
        causes.push(Cause::forbidden(&client_path, why));
    }
    if !reviews.items("conversionReviewVersions").is_empty() {
        causes.push(Cause::forbidden(&reviews.field_path("conversionReviewVersions"), why));
    }
}

pub(crate) fn check_review_versions(at: &FieldView<'_, '_>, name: &str, none: &str, causes: &mut Causes) {
    let field = at.field_path(name);
    let given: Vec<&str> = at.items(name).iter().filter_map(Value::as_str).collect();
    if given.is_empty() {
        causes.push(required(&field, none));
        return;
    }
    let mut seen = HashSet::new();
    for (index, version) in given.iter().enumerate() {
        let field = field.index(index);
        if seen.insert(*version) {
            NameFormat::Label1035.check(&field, version, causes);
        } else {
            causes.push(Cause::invalid(&field, &format!("{version:?}"), "duplicate version"));
        }
    }
    if !given.iter().any(|version| matches!(*version, "v1" | "v1beta1")) {
        let shown = at.get(name).map(ToString::to_string).unwrap_or_default();
        causes.push(Cause::invalid(&field, &shown, "must include at least one of v1, v1beta1"));
    }
}

pub(crate) fn check_client_config(at: &FieldView<'_, '_>, causes: &mut Causes) {
    match (at.get("url"), at.get("service")) {
        (Some(_), None) => check_url(&at.field_path("url"), at.text("url"), causes),
        (None, Some(_)) => check_service(&at.part("service"), causes),
        _ => causes.push(required(&at.path, "exactly one of url or service is required")),
    }
}

fn check_url(field: &dyn Display, url: &str, causes: &mut Causes) {
    const FORM: &str = "; desired format: https://host[/path]";
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let (rest, fragment) = rest.split_once('#').unwrap_or((rest, ""));
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let authority = rest.split('/').next().unwrap_or_default();
    let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
    let mut wrong = |value: &str, why: &str| {
        causes.push(Cause::invalid(field, &format!("{value:?}"), why));
    };
    if scheme != "https" {
        wrong(scheme, &format!("'https' is the only allowed URL scheme{FORM}"));
    }
    if host.is_empty() {
        wrong("", &format!("host must be specified{FORM}"));
    }
    if !user.is_empty() {
        wrong(user, "user information is not permitted in the URL");
    }
    if !fragment.is_empty() {
        wrong(fragment, "fragments are not permitted in the URL");
    }
    if !query.is_empty() {
        wrong(query, "query parameters are not permitted in the URL");
    }
}

fn check_service(at: &FieldView<'_, '_>, causes: &mut Causes) {
    for name in ["name", "namespace"] {
        if at.text(name).is_empty() {
            causes.push(required(&at.field_path(name), ""));
        }
    }
    if let Some(port) = at.number("port").filter(|port| !(1..=65_535).contains(port)) {
        let why = "port is not valid: must be between 1 and 65535, inclusive";
        causes.push(Cause::invalid(&at.field_path("port"), &port.to_string(), why));
    }
    let path = at.text("path");
    let mut wrong =
        |why: &str| causes.push(Cause::invalid(&at.field_path("path"), &format!("{path:?}"), why));
    match path {
        "" | "/" => return,
        "//" => return wrong("segment[0] may not be empty"),
        path if !path.starts_with('/') => wrong("must start with a '/'"),
        _ => {}
    }
    // As in kube-apiserver, the first character of the path is dropped, whichever it is.
    let steps = path.char_indices().nth(1).map_or("", |(at, _)| &path[at..]);
    for (index, step) in steps.strip_suffix('/').unwrap_or(steps).split('/').enumerate() {
        if step.is_empty() {
            wrong(&format!("segment[{index}] may not be empty"));
        } else if !NameFormat::Subdomain.is_valid(step) {
            wrong(&format!("segment[{index}]: {}", SUBDOMAIN_RULE));
        }
    }
}

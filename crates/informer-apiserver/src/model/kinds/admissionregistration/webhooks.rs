//! Defaults and validation of webhook configurations.

use std::collections::HashSet;

use serde_json::{Value, json};

use crate::model::cause::{Cause, Causes};
use crate::model::cel::Declared;
use crate::model::rules::checks::{
    Check, FieldView, NameFormat, check_selector, duplicate, required, run, unsupported,
};
use crate::model::rules::defaults::Default::{self, Fill, In};
use crate::model::rules::field_path::FieldPath;
use crate::model::rules::webhook_client::{check_client_config, check_review_versions};
use crate::model::table::TableRow;
use crate::model::table::text::size;

pub(crate) const WEBHOOK_DEFAULTS: &[Default] = &[
    Fill("failurePolicy", "\"Fail\""),
    Fill("matchPolicy", "\"Equivalent\""),
    Fill("namespaceSelector", "{}"),
    Fill("objectSelector", "{}"),
    Fill("timeoutSeconds", "10"),
    In("rules[]", &[Fill("scope", "\"*\"")]),
    In("clientConfig.service", &[Fill("port", "443")]),
];

pub(crate) const CONFIGURATION: &[Check] = &[Check::Call(configuration)];
const OPERATIONS: &[&str] = &["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];

const MAX_CONDITIONS: usize = 64;

const SIDE_EFFECTS: &[&str] = &["None", "NoneOnDryRun"];

fn configuration(at: &FieldView<'_, '_>, causes: &mut Causes) {
    let mut names = HashSet::new();
    for (index, hook) in at.items("webhooks").iter().enumerate() {
        let hook = FieldView { value: hook, old: None, path: FieldPath::new("webhooks").index(index) };
        webhook(&hook, causes);
        check_review_versions_of_webhook(&hook, causes);
        let name = hook.text("name");
        if !name.is_empty() && !names.insert(name) {
            causes.push(duplicate(&hook.field_path("name"), &format!("{name:?}")));
        }
    }
}

fn webhook(at: &FieldView<'_, '_>, causes: &mut Causes) {
    let name = at.text("name");
    if name.is_empty() {
        causes.push(required(&at.field_path("name"), ""));
    } else if !NameFormat::Subdomain.is_valid(name) {
        NameFormat::Subdomain.check(&at.field_path("name"), name, causes);
    } else if name.split('.').count() < 3 {
        let why = "should be a domain with at least three segments separated by dots";
        causes.push(Cause::invalid(&at.field_path("name"), &format!("{name:?}"), why));
    }
    for (index, rule) in at.items("rules").iter().enumerate() {
        check_rule(&FieldView { value: rule, old: None, path: at.field_path("rules").index(index) }, causes);
    }
    let policies = &[
        Check::OneOf("failurePolicy", &["Fail", "Ignore"]),
        Check::OneOf("matchPolicy", &["Equivalent", "Exact"]),
    ];
    run(at, policies, causes);
    match at.text("sideEffects") {
        "" => causes.push(required(&at.field_path("sideEffects"), "must specify one of None, NoneOnDryRun")),
        other if !SIDE_EFFECTS.contains(&other) => {
            causes.push(unsupported(&at.field_path("sideEffects"), other, SIDE_EFFECTS));
        }
        _ => {}
    }
    if let Some(seconds) = at.number("timeoutSeconds").filter(|seconds| !(1..=30).contains(seconds)) {
        let why = "the timeout value must be between 1 and 30 seconds";
        causes.push(Cause::invalid(&at.field_path("timeoutSeconds"), &seconds.to_string(), why));
    }
    for name in ["namespaceSelector", "objectSelector"] {
        check_selector(&at.part(name), causes);
    }
    run(at, &[Check::OneOf("reinvocationPolicy", &["IfNeeded", "Never"])], causes);
    check_client_config(&at.part("clientConfig"), causes);
    check_conditions(at, false, causes);
}

/// Validates match conditions. `params` is true if they belong to a policy with parameters.
pub(crate) fn check_conditions(at: &FieldView<'_, '_>, params: bool, causes: &mut Causes) {
    let declared = Declared::new(params);
    let count = at.items("matchConditions").len();
    if count > MAX_CONDITIONS {
        causes.push(Cause::too_many(&at.field_path("matchConditions"), count, MAX_CONDITIONS));
    }
    let mut names = HashSet::new();
    for (index, condition) in at.items("matchConditions").iter().enumerate() {
        let path = at.field_path("matchConditions").index(index);
        let condition = FieldView { value: condition, old: None, path };
        match condition.text("expression").trim() {
            "" => causes.push(required(&condition.field_path("expression"), "")),
            text => {
                if let Some(why) = declared.problem(text, &["bool"]) {
                    causes.push(Cause::invalid(
                        &condition.field_path("expression"),
                        &format!("{text:?}"),
                        &why,
                    ));
                }
            }
        }
        match condition.text("name") {
            "" => causes.push(required(&condition.field_path("name"), "")),
            name => {
                NameFormat::Qualified.check(&condition.field_path("name"), name, causes);
                if !names.insert(name) {
                    causes.push(duplicate(&condition.field_path("name"), &format!("{name:?}")));
                }
            }
        }
    }
}

fn check_review_versions_of_webhook(at: &FieldView<'_, '_>, causes: &mut Causes) {
    check_review_versions(at, "admissionReviewVersions", "must specify one of v1, v1beta1", causes);
}

pub(crate) fn check_rule(at: &FieldView<'_, '_>, causes: &mut Causes) {
    let list = |name: &str| -> Vec<&str> { at.items(name).iter().filter_map(Value::as_str).collect() };
    let shown = |name: &str| at.get(name).map(ToString::to_string).unwrap_or_default();
    for (name, what) in
        [("operations", "operations"), ("apiGroups", "API groups"), ("apiVersions", "API versions")]
    {
        let items = list(name);
        if items.is_empty() {
            causes.push(required(&at.field_path(name), ""));
        }
        if items.len() > 1 && items.contains(&"*") {
            let why = format!("if '*' is present, must not specify other {what}");
            causes.push(Cause::invalid(&at.field_path(name), &shown(name), &why));
        }
        for (index, item) in items.iter().enumerate() {
            let field = at.field_path(name).index(index);
            match name {
                "operations" if !OPERATIONS.contains(item) => {
                    causes.push(unsupported(&field, item, OPERATIONS))
                }
                "apiVersions" if item.is_empty() => causes.push(required(&field, "")),
                _ => {}
            }
        }
    }
    resources(at, &list("resources"), &shown("resources"), causes);
    run(at, &[Check::OneOf("scope", &["*", "Cluster", "Namespaced"])], causes);
}

fn resources(at: &FieldView<'_, '_>, items: &[&str], shown: &str, causes: &mut Causes) {
    let field = at.field_path("resources");
    if items.is_empty() {
        causes.push(required(&field, ""));
    }
    let (mut whole, mut subs, mut plain) = (HashSet::new(), HashSet::new(), false);
    for (index, item) in items.iter().enumerate() {
        let field = field.index(index);
        if item.is_empty() {
            causes.push(required(&field, ""));
            continue;
        }
        let Some((resource, sub)) = item.split_once('/') else {
            plain = *item != "*";
            continue;
        };
        let mut wrong = |present: String| {
            let why = format!("if '{present}' is present, must not specify {item}");
            causes.push(Cause::invalid(&field, &format!("{item:?}"), &why));
        };
        if whole.contains(resource) {
            wrong(format!("{resource}/*"));
        }
        if subs.contains(sub) {
            wrong(format!("*/{sub}"));
        }
        if sub == "*" {
            whole.insert(resource);
        }
        if resource == "*" {
            subs.insert(sub);
        }
    }
    if items.len() > 1 && items.contains(&"*/*") {
        let why = "if '*/*' is present, must not specify other resources";
        causes.push(Cause::invalid(&field, shown, why));
    }
    if items.contains(&"*") && plain {
        let why = "if '*' is present, must not specify other resources without subresources";
        causes.push(Cause::invalid(&field, shown, why));
    }
}

pub(crate) fn configuration_cells(row: &TableRow<'_>) -> Vec<Value> {
    vec![row.name(), json!(size(&row.object["webhooks"])), row.age()]
}

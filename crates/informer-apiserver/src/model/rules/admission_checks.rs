//! What admission policies and their bindings must have.

use std::collections::HashSet;

use serde_json::Value;

use super::checks::{
    At, Check, Form, LABEL_1035_RULE, check_selector, duplicate, required, run, shown, unsupported,
};
use super::hook_checks::{check_conditions, check_rule};
use crate::model::cel::Declared;
use crate::model::error::Cause;

pub(super) const POLICY: &[Check] = &[Check::Call(|at, causes| policy(&at.part("spec"), at, causes))];
pub(super) const BINDING: &[Check] = &[Check::Call(|at, causes| binding(&at.part("spec"), causes))];

/// Annotations for the audit log that a policy may have, and letters in the expression of one.
const ANNOTATIONS_MAX: usize = 20;
const ANNOTATION_MAX: usize = 5 * 1024;

const ACTIONS: &[&str] = &["Audit", "Deny", "Warn"];
const REASONS: &[&str] = &["Forbidden", "Invalid", "RequestEntityTooLarge"];
const RESERVED: &[&str] = &[
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

fn policy(at: &At<'_>, whole: &At<'_>, causes: &mut Vec<Cause>) {
    let params = constraints(at, causes);
    check_conditions(at, params, causes);
    let declared = variables(at, params, causes);
    let none = |name: &str| at.items(name).is_empty();
    if none("validations") && none("auditAnnotations") {
        let why = "validations or auditAnnotations must contain at least one item";
        causes.extend(["validations", "auditAnnotations"].map(|name| required(&at.at(name), why)));
    }
    for (index, item) in at.items("validations").iter().enumerate() {
        let path = at.at(&format!("validations[{index}]"));
        validation(&At { value: item, old: None, path }, &declared, causes);
    }
    annotations(at, whole.text("metadata.name"), &declared, causes);
}

/// What all policies have: which writes they are for, and whether they have parameters.
pub(super) fn constraints(at: &At<'_>, causes: &mut Vec<Cause>) -> bool {
    run(at, &[Check::OneOf("failurePolicy", &["Fail", "Ignore"])], causes);
    let params = at.get("paramKind").is_some();
    if params {
        param_kind(&at.part("paramKind"), causes);
    }
    match at.get("matchConstraints") {
        None => causes.push(required(&at.at("matchConstraints"), "")),
        Some(_) => {
            let constraints = at.part("matchConstraints");
            match_resources(&constraints, causes);
            if constraints.items("resourceRules").is_empty() {
                causes.push(required(&constraints.at("resourceRules"), ""));
            }
        }
    }
    params
}

/// What may be used by the expressions that come after the variables.
pub(super) fn variables(at: &At<'_>, params: bool, causes: &mut Vec<Cause>) -> Declared {
    let mut declared = Declared::new(params);
    if !at.items("variables").is_empty() {
        declared = declared.with_variables();
    }
    for (index, item) in at.items("variables").iter().enumerate() {
        let item = At { value: item, old: None, path: at.at(&format!("variables[{index}]")) };
        let (name, expression) = (item.text("name"), item.text("expression"));
        if name.trim().is_empty() {
            causes.push(required(&item.at("name"), "name is not specified"));
        } else if !is_identifier(name) {
            let why = "must be a valid CEL identifier";
            causes.push(wrong(&item, "name", why));
        }
        if expression.trim().is_empty() {
            causes.push(required(&item.at("expression"), "expression is not specified"));
        } else if let Some(why) = declared.declare(name, expression) {
            causes.push(wrong(&item, "expression", &why));
        }
    }
    declared
}

fn is_identifier(name: &str) -> bool {
    let part = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    name.chars().all(part)
        && !name.starts_with(|first: char| first.is_ascii_digit())
        && !RESERVED.contains(&name)
}

fn validation(at: &At<'_>, declared: &Declared, causes: &mut Vec<Cause>) {
    match at.text("expression") {
        text if text.trim().is_empty() => {
            causes.push(required(&at.at("expression"), "expression is not specified"));
        }
        text => causes.extend(declared.problem(text, &["bool"]).map(|why| wrong(at, "expression", &why))),
    }
    match at.text("messageExpression") {
        "" => {}
        text if text.trim().is_empty() => {
            causes.push(wrong(at, "messageExpression", "must be non-empty if specified"));
        }
        text => {
            let problem = declared.clone().without_authorizer().problem(text, &["string"]);
            causes.extend(problem.map(|why| wrong(at, "messageExpression", &why)));
        }
    }
    match at.text("message") {
        "" => {}
        text if text.trim().is_empty() => causes.push(wrong(at, "message", "must be non-empty if specified")),
        text if text.trim().contains(['\n', '\r']) => {
            causes.push(wrong(at, "message", "must not contain line breaks"));
        }
        _ => {}
    }
    run(at, &[Check::OneOf("reason", REASONS)], causes);
}

pub(super) fn wrong(at: &At<'_>, name: &str, why: &str) -> Cause {
    Cause::invalid(&at.at(name), &shown(at.get(name)), why)
}

/// Annotations have the name of the policy in their keys.
fn annotations(at: &At<'_>, name: &str, declared: &Declared, causes: &mut Vec<Cause>) {
    let items = at.items("auditAnnotations");
    if items.len() > ANNOTATIONS_MAX {
        let why = format!("must not have more than {ANNOTATIONS_MAX} auditAnnotations");
        causes.push(wrong(at, "auditAnnotations", &why));
    }
    let mut keys = HashSet::new();
    for (index, item) in items.iter().enumerate() {
        let item = At { value: item, old: None, path: at.at(&format!("auditAnnotations[{index}]")) };
        let key = item.text("key");
        Form::Qualified.check(&item.at("key"), &format!("{name}/{key}"), causes);
        let field = item.at("valueExpression");
        match item.text("valueExpression").trim() {
            "" => causes.push(required(&field, "valueExpression is not specified")),
            text if text.len() > ANNOTATION_MAX => {
                causes.push(required(&field, &format!("must not exceed {ANNOTATION_MAX} bytes in length")));
            }
            text => {
                let problem = declared.problem(text, &["string", "null_type"]);
                causes.extend(problem.map(|why| wrong(&item, "valueExpression", &why)));
            }
        }
        if !keys.insert(key) {
            causes.push(duplicate(&item.at("key"), &format!("{key:?}")));
        }
    }
}

fn param_kind(at: &At<'_>, causes: &mut Vec<Cause>) {
    group_version(at, causes);
    match at.text("kind") {
        "" => causes.push(required(&at.at("kind"), "")),
        kind if !Form::Label1035.fits(&kind.to_lowercase()) => {
            let why = format!("may have mixed case, but should otherwise match: {LABEL_1035_RULE}");
            causes.push(wrong(at, "kind", &why));
        }
        _ => {}
    }
}

fn group_version(at: &At<'_>, causes: &mut Vec<Cause>) {
    let (field, whole) = (at.at("apiVersion"), at.text("apiVersion"));
    let (group, version) = match whole.split('/').collect::<Vec<_>>()[..] {
        [""] => return causes.push(required(&field, "")),
        [version] => ("", version),
        [group, version] => (group, version),
        _ => {
            let why = format!("unexpected GroupVersion string: {whole}");
            return causes.push(wrong(at, "apiVersion", &why));
        }
    };
    if !group.is_empty() {
        Form::Subdomain.check(&field, group, causes);
    }
    match version {
        "" => causes.push(wrong(at, "apiVersion", "version must be specified")),
        version => Form::Label1035.check(&field, version, causes),
    }
}

fn match_resources(at: &At<'_>, causes: &mut Vec<Cause>) {
    run(at, &[Check::OneOf("matchPolicy", &["Equivalent", "Exact"])], causes);
    for name in ["namespaceSelector", "objectSelector"] {
        check_selector(&at.part(name), causes);
    }
    for name in ["resourceRules", "excludeResourceRules"] {
        for (index, rule) in at.items(name).iter().enumerate() {
            let rule = At { value: rule, old: None, path: at.at(&format!("{name}[{index}]")) };
            resource_names(&rule, causes);
            check_rule(&rule, causes);
        }
    }
}

fn resource_names(at: &At<'_>, causes: &mut Vec<Cause>) {
    let mut names = HashSet::new();
    for (index, name) in at.items("resourceNames").iter().filter_map(Value::as_str).enumerate() {
        let field = at.at(&format!("resourceNames[{index}]"));
        path_name(&field, name, causes);
        if !names.insert(name) {
            causes.push(duplicate(&field, &format!("{name:?}")));
        }
    }
}

/// A name that may stand in a path.
fn path_name(field: &str, name: &str, causes: &mut Vec<Cause>) {
    let mut wrong = |why: &str| causes.push(Cause::invalid(field, &format!("{name:?}"), why));
    if matches!(name, "." | "..") {
        return wrong(&format!("may not be '{name}'"));
    }
    for sign in ["/", "%"] {
        if name.contains(sign) {
            wrong(&format!("may not contain '{sign}'"));
        }
    }
}

fn binding(at: &At<'_>, causes: &mut Vec<Cause>) {
    bound(at, causes);
    actions(at, causes);
}

/// What all bindings have: a policy, parameters, and the writes that they are for.
pub(super) fn bound(at: &At<'_>, causes: &mut Vec<Cause>) {
    match at.text("policyName") {
        "" => causes.push(required(&at.at("policyName"), "")),
        name => Form::Subdomain.check(&at.at("policyName"), name, causes),
    }
    if at.get("paramRef").is_some() {
        param_ref(&at.part("paramRef"), causes);
    }
    if at.get("matchResources").is_some() {
        match_resources(&at.part("matchResources"), causes);
    }
}

fn actions(at: &At<'_>, causes: &mut Vec<Cause>) {
    let field = at.at("validationActions");
    let mut given = HashSet::new();
    for (index, action) in at.items("validationActions").iter().filter_map(Value::as_str).enumerate() {
        let field = format!("{field}[{index}]");
        if !ACTIONS.contains(&action) {
            causes.push(unsupported(&field, action, ACTIONS));
        }
        if !given.insert(action) {
            causes.push(duplicate(&field, &format!("{action:?}")));
        }
    }
    if given.contains("Deny") && given.contains("Warn") {
        let why = "must not contain both Deny and Warn (repeating the same validation failure information in the API \
                   response and headers serves no purpose)";
        causes.push(Cause::invalid(&field, &shown(at.get("validationActions")), why));
    }
    if given.is_empty() {
        causes.push(required(&field, "at least one validation action is required"));
    }
}

fn param_ref(at: &At<'_>, causes: &mut Vec<Cause>) {
    let (name, selector) = (at.text("name"), at.get("selector").is_some());
    let exclusive = "name and selector are mutually exclusive";
    if !name.is_empty() {
        path_name(&at.at("name"), name, causes);
        if selector {
            causes.push(Cause::forbidden(&at.at("name"), exclusive));
        }
    }
    if selector {
        check_selector(&at.part("selector"), causes);
        if !name.is_empty() {
            causes.push(Cause::forbidden(&at.at("selector"), exclusive));
        }
    }
    if name.is_empty() && !selector {
        causes.push(required(&at.path, "one of name or selector must be specified"));
    }
    match at.text("parameterNotFoundAction") {
        "" => causes.push(required(&at.at("parameterNotFoundAction"), "")),
        "Deny" | "Allow" => {}
        other => {
            let field = at.at("parameterNotFoundAction");
            causes.push(unsupported(&field, other, &["Deny", "Allow"]));
        }
    }
}

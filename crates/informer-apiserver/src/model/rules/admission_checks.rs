//! Validation of ValidatingAdmissionPolicies, and of the fields that all admission policies and bindings
//! share.

use std::collections::HashSet;

use serde_json::Value;

use super::checks::{
    Check, FieldView, LABEL_1035_RULE, NameFormat, check_selector, duplicate, format_value, required, run,
    unsupported,
};
use super::hook_checks::{check_conditions, check_rule};
use crate::model::cel::Declared;
use crate::model::error::Cause;

pub(super) const POLICY: &[Check] = &[Check::Call(|at, causes| policy(&at.part("spec"), at, causes))];
pub(super) const BINDING: &[Check] = &[Check::Call(|at, causes| binding(&at.part("spec"), causes))];

/// The maximum number of audit annotations of a policy, and the maximum length of a `valueExpression`.
const MAX_ANNOTATIONS: usize = 20;
const MAX_ANNOTATION_BYTES: usize = 5 * 1024;

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

fn policy(at: &FieldView<'_>, whole: &FieldView<'_>, causes: &mut Vec<Cause>) {
    let params = check_match_constraints(at, causes);
    check_conditions(at, params, causes);
    let declared = check_variables(at, params, causes);
    let none = |name: &str| at.items(name).is_empty();
    if none("validations") && none("auditAnnotations") {
        let why = "validations or auditAnnotations must contain at least one item";
        causes.extend(["validations", "auditAnnotations"].map(|name| required(&at.field_path(name), why)));
    }
    for (index, item) in at.items("validations").iter().enumerate() {
        let path = at.field_path(&format!("validations[{index}]"));
        validation(&FieldView { value: item, old: None, path }, &declared, causes);
    }
    annotations(at, whole.text("metadata.name"), &declared, causes);
}

/// Validates the fields that all policies have: `failurePolicy`, `paramKind` and `matchConstraints`. Returns
/// true if the policy has parameters.
pub(super) fn check_match_constraints(at: &FieldView<'_>, causes: &mut Vec<Cause>) -> bool {
    run(at, &[Check::OneOf("failurePolicy", &["Fail", "Ignore"])], causes);
    let params = at.get("paramKind").is_some();
    if params {
        param_kind(&at.part("paramKind"), causes);
    }
    match at.get("matchConstraints") {
        None => causes.push(required(&at.field_path("matchConstraints"), "")),
        Some(_) => {
            let constraints = at.part("matchConstraints");
            match_resources(&constraints, causes);
            if constraints.items("resourceRules").is_empty() {
                causes.push(required(&constraints.field_path("resourceRules"), ""));
            }
        }
    }
    params
}

/// Validates the variables of a policy. Returns the declarations for the expressions that may use them.
pub(super) fn check_variables(at: &FieldView<'_>, params: bool, causes: &mut Vec<Cause>) -> Declared {
    let mut declared = Declared::new(params);
    if !at.items("variables").is_empty() {
        declared = declared.with_variables();
    }
    for (index, item) in at.items("variables").iter().enumerate() {
        let item = FieldView { value: item, old: None, path: at.field_path(&format!("variables[{index}]")) };
        let (name, expression) = (item.text("name"), item.text("expression"));
        if name.trim().is_empty() {
            causes.push(required(&item.field_path("name"), "name is not specified"));
        } else if !is_identifier(name) {
            let why = "must be a valid CEL identifier";
            causes.push(invalid_field(&item, "name", why));
        }
        if expression.trim().is_empty() {
            causes.push(required(&item.field_path("expression"), "expression is not specified"));
        } else if let Some(why) = declared.declare(name, expression) {
            causes.push(invalid_field(&item, "expression", &why));
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

fn validation(at: &FieldView<'_>, declared: &Declared, causes: &mut Vec<Cause>) {
    match at.text("expression") {
        text if text.trim().is_empty() => {
            causes.push(required(&at.field_path("expression"), "expression is not specified"));
        }
        text => {
            causes.extend(declared.problem(text, &["bool"]).map(|why| invalid_field(at, "expression", &why)))
        }
    }
    match at.text("messageExpression") {
        "" => {}
        text if text.trim().is_empty() => {
            causes.push(invalid_field(at, "messageExpression", "must be non-empty if specified"));
        }
        text => {
            let problem = declared.clone().without_authorizer().problem(text, &["string"]);
            causes.extend(problem.map(|why| invalid_field(at, "messageExpression", &why)));
        }
    }
    match at.text("message") {
        "" => {}
        text if text.trim().is_empty() => {
            causes.push(invalid_field(at, "message", "must be non-empty if specified"))
        }
        text if text.trim().contains(['\n', '\r']) => {
            causes.push(invalid_field(at, "message", "must not contain line breaks"));
        }
        _ => {}
    }
    run(at, &[Check::OneOf("reason", REASONS)], causes);
}

pub(super) fn invalid_field(at: &FieldView<'_>, name: &str, why: &str) -> Cause {
    Cause::invalid(&at.field_path(name), &format_value(at.get(name)), why)
}

/// Validates the audit annotations. The full key is `<policy name>/<key>`.
fn annotations(at: &FieldView<'_>, name: &str, declared: &Declared, causes: &mut Vec<Cause>) {
    let items = at.items("auditAnnotations");
    if items.len() > MAX_ANNOTATIONS {
        let why = format!("must not have more than {MAX_ANNOTATIONS} auditAnnotations");
        causes.push(invalid_field(at, "auditAnnotations", &why));
    }
    let mut keys = HashSet::new();
    for (index, item) in items.iter().enumerate() {
        let item =
            FieldView { value: item, old: None, path: at.field_path(&format!("auditAnnotations[{index}]")) };
        let key = item.text("key");
        NameFormat::Qualified.check(&item.field_path("key"), &format!("{name}/{key}"), causes);
        let field = item.field_path("valueExpression");
        match item.text("valueExpression").trim() {
            "" => causes.push(required(&field, "valueExpression is not specified")),
            text if text.len() > MAX_ANNOTATION_BYTES => {
                causes.push(required(
                    &field,
                    &format!("must not exceed {MAX_ANNOTATION_BYTES} bytes in length"),
                ));
            }
            text => {
                let problem = declared.problem(text, &["string", "null_type"]);
                causes.extend(problem.map(|why| invalid_field(&item, "valueExpression", &why)));
            }
        }
        if !keys.insert(key) {
            causes.push(duplicate(&item.field_path("key"), &format!("{key:?}")));
        }
    }
}

fn param_kind(at: &FieldView<'_>, causes: &mut Vec<Cause>) {
    group_version(at, causes);
    match at.text("kind") {
        "" => causes.push(required(&at.field_path("kind"), "")),
        kind if !NameFormat::Label1035.is_valid(&kind.to_lowercase()) => {
            let why = format!("may have mixed case, but should otherwise match: {LABEL_1035_RULE}");
            causes.push(invalid_field(at, "kind", &why));
        }
        _ => {}
    }
}

fn group_version(at: &FieldView<'_>, causes: &mut Vec<Cause>) {
    let (field, whole) = (at.field_path("apiVersion"), at.text("apiVersion"));
    let (group, version) = match whole.split('/').collect::<Vec<_>>()[..] {
        [""] => return causes.push(required(&field, "")),
        [version] => ("", version),
        [group, version] => (group, version),
        _ => {
            let why = format!("unexpected GroupVersion string: {whole}");
            return causes.push(invalid_field(at, "apiVersion", &why));
        }
    };
    if !group.is_empty() {
        NameFormat::Subdomain.check(&field, group, causes);
    }
    match version {
        "" => causes.push(invalid_field(at, "apiVersion", "version must be specified")),
        version => NameFormat::Label1035.check(&field, version, causes),
    }
}

fn match_resources(at: &FieldView<'_>, causes: &mut Vec<Cause>) {
    run(at, &[Check::OneOf("matchPolicy", &["Equivalent", "Exact"])], causes);
    for name in ["namespaceSelector", "objectSelector"] {
        check_selector(&at.part(name), causes);
    }
    for name in ["resourceRules", "excludeResourceRules"] {
        for (index, rule) in at.items(name).iter().enumerate() {
            let rule = FieldView { value: rule, old: None, path: at.field_path(&format!("{name}[{index}]")) };
            resource_names(&rule, causes);
            check_rule(&rule, causes);
        }
    }
}

fn resource_names(at: &FieldView<'_>, causes: &mut Vec<Cause>) {
    let mut names = HashSet::new();
    for (index, name) in at.items("resourceNames").iter().filter_map(Value::as_str).enumerate() {
        let field = at.field_path(&format!("resourceNames[{index}]"));
        check_path_segment(&field, name, causes);
        if !names.insert(name) {
            causes.push(duplicate(&field, &format!("{name:?}")));
        }
    }
}

/// Validates a name that may be a path segment.
fn check_path_segment(field: &str, name: &str, causes: &mut Vec<Cause>) {
    let mut invalid_field = |why: &str| causes.push(Cause::invalid(field, &format!("{name:?}"), why));
    if matches!(name, "." | "..") {
        return invalid_field(&format!("may not be '{name}'"));
    }
    for sign in ["/", "%"] {
        if name.contains(sign) {
            invalid_field(&format!("may not contain '{sign}'"));
        }
    }
}

fn binding(at: &FieldView<'_>, causes: &mut Vec<Cause>) {
    check_binding(at, causes);
    check_actions(at, causes);
}

/// Validates the fields that all bindings have: `policyName`, `paramRef` and `matchResources`.
pub(super) fn check_binding(at: &FieldView<'_>, causes: &mut Vec<Cause>) {
    match at.text("policyName") {
        "" => causes.push(required(&at.field_path("policyName"), "")),
        name => NameFormat::Subdomain.check(&at.field_path("policyName"), name, causes),
    }
    if at.get("paramRef").is_some() {
        param_ref(&at.part("paramRef"), causes);
    }
    if at.get("matchResources").is_some() {
        match_resources(&at.part("matchResources"), causes);
    }
}

fn check_actions(at: &FieldView<'_>, causes: &mut Vec<Cause>) {
    let field = at.field_path("validationActions");
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
        causes.push(Cause::invalid(&field, &format_value(at.get("validationActions")), why));
    }
    if given.is_empty() {
        causes.push(required(&field, "at least one validation action is required"));
    }
}

fn param_ref(at: &FieldView<'_>, causes: &mut Vec<Cause>) {
    let (name, selector) = (at.text("name"), at.get("selector").is_some());
    let exclusive = "name and selector are mutually exclusive";
    if !name.is_empty() {
        check_path_segment(&at.field_path("name"), name, causes);
        if selector {
            causes.push(Cause::forbidden(&at.field_path("name"), exclusive));
        }
    }
    if selector {
        check_selector(&at.part("selector"), causes);
        if !name.is_empty() {
            causes.push(Cause::forbidden(&at.field_path("selector"), exclusive));
        }
    }
    if name.is_empty() && !selector {
        causes.push(required(&at.path, "one of name or selector must be specified"));
    }
    match at.text("parameterNotFoundAction") {
        "" => causes.push(required(&at.field_path("parameterNotFoundAction"), "")),
        "Deny" | "Allow" => {}
        other => {
            let field = at.field_path("parameterNotFoundAction");
            causes.push(unsupported(&field, other, &["Deny", "Allow"]));
        }
    }
}

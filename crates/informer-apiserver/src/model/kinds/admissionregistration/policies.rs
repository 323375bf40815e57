//! Defaults and validation that validating and mutating admission policies share.

use std::collections::HashSet;
use std::fmt::Display;

use serde_json::{Value, json};

use crate::model::cause::{Cause, Causes};
use crate::model::cel::Declared;
use crate::model::kinds::admissionregistration::webhooks::check_rule;
use crate::model::rules::checks::{
    Check, FieldView, LABEL_1035_RULE, NameFormat, check_selector, duplicate, format_value, required, run,
    unsupported,
};
use crate::model::rules::defaults::Default::{self, Fill, In};
use crate::model::rules::warnings::{list, text};
use crate::model::table::TableRow;
use crate::model::table::text::{UNSET, or, size};

pub(crate) const POLICY_DEFAULTS: &[Default] =
    &[Fill("spec.failurePolicy", "\"Fail\""), In("spec.matchConstraints", MATCH)];
pub(crate) const BINDING_DEFAULTS: &[Default] = &[In("spec.matchResources", MATCH)];

const MATCH: &[Default] = &[
    Fill("matchPolicy", "\"Equivalent\""),
    Fill("namespaceSelector", "{}"),
    Fill("objectSelector", "{}"),
    In("resourceRules[]", SCOPE),
    In("excludeResourceRules[]", SCOPE),
];

const SCOPE: &[Default] = &[Fill("scope", "\"*\"")];

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

/// Validates the fields that validating and mutating policies share: `failurePolicy`, `paramKind` and
/// `matchConstraints`. Returns true if the policy has parameters.
pub(crate) fn check_match_constraints(at: &FieldView<'_, '_>, causes: &mut Causes) -> bool {
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
pub(crate) fn check_variables(at: &FieldView<'_, '_>, params: bool, causes: &mut Causes) -> Declared {
    let mut declared = Declared::new(params);
    if !at.items("variables").is_empty() {
        declared = declared.with_variables();
    }
    for (index, item) in at.items("variables").iter().enumerate() {
        let item = FieldView { value: item, old: None, path: at.field_path("variables").index(index) };
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

pub(crate) fn invalid_field(at: &FieldView<'_, '_>, name: &str, why: &str) -> Cause {
    Cause::invalid(&at.field_path(name), &format_value(at.get(name)), why)
}

pub(crate) fn param_kind(at: &FieldView<'_, '_>, causes: &mut Causes) {
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

fn group_version(at: &FieldView<'_, '_>, causes: &mut Causes) {
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

pub(crate) fn match_resources(at: &FieldView<'_, '_>, causes: &mut Causes) {
    run(at, &[Check::OneOf("matchPolicy", &["Equivalent", "Exact"])], causes);
    for name in ["namespaceSelector", "objectSelector"] {
        check_selector(&at.part(name), causes);
    }
    for name in ["resourceRules", "excludeResourceRules"] {
        for (index, rule) in at.items(name).iter().enumerate() {
            let rule = FieldView { value: rule, old: None, path: at.field_path(name).index(index) };
            resource_names(&rule, causes);
            check_rule(&rule, causes);
        }
    }
}

fn resource_names(at: &FieldView<'_, '_>, causes: &mut Causes) {
    let mut names = HashSet::new();
    for (index, name) in at.items("resourceNames").iter().filter_map(Value::as_str).enumerate() {
        let field = at.field_path("resourceNames").index(index);
        check_path_segment(&field, name, causes);
        if !names.insert(name) {
            causes.push(duplicate(&field, &format!("{name:?}")));
        }
    }
}

fn check_path_segment(field: &dyn Display, name: &str, causes: &mut Causes) {
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

/// Validates the fields that the bindings of both policy types share: `policyName`, `paramRef` and
/// `matchResources`.
pub(crate) fn check_binding(at: &FieldView<'_, '_>, causes: &mut Causes) {
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

fn param_ref(at: &FieldView<'_, '_>, causes: &mut Causes) {
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

/// Returns the table cells of a policy. `list` names the field with its validations or mutations.
pub(crate) fn policy_cells(row: &TableRow<'_>, list: &str) -> Vec<Value> {
    let spec = row.spec();
    let kind = &spec["paramKind"];
    let shown = if kind.is_object() {
        format!("{}/{}", text(&kind["apiVersion"]), text(&kind["kind"]))
    } else {
        UNSET.to_owned()
    };
    vec![row.name(), json!(size(&spec[list])), json!(shown), row.age()]
}

pub(crate) fn binding_cells(row: &TableRow<'_>) -> Vec<Value> {
    let spec = row.spec();
    let param = &spec["paramRef"];
    let shown = match (text(&param["name"]), &param["selector"]) {
        ("", selector) if selector.is_object() => go_selector(selector),
        ("", _) => UNSET.to_owned(),
        (name, _) => format!("{}/{name}", or(&param["namespace"], "*")),
    };
    vec![row.name(), json!(text(&spec["policyName"])), json!(shown), row.age()]
}

/// Formats a label selector like the `String` method of its Go type, for table cells and messages.
fn go_selector(selector: &Value) -> String {
    let labels = selector["matchLabels"].as_object().into_iter().flatten();
    let labels: String = labels.map(|(name, value)| format!("{name}: {},", text(value))).collect();
    let expression = |expression: &Value| {
        let values: Vec<&str> = list(&expression["values"]).map(text).collect();
        format!(
            "LabelSelectorRequirement{{Key:{},Operator:{},Values:[{}],}},",
            text(&expression["key"]),
            text(&expression["operator"]),
            values.join(" ")
        )
    };
    let expressions: String = list(&selector["matchExpressions"]).map(expression).collect();
    format!(
        "&LabelSelector{{MatchLabels:map[string]string{{{labels}}},MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"
    )
}

//! CEL rules (`x-kubernetes-validations`).

use serde_json::Value;

use super::{field_path, list, text};
use crate::model::cause::{Cause, Causes};
#[cfg(feature = "cel")]
use crate::model::cel::{RuleScope, uses};
use crate::model::rules::checks::unsupported;

const REASONS: [&str; 4] =
    ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];

fn has_newlines(text: &str) -> bool {
    text.contains(['\n', '\r'])
}

/// Validates the rules of one part of a schema, apart from their expressions.
pub(super) fn check(schema: &Value, path: &str, causes: &mut Causes) {
    for (index, rule) in list(schema, "x-kubernetes-validations").iter().enumerate() {
        check_rule(schema, rule, &format!("{path}.x-kubernetes-validations[{index}]"), causes);
    }
}

fn check_rule(schema: &Value, rule: &Value, path: &str, causes: &mut Causes) {
    let (message, trimmed) = (text(rule, "message"), text(rule, "message").trim());
    let mut invalid = |name: &str, why: &str| {
        causes.push(Cause::invalid(&format!("{path}.{name}"), &rule[name].to_string(), why));
    };
    let expression = text(rule, "rule").trim();
    let mut missing = Vec::new();
    if expression.is_empty() {
        missing.push(("rule", "rule is not specified"));
    } else if !message.is_empty() && trimmed.is_empty() {
        invalid("message", "must be non-empty if specified");
    } else if has_newlines(trimmed) {
        invalid("message", "must not contain line breaks");
    } else if has_newlines(expression) && trimmed.is_empty() {
        missing.push(("message", "message must be specified if rule contains line breaks"));
    }
    let message_expression = text(rule, "messageExpression");
    if !message_expression.is_empty() && message_expression.trim().is_empty() {
        missing.push(("messageExpression", "messageExpression must be non-empty if specified"));
    }
    let field_path = text(rule, "fieldPath");
    if !field_path.is_empty() && field_path.trim().is_empty() {
        invalid("fieldPath", "must be non-empty if specified");
    }
    if has_newlines(field_path) {
        invalid("fieldPath", "must not contain line breaks");
    }
    if !field_path.is_empty() && field_path::find(field_path, schema, true).is_err() {
        invalid("fieldPath", "must be a valid path");
    }
    causes.extend(missing.into_iter().map(|(name, why)| Cause::required(&format!("{path}.{name}"), why)));
    if let Some(reason) = rule["reason"].as_str().filter(|reason| !REASONS.contains(reason)) {
        causes.push(unsupported(&format!("{path}.reason"), reason, &REASONS));
    }
}

/// Compiles the expressions of the rules of one part of a schema. `uncorrelatable` is the part above whose
/// values have no counterparts in the stored object.
#[cfg(feature = "cel")]
pub(super) fn compile(
    schema: &Value,
    path: &str,
    (is_root, uncorrelatable): (bool, Option<&str>),
    causes: &mut Causes,
) {
    let scope = RuleScope { schema, is_root };
    for (index, rule) in list(schema, "x-kubernetes-validations").iter().enumerate() {
        let path = format!("{path}.x-kubernetes-validations[{index}]");
        let expression = text(rule, "rule");
        if let Some(why) = scope.rule_problem(expression) {
            causes.push(Cause::invalid(&format!("{path}.rule"), &go_rule(rule), &why));
            continue;
        }
        let message = text(rule, "messageExpression");
        if let Some(why) = scope.message_problem(message).filter(|_| !message.is_empty()) {
            causes.push(Cause::invalid(&format!("{path}.messageExpression"), &go_rule(rule), &why));
        }
        check_old(rule, &path, uncorrelatable, causes);
    }
}

/// Checks that the old value exists for a rule that reads it.
#[cfg(feature = "cel")]
fn check_old(rule: &Value, path: &str, uncorrelatable: Option<&str>, causes: &mut Causes) {
    let optional = &rule["optionalOldSelf"];
    if !uses(text(rule, "rule"), "oldSelf") {
        if !optional.is_null() {
            let why = "may not be set if oldSelf is not used in rule";
            causes.push(Cause::invalid(&format!("{path}.optionalOldSelf"), &optional.to_string(), why));
        }
    } else if let Some(above) = uncorrelatable {
        let why =
            format!("oldSelf cannot be used on the uncorrelatable portion of the schema within {above}");
        causes.push(Cause::invalid(&format!("{path}.rule"), &rule["rule"].to_string(), &why));
    }
}

/// Without the feature `cel`, expressions are accepted as they are.
#[cfg(not(feature = "cel"))]
pub(super) fn compile(_: &Value, _: &str, _: (bool, Option<&str>), _: &mut Causes) {}

/// Formats a rule as Go's JSON encoder does.
#[cfg(feature = "cel")]
fn go_rule(rule: &Value) -> String {
    let text = |name: &str| Value::from(text(rule, name)).to_string();
    format!(
        "{{\"Rule\":{},\"Message\":{},\"MessageExpression\":{},\"Reason\":{},\"FieldPath\":{},\
         \"OptionalOldSelf\":{}}}",
        text("rule"),
        text("message"),
        text("messageExpression"),
        rule["reason"],
        text("fieldPath"),
        rule["optionalOldSelf"],
    )
}

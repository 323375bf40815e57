use std::collections::HashSet;

use crate::model::cause::Causes;
use crate::model::cel::Declared;
use crate::model::kinds::Traits;
use crate::model::kinds::admissionregistration::policies::{
    POLICY_DEFAULTS, check_match_constraints, check_variables, invalid_field, policy_cells,
};
use crate::model::kinds::admissionregistration::webhooks::check_conditions;
use crate::model::kinds::descriptor::KindDescriptor;
use crate::model::rules::Rules;
use crate::model::rules::checks::{Check, FieldView, NameFormat, duplicate, required, run};

pub(crate) static DESCRIPTOR: KindDescriptor = KindDescriptor::new(
    "admissionregistration.k8s.io",
    "v1",
    "ValidatingAdmissionPolicy",
    Traits::SPEC_STATUS,
)
.rules(Rules::new(POLICY_DEFAULTS, CHECKS))
.cells(|row| policy_cells(row, "validations"));

pub(crate) const CHECKS: &[Check] = &[Check::Call(|at, causes| policy(&at.part("spec"), at, causes))];

const MAX_ANNOTATIONS: usize = 20;

const MAX_ANNOTATION_BYTES: usize = 5 * 1024;
const REASONS: &[&str] = &["Forbidden", "Invalid", "RequestEntityTooLarge"];

fn policy(at: &FieldView<'_, '_>, whole: &FieldView<'_, '_>, causes: &mut Causes) {
    let params = check_match_constraints(at, causes);
    check_conditions(at, params, causes);
    let declared = check_variables(at, params, causes);
    let none = |name: &str| at.items(name).is_empty();
    if none("validations") && none("auditAnnotations") {
        let why = "validations or auditAnnotations must contain at least one item";
        causes.extend(["validations", "auditAnnotations"].map(|name| required(&at.field_path(name), why)));
    }
    for (index, item) in at.items("validations").iter().enumerate() {
        let path = at.field_path("validations").index(index);
        validation(&FieldView { value: item, old: None, path }, &declared, causes);
    }
    annotations(at, whole.text("metadata.name"), &declared, causes);
}

fn validation(at: &FieldView<'_, '_>, declared: &Declared, causes: &mut Causes) {
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

/// Validates the audit annotations of a policy. The full key of each is `<policy name>/<key>`.
fn annotations(at: &FieldView<'_, '_>, name: &str, declared: &Declared, causes: &mut Causes) {
    let items = at.items("auditAnnotations");
    if items.len() > MAX_ANNOTATIONS {
        let why = format!("must not have more than {MAX_ANNOTATIONS} auditAnnotations");
        causes.push(invalid_field(at, "auditAnnotations", &why));
    }
    let mut keys = HashSet::new();
    for (index, item) in items.iter().enumerate() {
        let item = FieldView { value: item, old: None, path: at.field_path("auditAnnotations").index(index) };
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

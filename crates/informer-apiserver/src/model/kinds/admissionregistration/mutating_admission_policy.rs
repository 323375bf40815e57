use serde_json::Value;

use crate::model::cause::{Cause, Causes};
use crate::model::cel::Declared;
use crate::model::kinds::Traits;
use crate::model::kinds::admissionregistration::policies::{
    POLICY_DEFAULTS, check_match_constraints, check_variables, invalid_field, policy_cells,
};
use crate::model::kinds::admissionregistration::webhooks::check_conditions;
use crate::model::kinds::descriptor::KindDescriptor;
use crate::model::rules::Rules;
use crate::model::rules::checks::{Check, FieldView, required, run, unsupported};

pub(crate) static DESCRIPTOR: KindDescriptor =
    KindDescriptor::new("admissionregistration.k8s.io", "v1", "MutatingAdmissionPolicy", Traits::GENERATION)
        .rules(Rules::new(POLICY_DEFAULTS, CHECKS))
        .cells(|row| policy_cells(row, "mutations"));

pub(crate) const CHECKS: &[Check] = &[Check::Call(|at, causes| policy(&at.part("spec"), causes))];

/// The operations that a mutating policy can match. DELETE is not one of them, because a delete request has
/// no object to mutate.
const OPERATIONS: &[&str] = &["*", "CONNECT", "CREATE", "UPDATE"];

const PATCH_TYPES: &[&str] = &["ApplyConfiguration", "JSONPatch"];
const REINVOCATIONS: &[&str] = &["IfNeeded", "Never"];

fn policy(at: &FieldView<'_, '_>, causes: &mut Causes) {
    let params = check_match_constraints(at, causes);
    check_operations(&at.part("matchConstraints"), causes);
    check_conditions(at, params, causes);
    let declared = check_variables(at, params, causes).with_patches();
    if at.items("mutations").is_empty() {
        causes.push(required(&at.field_path("mutations"), "mutations must contain at least one item"));
    }
    for (index, item) in at.items("mutations").iter().enumerate() {
        let path = at.field_path("mutations").index(index);
        mutation(&FieldView { value: item, old: None, path }, &declared, causes);
    }
    match at.text("reinvocationPolicy") {
        "" => causes.push(required(&at.field_path("reinvocationPolicy"), "")),
        _ => run(at, &[Check::OneOf("reinvocationPolicy", REINVOCATIONS)], causes),
    }
}

pub(crate) fn check_operations(at: &FieldView<'_, '_>, causes: &mut Causes) {
    let given = at.items("resourceRules").iter().filter_map(|rule| rule["operations"].as_array()).flatten();
    for operation in given.filter_map(Value::as_str).filter(|operation| !OPERATIONS.contains(operation)) {
        causes.push(unsupported(&at.field_path("resourceRules.operations"), operation, OPERATIONS));
    }
}

fn mutation(at: &FieldView<'_, '_>, declared: &Declared, causes: &mut Causes) {
    let (own, other, wanted) = match at.text("patchType") {
        "" => return causes.push(required(&at.field_path("patchType"), "")),
        "JSONPatch" => ("jsonPatch", "applyConfiguration", "list(JSONPatch)"),
        "ApplyConfiguration" => ("applyConfiguration", "jsonPatch", "Object"),
        unknown => return causes.push(unsupported(&at.field_path("patchType"), unknown, PATCH_TYPES)),
    };
    let patch_type = at.text("patchType");
    match at.get(own) {
        None => {
            let why = format!("must be specified when patchType is {patch_type}");
            causes.push(required(&at.field_path(own), &why));
        }
        Some(_) => expression(&at.part(own), declared, wanted, causes),
    }
    if at.get(other).is_some() {
        let why = format!("must not be specified when patchType is {patch_type}");
        causes.push(Cause::invalid(&at.field_path(other), &format!("\"{{{other}}}\""), &why));
    }
}

fn expression(at: &FieldView<'_, '_>, declared: &Declared, wanted: &str, causes: &mut Causes) {
    match at.text("expression").trim() {
        "" => causes.push(required(&at.field_path("expression"), "")),
        text => {
            causes.extend(declared.problem(text, &[wanted]).map(|why| invalid_field(at, "expression", &why)));
        }
    }
}

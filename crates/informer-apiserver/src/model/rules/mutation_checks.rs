//! What the admission policies that change objects, and their bindings, must have besides what all have.

use serde_json::Value;

use super::admission_checks::{bound, constraints, variables, wrong};
use super::checks::{At, Check, required, run, unsupported};
use super::hook_checks::check_conditions;
use crate::model::cel::Declared;
use crate::model::error::Cause;

pub(super) const POLICY: &[Check] = &[Check::Call(|at, causes| policy(&at.part("spec"), causes))];
pub(super) const BINDING: &[Check] = &[Check::Call(|at, causes| binding(&at.part("spec"), causes))];

/// What is deleted cannot be changed.
const OPERATIONS: &[&str] = &["*", "CONNECT", "CREATE", "UPDATE"];
const PATCH_TYPES: &[&str] = &["ApplyConfiguration", "JSONPatch"];
const REINVOCATIONS: &[&str] = &["IfNeeded", "Never"];

fn policy(at: &At<'_>, causes: &mut Vec<Cause>) {
    let params = constraints(at, causes);
    operations(&at.part("matchConstraints"), causes);
    check_conditions(at, params, causes);
    let declared = variables(at, params, causes).with_patches();
    if at.items("mutations").is_empty() {
        causes.push(required(&at.at("mutations"), "mutations must contain at least one item"));
    }
    for (index, item) in at.items("mutations").iter().enumerate() {
        let path = at.at(&format!("mutations[{index}]"));
        mutation(&At { value: item, old: None, path }, &declared, causes);
    }
    match at.text("reinvocationPolicy") {
        "" => causes.push(required(&at.at("reinvocationPolicy"), "")),
        _ => run(at, &[Check::OneOf("reinvocationPolicy", REINVOCATIONS)], causes),
    }
}

fn binding(at: &At<'_>, causes: &mut Vec<Cause>) {
    bound(at, causes);
    if at.get("matchResources").is_some() {
        operations(&at.part("matchResources"), causes);
    }
}

fn operations(at: &At<'_>, causes: &mut Vec<Cause>) {
    let given = at.items("resourceRules").iter().filter_map(|rule| rule["operations"].as_array()).flatten();
    for operation in given.filter_map(Value::as_str).filter(|operation| !OPERATIONS.contains(operation)) {
        causes.push(unsupported(&at.at("resourceRules.operations"), operation, OPERATIONS));
    }
}

fn mutation(at: &At<'_>, declared: &Declared, causes: &mut Vec<Cause>) {
    let (own, other, wanted) = match at.text("patchType") {
        "" => return causes.push(required(&at.at("patchType"), "")),
        "JSONPatch" => ("jsonPatch", "applyConfiguration", "list(JSONPatch)"),
        "ApplyConfiguration" => ("applyConfiguration", "jsonPatch", "Object"),
        unknown => return causes.push(unsupported(&at.at("patchType"), unknown, PATCH_TYPES)),
    };
    let patch_type = at.text("patchType");
    match at.get(own) {
        None => {
            let why = format!("must be specified when patchType is {patch_type}");
            causes.push(required(&at.at(own), &why));
        }
        Some(_) => expression(&at.part(own), declared, wanted, causes),
    }
    if at.get(other).is_some() {
        let why = format!("must not be specified when patchType is {patch_type}");
        causes.push(Cause::invalid(&at.at(other), &format!("\"{{{other}}}\""), &why));
    }
}

fn expression(at: &At<'_>, declared: &Declared, wanted: &str, causes: &mut Vec<Cause>) {
    match at.text("expression").trim() {
        "" => causes.push(required(&at.at("expression"), "")),
        text => {
            causes.extend(declared.problem(text, &[wanted]).map(|why| wrong(at, "expression", &why)));
        }
    }
}

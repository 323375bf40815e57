use std::collections::HashSet;

use serde_json::Value;

use crate::model::cause::{Cause, Causes};
use crate::model::kinds::Traits;
use crate::model::kinds::admissionregistration::policies::{BINDING_DEFAULTS, binding_cells, check_binding};
use crate::model::kinds::descriptor::KindDescriptor;
use crate::model::rules::Rules;
use crate::model::rules::checks::{Check, FieldView, duplicate, format_value, required, unsupported};

pub(crate) static DESCRIPTOR: KindDescriptor = KindDescriptor::new(
    "admissionregistration.k8s.io",
    "v1",
    "ValidatingAdmissionPolicyBinding",
    Traits::GENERATION,
)
.rules(Rules::new(BINDING_DEFAULTS, CHECKS))
.cells(binding_cells);

pub(crate) const CHECKS: &[Check] = &[Check::Call(|at, causes| binding(&at.part("spec"), causes))];
const ACTIONS: &[&str] = &["Audit", "Deny", "Warn"];

fn binding(at: &FieldView<'_, '_>, causes: &mut Causes) {
    check_binding(at, causes);
    check_actions(at, causes);
}

fn check_actions(at: &FieldView<'_, '_>, causes: &mut Causes) {
    let field = at.field_path("validationActions");
    let mut given = HashSet::new();
    for (index, action) in at.items("validationActions").iter().filter_map(Value::as_str).enumerate() {
        let field = field.index(index);
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

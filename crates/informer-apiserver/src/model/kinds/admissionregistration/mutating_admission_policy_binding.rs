use crate::model::cause::Causes;
use crate::model::kinds::Traits;
use crate::model::kinds::admissionregistration::mutating_admission_policy::check_operations;
use crate::model::kinds::admissionregistration::policies::{BINDING_DEFAULTS, binding_cells, check_binding};
use crate::model::kinds::descriptor::KindDescriptor;
use crate::model::rules::Rules;
use crate::model::rules::checks::{Check, FieldView};

pub(crate) static DESCRIPTOR: KindDescriptor = KindDescriptor::new(
    "admissionregistration.k8s.io",
    "v1",
    "MutatingAdmissionPolicyBinding",
    Traits::GENERATION,
)
.rules(Rules::new(BINDING_DEFAULTS, CHECKS))
.cells(binding_cells);

pub(crate) const CHECKS: &[Check] = &[Check::Call(|at, causes| binding(&at.part("spec"), causes))];

fn binding(at: &FieldView<'_, '_>, causes: &mut Causes) {
    check_binding(at, causes);
    if at.get("matchResources").is_some() {
        check_operations(&at.part("matchResources"), causes);
    }
}

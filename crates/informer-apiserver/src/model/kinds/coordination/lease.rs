use crate::model::cause::{Cause, Causes};
use crate::model::kinds::Traits;
use crate::model::kinds::descriptor::KindDescriptor;
use crate::model::rules::Rules;
use crate::model::rules::checks::{Check, FieldView, at_least};
use crate::model::rules::warnings::text;
use crate::model::table::TableRow;
use serde_json::{Value, json};

pub(crate) static DESCRIPTOR: KindDescriptor =
    KindDescriptor::new("coordination.k8s.io", "v1", "Lease", Traits::UPSERT.with(Traits::NEEDS_VERSION))
        .with_traits(Traits::UNQUALIFIED_FINALIZERS)
        .bookmark(r#","spec":{}"#)
        .rules(Rules::new(&[], &[Check::Call(validate)]))
        .cells(cells);

fn validate(at: &FieldView<'_, '_>, causes: &mut Causes) {
    let spec = at.part("spec");
    if let Some(seconds) = spec.number("leaseDurationSeconds").filter(|seconds| *seconds <= 0) {
        let field = spec.field_path("leaseDurationSeconds");
        causes.push(Cause::invalid(&field, &seconds.to_string(), "must be greater than 0"));
    }
    if let Some(count) = spec.number("leaseTransitions").filter(|count| *count < 0) {
        causes.push(at_least(&spec.field_path("leaseTransitions"), count, 0));
    }
}

fn cells(row: &TableRow<'_>) -> Vec<Value> {
    vec![row.name(), json!(text(&row.spec()["holderIdentity"])), row.age()]
}

use crate::model::cause::Causes;
use crate::model::kinds::Traits;
use crate::model::kinds::core::pod::defaults::TEMPLATE;
use crate::model::kinds::descriptor::KindDescriptor;
use crate::model::kinds::workload::{
    IMMUTABLE_SELECTOR, SPEC_TEMPLATE, check_selected_template, check_selector_of, check_status,
    container_cells, replica_cells, selector_cell, template_warnings,
};
use crate::model::rules::Rules;
use crate::model::rules::checks::{Check, FieldView, not_negative};
use crate::model::rules::defaults::Default::{self, Fill, In};
use crate::model::table::TableRow;
use serde_json::Value;

pub(crate) static DESCRIPTOR: KindDescriptor =
    KindDescriptor::new("apps", "v1", "ReplicaSet", Traits::SPEC_STATUS_METADATA)
        .initial_status(r#"{"replicas":0}"#)
        .pod_template(SPEC_TEMPLATE)
        .rules(
            Rules::new(DEFAULTS, &[Check::Call(validate)]).changes(IMMUTABLE_SELECTOR).status(STATUS_CHECKS),
        )
        .warnings(template_warnings)
        .cells(cells);

const DEFAULTS: &[Default] = &[In("spec", &[Fill("replicas", "1"), In("template", TEMPLATE)])];

const STATUS_CHECKS: &[Check] = &[Check::Call(|at, causes| {
    let counts = ["fullyLabeledReplicas", "readyReplicas", "availableReplicas"];
    check_status(at, &["replicas", "observedGeneration"], &counts, causes);
})];

fn validate(at: &FieldView<'_, '_>, causes: &mut Causes) {
    let spec = at.part("spec");
    not_negative(&spec, &["replicas", "minReadySeconds"], causes);
    check_selector_of(&spec, "deployment", causes);
    check_selected_template(&spec, "ReplicaSet", ": invalid label selector", causes);
}

fn cells(row: &TableRow<'_>) -> Vec<Value> {
    let mut cells = replica_cells(row);
    cells.extend(container_cells(&row.spec()["template"]["spec"]));
    cells.push(selector_cell(&row.spec()["selector"]));
    cells
}

use crate::model::kinds::Traits;
use crate::model::kinds::core::pod::defaults::TEMPLATE;
use crate::model::kinds::descriptor::KindDescriptor;
use crate::model::kinds::workload::{
    SPEC_TEMPLATE, container_cells, default_labels, replica_cells, selector_cell, template_warnings,
};
use crate::model::rules::Rules;
use crate::model::rules::defaults::Default::{self, Call, Fill, In};
use crate::model::table::TableRow;
use serde_json::Value;

pub(crate) static DESCRIPTOR: KindDescriptor =
    KindDescriptor::new("", "v1", "ReplicationController", Traits::SPEC_STATUS.with(Traits::OWN_FIELDS))
        .selectable(&["status.replicas"])
        .bookmark(r#","spec":{},"status":{"replicas":0}"#)
        .initial_status(r#"{"replicas":0}"#)
        .pod_template(SPEC_TEMPLATE)
        .rules(Rules::new(DEFAULTS, &[]))
        .warnings(template_warnings)
        .cells(cells);

const DEFAULTS: &[Default] =
    &[In("spec", &[Fill("replicas", "1"), In("template", TEMPLATE)]), Call(default_labels)];

fn cells(row: &TableRow<'_>) -> Vec<Value> {
    let mut cells = replica_cells(row);
    cells.extend(container_cells(&row.spec()["template"]["spec"]));
    cells.push(selector_cell(&row.spec()["selector"]));
    cells
}

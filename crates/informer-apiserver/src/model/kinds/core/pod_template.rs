use serde_json::{Value, json};

use crate::model::cause::Causes;
use crate::model::kinds::Traits;
use crate::model::kinds::core::pod::defaults::TEMPLATE;
use crate::model::kinds::core::pod::validation::check_template;
use crate::model::kinds::core::pod::warnings::of_template;
use crate::model::kinds::descriptor::KindDescriptor;
use crate::model::kinds::workload::container_cells;
use crate::model::rules::Rules;
use crate::model::rules::checks::{Check, FieldView};
use crate::model::rules::defaults::Default::In;
use crate::model::rules::warnings::text;
use crate::model::table::TableRow;
use crate::model::table::text::{NONE, joined};

pub(crate) static DESCRIPTOR: KindDescriptor =
    KindDescriptor::new("", "v1", "PodTemplate", Traits::GENERATION.with(Traits::RETURNS_DELETED))
        .bookmark(r#","template":{"metadata":{},"spec":{"containers":null}}"#)
        .pod_template(&["template"])
        .rules(Rules::new(&[In("template", TEMPLATE)], &[Check::Call(validate)]))
        .warnings(warn)
        .cells(cells);

fn validate(at: &FieldView<'_, '_>, causes: &mut Causes) {
    check_template(&at.part("template"), causes);
}

fn warn(template: &Value, old: Option<&Value>) -> Vec<String> {
    if old.is_none() { of_template(template, "template") } else { Vec::new() }
}

fn cells(row: &TableRow<'_>) -> Vec<Value> {
    let template = &row.object["template"];
    let labels = template["metadata"]["labels"].as_object().into_iter().flatten();
    let labels: Vec<String> = labels.map(|(name, value)| format!("{name}={}", text(value))).collect();
    let mut cells = vec![row.name()];
    cells.extend(container_cells(&template["spec"]));
    cells.push(json!(joined(labels.iter().map(String::as_str), NONE)));
    cells
}

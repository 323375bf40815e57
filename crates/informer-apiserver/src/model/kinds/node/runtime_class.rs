use serde_json::{Value, json};

use crate::model::kinds::Traits;
use crate::model::kinds::core::pod::warnings::deprecated_label;
use crate::model::kinds::descriptor::KindDescriptor;
use crate::model::rules::warnings::text;
use crate::model::table::TableRow;

pub(crate) static DESCRIPTOR: KindDescriptor =
    KindDescriptor::new("node.k8s.io", "v1", "RuntimeClass", Traits::NONE)
        .bookmark(r#","handler":"""#)
        .warnings(|class, _| warn(class))
        .cells(cells);

fn warn(class: &Value) -> Vec<String> {
    let selected = class["scheduling"]["nodeSelector"].as_object().into_iter().flatten();
    selected
        .filter_map(|(label, _)| Some(format!("scheduling.nodeSelector: {}", deprecated_label(label)?)))
        .collect()
}

fn cells(row: &TableRow<'_>) -> Vec<Value> {
    vec![row.name(), json!(text(&row.object["handler"])), row.age()]
}

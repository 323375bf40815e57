use serde_json::{Value, json};

use crate::model::kinds::Traits;
use crate::model::kinds::descriptor::KindDescriptor;
use crate::model::rules::warnings::text;
use crate::model::table::TableRow;

pub(crate) static DESCRIPTOR: KindDescriptor = KindDescriptor::new(
    "resource.k8s.io",
    "v1",
    "ResourceSlice",
    Traits::GENERATION.with(Traits::OWN_FIELDS),
)
.selectable(&["spec.nodeName", "spec.driver"])
.cells(cells);

fn cells(row: &TableRow<'_>) -> Vec<Value> {
    let spec = row.spec();
    vec![
        row.name(),
        json!(text(&spec["nodeName"])),
        json!(text(&spec["driver"])),
        json!(text(&spec["pool"]["name"])),
        row.age(),
    ]
}

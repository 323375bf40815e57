use serde_json::{Value, json};

use crate::model::kinds::Traits;
use crate::model::kinds::descriptor::KindDescriptor;
use crate::model::rules::warnings::text;
use crate::model::table::TableRow;

pub(crate) static DESCRIPTOR: KindDescriptor =
    KindDescriptor::new("storage.k8s.io", "v1", "VolumeAttributesClass", Traits::NONE).cells(cells);

fn cells(row: &TableRow<'_>) -> Vec<Value> {
    vec![row.name(), json!(text(&row.object["driverName"])), row.age()]
}

use serde_json::{Value, json};

use crate::model::kinds::Traits;
use crate::model::kinds::descriptor::KindDescriptor;
use crate::model::rules::warnings::text;
use crate::model::table::TableRow;

pub(crate) static DESCRIPTOR: KindDescriptor =
    KindDescriptor::new("storage.k8s.io", "v1", "VolumeAttachment", Traits::STATUS)
        .initial_status(r#"{"attached":false}"#)
        .status_reset_fields(&["metadata", "spec"])
        .cells(cells);

fn cells(row: &TableRow<'_>) -> Vec<Value> {
    let spec = row.spec();
    vec![
        row.name(),
        json!(text(&spec["attacher"])),
        json!(text(&spec["source"]["persistentVolumeName"])),
        json!(text(&spec["nodeName"])),
        json!(row.status()["attached"] == true),
        row.age(),
    ]
}

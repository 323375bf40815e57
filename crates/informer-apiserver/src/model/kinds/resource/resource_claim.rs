use serde_json::{Value, json};

use crate::model::kinds::Traits;
use crate::model::kinds::descriptor::KindDescriptor;
use crate::model::table::TableRow;
use crate::model::table::text::{joined, size};

pub(crate) static DESCRIPTOR: KindDescriptor =
    KindDescriptor::new("resource.k8s.io", "v1", "ResourceClaim", Traits::STATUS).cells(cells);

fn cells(row: &TableRow<'_>) -> Vec<Value> {
    let status = row.status();
    let deleted = row.object["metadata"]["deletionTimestamp"].is_string();
    let allocated = status["allocation"].is_object();
    let states = [
        (deleted, "deleted"),
        (!deleted && !allocated, "pending"),
        (allocated, "allocated"),
        (allocated && size(&status["reservedFor"]) > 0, "reserved"),
    ];
    let states = states.iter().filter(|(applies, _)| *applies).map(|(_, state)| *state);
    vec![row.name(), json!(joined(states, "")), row.age()]
}

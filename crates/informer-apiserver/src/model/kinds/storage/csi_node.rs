use serde_json::{Value, json};

use crate::model::kinds::Traits;
use crate::model::kinds::descriptor::KindDescriptor;
use crate::model::table::TableRow;
use crate::model::table::text::size;

pub(crate) static DESCRIPTOR: KindDescriptor =
    KindDescriptor::new("storage.k8s.io", "v1", "CSINode", Traits::NONE)
        .bookmark(r#","spec":{"drivers":null}"#)
        .cells(cells);

fn cells(row: &TableRow<'_>) -> Vec<Value> {
    vec![row.name(), json!(size(&row.spec()["drivers"])), row.age()]
}

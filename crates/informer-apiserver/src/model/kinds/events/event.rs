//! Events of the group `events.k8s.io`. They are stored as Events of the core group.

use crate::model::kinds::Traits;
use crate::model::kinds::core::event::conversion::{from_core, to_core};
use crate::model::kinds::core::event::event_cells;
use crate::model::kinds::descriptor::KindDescriptor;
use crate::model::table::TableRow;
use serde_json::Value;

pub(crate) static DESCRIPTOR: KindDescriptor = KindDescriptor::new(
    "events.k8s.io",
    "v1",
    "Event",
    Traits::UPSERT.with(Traits::OWN_FIELDS).with(Traits::EXPIRES),
)
.selectable(&[
    "regarding.kind",
    "regarding.namespace",
    "regarding.name",
    "regarding.uid",
    "regarding.apiVersion",
    "regarding.resourceVersion",
    "regarding.fieldPath",
    "reason",
    "reportingController",
    "type",
])
.bookmark(BOOKMARK)
.stored_as("", "v1")
.conversion(from_core)
.cells(cells);

const BOOKMARK: &str = r#","eventTime":null,"regarding":{},"deprecatedSource":{},"deprecatedFirstTimestamp":null,"deprecatedLastTimestamp":null"#;

fn cells(row: &TableRow<'_>) -> Vec<Value> {
    let mut event = row.object.clone();
    if let Value::Object(event) = &mut event {
        to_core(event);
    }
    event_cells(&event, row.now)
}

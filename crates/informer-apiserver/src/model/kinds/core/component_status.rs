//! The kind ComponentStatus. Its lists are empty, because this server has no components to report.

use serde_json::{Value, json};

use crate::model::kinds::Traits;
use crate::model::kinds::descriptor::KindDescriptor;
use crate::model::rules::warnings::{list, text};
use crate::model::table::TableRow;

pub(crate) static DESCRIPTOR: KindDescriptor =
    KindDescriptor::new("", "v1", "ComponentStatus", Traits::NONE).cells(cells);

fn cells(row: &TableRow<'_>) -> Vec<Value> {
    let healthy = list(&row.object["conditions"]).find(|condition| condition["type"] == "Healthy");
    let (status, message, error) = healthy.map_or(("Unknown", "", ""), |condition| {
        let status = if condition["status"] == "True" { "Healthy" } else { "Unhealthy" };
        (status, text(&condition["message"]), text(&condition["error"]))
    });
    vec![row.name(), json!(status), json!(message), json!(error)]
}

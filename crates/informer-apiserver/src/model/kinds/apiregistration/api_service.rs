use serde_json::{Value, json};

use crate::model::kinds::Traits;
use crate::model::kinds::descriptor::KindDescriptor;
use crate::model::rules::checks::NameFormat;
use crate::model::rules::warnings::{list, text};
use crate::model::table::TableRow;

pub(crate) static DESCRIPTOR: KindDescriptor =
    KindDescriptor::new("apiregistration.k8s.io", "v1", "APIService", Traits::STATUS)
        .name_format(Some(NameFormat::PathSegment))
        .bookmark(r#","spec":{"groupPriorityMinimum":0,"versionPriority":0},"status":{}"#)
        .cells(cells);

fn cells(row: &TableRow<'_>) -> Vec<Value> {
    let service = &row.spec()["service"];
    let service = if service.is_object() {
        format!("{}/{}", text(&service["namespace"]), text(&service["name"]))
    } else {
        "Local".to_owned()
    };
    let available = list(&row.status()["conditions"]).find(|condition| condition["type"] == "Available");
    let available = available.map_or("Unknown".to_owned(), |condition| {
        match (text(&condition["status"]), text(&condition["reason"])) {
            (status, reason) if status != "True" && !reason.is_empty() => format!("{status} ({reason})"),
            (status, _) => status.to_owned(),
        }
    });
    vec![row.name(), json!(service), json!(available), row.age()]
}

use serde_json::{Value, json};

use crate::model::kinds::Traits;
use crate::model::kinds::descriptor::KindDescriptor;
use crate::model::rules::warnings::{list, text};
use crate::model::table::TableRow;
use crate::model::table::text::{NONE, number, or};

pub(crate) static DESCRIPTOR: KindDescriptor =
    KindDescriptor::new("flowcontrol.apiserver.k8s.io", "v1", "FlowSchema", Traits::SPEC_STATUS).cells(cells);

fn cells(row: &TableRow<'_>) -> Vec<Value> {
    let spec = row.spec();
    let dangling = list(&row.status()["conditions"]).find(|condition| condition["type"] == "Dangling");
    vec![
        row.name(),
        json!(text(&spec["priorityLevelConfiguration"]["name"])),
        json!(number(&spec["matchingPrecedence"])),
        json!(or(&spec["distinguisherMethod"]["type"], NONE)),
        row.age(),
        json!(dangling.map_or("?", |condition| text(&condition["status"]))),
    ]
}

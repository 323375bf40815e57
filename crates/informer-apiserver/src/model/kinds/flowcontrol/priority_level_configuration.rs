use serde_json::{Value, json};

use crate::model::kinds::Traits;
use crate::model::kinds::descriptor::KindDescriptor;
use crate::model::rules::warnings::text;
use crate::model::table::TableRow;
use crate::model::table::text::{NONE, number};

pub(crate) static DESCRIPTOR: KindDescriptor = KindDescriptor::new(
    "flowcontrol.apiserver.k8s.io",
    "v1",
    "PriorityLevelConfiguration",
    Traits::SPEC_STATUS,
)
.cells(cells);

fn cells(row: &TableRow<'_>) -> Vec<Value> {
    let (spec, limited) = (row.spec(), &row.spec()["limited"]);
    let queuing = &limited["limitResponse"]["queuing"];
    let count = |of: &Value, name: &str| if of.is_object() { json!(number(&of[name])) } else { json!(NONE) };
    let shares = &limited["nominalConcurrencyShares"];
    vec![
        row.name(),
        json!(text(&spec["type"])),
        if limited.is_object() { shares.clone() } else { json!(NONE) },
        count(queuing, "queues"),
        count(queuing, "handSize"),
        count(queuing, "queueLengthLimit"),
        row.age(),
    ]
}

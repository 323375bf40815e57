use serde_json::{Value, json};

use crate::model::kinds::Traits;
use crate::model::kinds::descriptor::KindDescriptor;
use crate::model::rules::warnings::{list, text};
use crate::model::table::TableRow;
use crate::model::table::text::joined;

pub(crate) static DESCRIPTOR: KindDescriptor =
    KindDescriptor::new("networking.k8s.io", "v1", "ServiceCIDR", Traits::STATUS).cells(cells);

fn cells(row: &TableRow<'_>) -> Vec<Value> {
    vec![row.name(), json!(joined(list(&row.spec()["cidrs"]).map(text), "")), row.age()]
}

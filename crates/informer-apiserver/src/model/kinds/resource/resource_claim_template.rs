use serde_json::Value;

use crate::model::kinds::Traits;
use crate::model::kinds::descriptor::KindDescriptor;
use crate::model::table::TableRow;

pub(crate) static DESCRIPTOR: KindDescriptor =
    KindDescriptor::new("resource.k8s.io", "v1", "ResourceClaimTemplate", Traits::NONE).cells(cells);

fn cells(row: &TableRow<'_>) -> Vec<Value> {
    vec![row.name(), row.age()]
}

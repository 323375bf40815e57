use serde_json::{Value, json};

use crate::model::kinds::Traits;
use crate::model::kinds::descriptor::KindDescriptor;
use crate::model::rules::warnings::text;
use crate::model::table::TableRow;
use crate::model::table::text::NONE;

pub(crate) static DESCRIPTOR: KindDescriptor =
    KindDescriptor::new("networking.k8s.io", "v1", "IPAddress", Traits::NONE).cells(cells);

/// Returns the table cells of an IPAddress. As in kube-apiserver, they are one more than the table has
/// columns.
fn cells(row: &TableRow<'_>) -> Vec<Value> {
    let parent = &row.spec()["parentRef"];
    let shown = match (text(&parent["resource"]), text(&parent["group"])) {
        _ if !parent.is_object() => NONE.to_owned(),
        (resource, "") => resource.to_lowercase(),
        (resource, group) => format!("{resource}.{group}").to_lowercase(),
    };
    let names = ["namespace", "name"].map(|name| text(&parent[name]));
    let path: String = names.iter().filter(|name| !name.is_empty()).map(|name| format!("/{name}")).collect();
    vec![row.name(), json!(shown + &path), row.age()]
}

use crate::model::kinds::Traits;
use crate::model::kinds::descriptor::KindDescriptor;
use crate::model::rules::Rules;
use crate::model::rules::checks::{Check, check_immutable, required};
use crate::model::rules::warnings::{list, text};
use crate::model::table::TableRow;
use crate::model::table::text::{NONE, number};
use serde_json::{Value, json};

pub(crate) static DESCRIPTOR: KindDescriptor =
    KindDescriptor::new("apps", "v1", "ControllerRevision", Traits::NONE)
        .bookmark(r#","data":null,"revision":0"#)
        .rules(Rules::new(&[], CHECKS).changes(UPDATE_CHECKS))
        .cells(cells);

pub(crate) const CHECKS: &[Check] = &[Check::Call(|at, causes| {
    if at.get("data").is_none() {
        causes.push(required(&"data", "data is mandatory"));
    }
})];

pub(crate) const UPDATE_CHECKS: &[Check] = &[Check::Call(|at, causes| check_immutable(at, "data", causes))];

fn cells(row: &TableRow<'_>) -> Vec<Value> {
    let owner = list(&row.object["metadata"]["ownerReferences"]).find(|owner| owner["controller"] == true);
    let controller = owner.map_or(NONE.to_owned(), |owner| {
        let group = text(&owner["apiVersion"]).rsplit_once('/').map_or("", |(group, _)| group);
        let kind = text(&owner["kind"]);
        let kind = if group.is_empty() { kind.to_owned() } else { format!("{kind}.{group}") };
        format!("{}/{}", kind.to_lowercase(), text(&owner["name"]))
    });
    vec![row.name(), json!(controller), json!(number(&row.object["revision"])), row.age()]
}

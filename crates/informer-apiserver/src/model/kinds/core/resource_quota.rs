//! The kind ResourceQuota. `admission/quota.rs` updates the usage with each write and rejects writes that
//! exceed a quota.

use serde_json::{Value, json};

use crate::model::kinds::Traits;
use crate::model::kinds::descriptor::KindDescriptor;
use crate::model::rules::Rules;
use crate::model::rules::warnings::text;
use crate::model::table::TableRow;
use crate::model::table::text::or;

pub(crate) static DESCRIPTOR: KindDescriptor =
    KindDescriptor::new("", "v1", "ResourceQuota", Traits::STATUS_METADATA.with(Traits::RETURNS_DELETED))
        .bookmark(r#","spec":{},"status":{}"#)
        .rules(Rules::NORMALIZED)
        .cells(cells);

fn cells(row: &TableRow<'_>) -> Vec<Value> {
    let status = row.status();
    let mut hard: Vec<(&String, &Value)> = status["hard"].as_object().into_iter().flatten().collect();
    hard.sort_unstable_by_key(|(name, _)| *name);
    let usage = |limits: bool| -> String {
        let named = hard.iter().filter(|(name, _)| name.starts_with("limits.") == limits);
        let usage = named.map(|(name, hard)| {
            format!("{name}: {}/{}", or(&status["used"][name.as_str()], "0"), text(hard))
        });
        usage.collect::<Vec<_>>().join(", ")
    };
    vec![row.name(), json!(usage(false)), json!(usage(true)), row.age()]
}

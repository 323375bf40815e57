//! Validation ratcheting: which parts of an updated object are unchanged.

use serde_json::Value;

pub(super) use crate::model::schema::ratchet::correlated;

/// Returns true if a value is unchanged. The order of the items of a list with keys does not count.
pub(super) fn are_equal(schema: &Value, old: &Value, new: &Value) -> bool {
    match (old, new) {
        (Value::Array(before), Value::Array(items)) if schema["x-kubernetes-list-type"] == "map" => {
            before.len() == items.len()
                && items.iter().all(|item| {
                    correlated(schema, old, item).is_some_and(|old| are_equal(&schema["items"], old, item))
                })
        }
        _ => old == new,
    }
}

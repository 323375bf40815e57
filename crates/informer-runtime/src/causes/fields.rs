//! The changed fields of a watched object.

use informer_client::{ChangedFields, changed_fields};
use informer_core::{Labels, Object};
use serde_json::{Map, Value, json};

/// Returns the paths of the fields that differ between two states of an object. The JSON text of the states
/// is compared, so that lazy objects are not decoded.
pub(super) fn changed<O: Object>(old: &O, new: &O) -> ChangedFields {
    if let (Some(old), Some(new)) = (old.json(), new.json()) {
        return changed_fields(&old, &new);
    }
    changed_fields(&known_fields(old).to_string(), &known_fields(new).to_string())
}

/// Returns the fields that are known of an object without a body. The generation takes the place of the spec,
/// since it changes with it.
fn known_fields<O: Object>(object: &O) -> Value {
    let owners: Vec<Value> = object
        .owners()
        .iter()
        .map(|owner| json!({"uid": owner.uid(), "name": owner.name(), "controller": owner.is_controller()}))
        .collect();
    let metadata = json!({
        "uid": object.uid(),
        "labels": pairs(object.labels()),
        "annotations": pairs(&object.annotations()),
        "ownerReferences": owners,
        "deletionTimestamp": object.deletion_timestamp(),
    });
    json!({"metadata": metadata, "spec": object.generation()})
}

fn pairs(labels: &Labels) -> Map<String, Value> {
    labels.iter().map(|(name, value)| (name.to_owned(), json!(value))).collect()
}

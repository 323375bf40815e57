//! What the server writes into CRDs that are created or deleted.

use serde_json::{Map, Value, json};

/// Holds a definition until its objects are gone.
pub(crate) const CLEANUP_FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

/// What the server decides about a new definition.
pub(crate) fn fill_new_definition(object: &mut Map<String, Value>) {
    // What is loaded, or what a webhook has made of it, may have none.
    let versions = object.get("spec").and_then(|spec| spec["versions"].as_array());
    let stored: Vec<Value> = versions
        .into_iter()
        .flatten()
        .filter(|version| version["storage"] == true)
        .map(|version| version["name"].clone())
        .collect();
    object.insert(
        "status".into(),
        json!({
            "conditions": null, "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": stored,
        }),
    );
}

/// Marks a definition that is being deleted, so that its watchers see why.
pub(crate) fn mark_definition(object: &mut Map<String, Value>, now: &str) {
    let condition = json!({
        "type": "Terminating", "status": "True", "reason": "InstanceDeletionPending", "lastTransitionTime": now,
        "message": "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
    });
    let conditions = object.get_mut("status").and_then(|status| status["conditions"].as_array_mut());
    if let Some(conditions) = conditions.filter(|all| all.iter().all(|one| one["type"] != "Terminating")) {
        conditions.push(condition);
    }
}

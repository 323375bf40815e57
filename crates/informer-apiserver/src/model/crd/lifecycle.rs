//! Fields that the server sets when a CRD is created or deleted.

use serde_json::{Map, Value, json};

/// The finalizer that delays the removal of a CRD until its custom resources are deleted.
pub(crate) const CLEANUP_FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

/// Sets the initial status of a new CRD: its storage version, and no accepted names.
pub(crate) fn init_crd_status(object: &mut Map<String, Value>) {
    // A CRD that was loaded from a file or mutated by a webhook may have no versions.
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

pub(crate) fn mark_crd_terminating(object: &mut Map<String, Value>, now: &str) {
    let condition = json!({
        "type": "Terminating", "status": "True", "reason": "InstanceDeletionPending", "lastTransitionTime": now,
        "message": "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
    });
    let conditions = object.get_mut("status").and_then(|status| status["conditions"].as_array_mut());
    if let Some(conditions) = conditions.filter(|all| all.iter().all(|one| one["type"] != "Terminating")) {
        conditions.push(condition);
    }
}

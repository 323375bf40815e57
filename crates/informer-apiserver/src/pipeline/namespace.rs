//! Namespaces: their name label, finalizers and deletion.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::admission::Scope;
use crate::model::error::ApiError;
use crate::model::metadata::{self, Object, metadata_of_mut};
use crate::pipeline::Pipeline;
use crate::registry::storage::{Changed, Expect, Stored, draft};

const NAME_LABEL: &str = "kubernetes.io/metadata.name";
/// The finalizer of the namespace controller.
pub(crate) const FINALIZER: &str = "kubernetes";

/// Sets the fields that the server owns in a new namespace.
pub(crate) fn fill(object: &mut Object) {
    label(object);
    let mut names: Vec<Value> = finalizers(object).into_iter().map(Value::from).collect();
    if !names.contains(&FINALIZER.into()) {
        names.push(FINALIZER.into());
    }
    object.insert("spec".into(), json!({"finalizers": names}));
    object.insert("status".into(), json!({"phase": "Active"}));
}

pub(crate) fn label(object: &mut Object) {
    let name = metadata::text(object, "name").to_owned();
    let labels = metadata_of_mut(object).entry("labels").or_insert_with(|| json!({}));
    if let Some(labels) = labels.as_object_mut() {
        labels.insert(NAME_LABEL.into(), name.into());
    }
}

/// Returns `spec.finalizers`, which block the removal in addition to `metadata.finalizers`.
pub(crate) fn finalizers(object: &Object) -> Vec<String> {
    let list = object.get("spec").and_then(|spec| spec.get("finalizers")?.as_array());
    list.into_iter().flatten().filter_map(|name| name.as_str().map(str::to_owned)).collect()
}

/// Resets fields that an update of a namespace cannot change.
pub(crate) fn keep(old: &Object, new: &mut Object) {
    label(new);
    crate::pipeline::merge::copy_part("spec", old, new);
}

/// Returns the stored namespace with new `spec.finalizers`, for `/finalize`.
pub(crate) fn with_finalizers(old: &Object, new: &mut Object) -> Object {
    let names = finalizers(new);
    let mut merged = old.clone();
    let spec = if names.is_empty() { json!({}) } else { json!({"finalizers": names}) };
    merged.insert("spec".into(), spec);
    merged
}

impl Pipeline {
    /// Marks a namespace as terminating. Its contents or its finalizers then block the removal.
    pub(crate) fn mark_namespace(
        &self,
        scope: Scope<'_>,
        current: &Arc<Stored>,
        mut object: Object,
    ) -> Result<Result<Arc<Stored>, Changed>, ApiError> {
        let name = current.key.name();
        if matches!(name, "default" | "kube-system" | "kube-public") {
            return Err(ApiError::forbidden(scope.kind(), name, "this namespace may not be deleted"));
        }
        if !metadata::text(&object, "deletionTimestamp").is_empty() {
            return Ok(Ok(Arc::clone(current)));
        }
        metadata_of_mut(&mut object).insert("deletionTimestamp".into(), self.now().into());
        if let Some(status) = object.entry("status").or_insert_with(|| json!({})).as_object_mut() {
            status.insert("phase".into(), "Terminating".into());
        }
        let draft = draft(scope.kind(), current.key.clone(), &object);
        self.commit(scope, draft, Expect::At(current.version))
    }
}

//! Namespaces: their name label, finalizers and deletion.

use std::sync::Arc;

use serde_json::json;

use crate::admission::Scope;
use crate::model::error::ApiError;
use crate::model::json::Object;
use crate::model::object_meta;
use crate::model::object_meta::metadata_of_mut;
use crate::pipeline::Pipeline;
use crate::pipeline::retry::WriteError;
use crate::registry::storage::{Expect, Stored, draft};

impl Pipeline {
    /// Marks a namespace as terminating. It is removed when its contents are deleted and it has no finalizers
    /// left.
    pub(crate) fn mark_namespace(
        &self,
        scope: Scope<'_>,
        current: &Arc<Stored>,
        mut object: Object,
    ) -> Result<Arc<Stored>, WriteError> {
        let name = current.key.name();
        if matches!(name, "default" | "kube-system" | "kube-public") {
            return Err(ApiError::forbidden(scope.kind(), name, "this namespace may not be deleted").into());
        }
        if !object_meta::text(&object, "deletionTimestamp").is_empty() {
            return Ok(Arc::clone(current));
        }
        metadata_of_mut(&mut object).insert("deletionTimestamp".into(), self.now().into());
        if let Some(status) = object.entry("status").or_insert_with(|| json!({})).as_object_mut() {
            status.insert("phase".into(), "Terminating".into());
        }
        let draft = draft(scope.kind(), current.key.clone(), &object);
        self.commit(scope, draft, Expect::At(current.version))
    }
}

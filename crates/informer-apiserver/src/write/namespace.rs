//! Namespaces: what is special about their metadata, their finalizers, and how they end.

use std::sync::Arc;

use serde_json::{Value, json};

use super::metadata::{self, metadata_of_mut};
use super::{DeleteOptions, Object, Scope, WriteMode};
use crate::error::ApiError;
use crate::ready::ready;
use crate::select::Filter;
use crate::server::{Shared, parse};
use crate::storage::{Changed, Expect, Stored, draft};

const NAME_LABEL: &str = "kubernetes.io/metadata.name";
/// The finalizer of the controller that empties namespaces.
const FINALIZER: &str = "kubernetes";

/// What the server decides about a new namespace.
pub(super) fn fill(object: &mut Object) {
    label(object);
    let mut names: Vec<Value> = finalizers(object).into_iter().map(Value::from).collect();
    if !names.contains(&FINALIZER.into()) {
        names.push(FINALIZER.into());
    }
    object.insert("spec".into(), json!({"finalizers": names}));
    object.insert("status".into(), json!({"phase": "Active"}));
}

pub(super) fn label(object: &mut Object) {
    let name = metadata::text(object, "name").to_owned();
    let labels = metadata_of_mut(object).entry("labels").or_insert_with(|| json!({}));
    if let Some(labels) = labels.as_object_mut() {
        labels.insert(NAME_LABEL.into(), name.into());
    }
}

/// The finalizers of the specification, which hold a namespace besides those of its metadata.
pub(super) fn finalizers(object: &Object) -> Vec<String> {
    let list = object.get("spec").and_then(|spec| spec.get("finalizers")?.as_array());
    list.into_iter().flatten().filter_map(|name| name.as_str().map(str::to_owned)).collect()
}

/// What an update of a namespace cannot change.
pub(super) fn keep(old: &Object, new: &mut Object) {
    label(new);
    super::merge::copy_part("spec", old, new);
}

/// The stored namespace with new finalizers, as `/finalize` has it.
pub(super) fn with_finalizers(old: &Object, new: &mut Object) -> Object {
    let names = finalizers(new);
    let mut merged = old.clone();
    let spec = if names.is_empty() { json!({}) } else { json!({"finalizers": names}) };
    merged.insert("spec".into(), spec);
    merged
}

impl Shared {
    /// Marks a namespace. What holds it then is the content, or the controller that is to empty it.
    pub(super) fn mark_namespace(
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

    /// The namespace controller's part, where it is switched on: empties a namespace that ends, and lets go of it once
    /// nothing is left.
    pub(super) fn settle_namespace(&self, name: &str) {
        if !self.controllers.namespaces {
            return;
        }
        let Ok(resource) = self.resource(&informer_core::Gvr::new("", "v1", "namespaces")) else { return };
        let Ok(stored) = self.find(&resource, None, name) else { return };
        let Value::Object(mut object) = parse(stored.as_slice()) else { return };
        if metadata::text(&object, "deletionTimestamp").is_empty() || !self.empty_namespace(name) {
            return;
        }
        let left: Vec<String> = finalizers(&object).into_iter().filter(|name| name != FINALIZER).collect();
        let spec = if left.is_empty() { json!({}) } else { json!({"finalizers": left}) };
        object.insert("spec".into(), spec);
        metadata_of_mut(&mut object).remove("resourceVersion");
        // Gone or changed meanwhile: whoever did that settles it.
        let scope = Scope::new(&resource, None);
        drop(ready(self.update(scope, name, Value::Object(object), WriteMode::Finalize)));
    }

    /// Deletes what is in a namespace; true where nothing is left.
    fn empty_namespace(&self, name: &str) -> bool {
        let resources: Vec<_> = self.registry.read().iter().filter(|r| r.kind.namespaced).cloned().collect();
        let filter = Filter::namespace(Some(name));
        let inside = |table: usize| -> Vec<Arc<Stored>> {
            let live = self.storage.read().live(table);
            let prefix = filter.prefix();
            live.from(&prefix)
                .take_while(|stored| stored.key.as_str().starts_with(&prefix))
                .cloned()
                .collect()
        };
        for resource in &resources {
            for stored in inside(resource.table) {
                let marked = parse(stored.as_slice())["metadata"]["deletionTimestamp"].is_string();
                if !marked {
                    // Gone meanwhile is as good as deleted.
                    let scope = Scope::new(resource, Some(name));
                    drop(ready(self.delete(scope, stored.key.name(), &DeleteOptions::now())));
                }
            }
        }
        resources.iter().all(|resource| inside(resource.table).is_empty())
    }
}

//! The garbage collector: deletes dependents whose owners do not exist, and completes deletions with the
//! propagation policies `Foreground` and `Orphan`.

use serde_json::Value;

use super::{ControllerManager, MAX_OBJECTS_PER_TASK};
use crate::model::json::Object;
use crate::model::json::parse;
use crate::model::object_meta::{finalizers, metadata_of_mut};
use crate::pipeline::ready::ready;
use crate::pipeline::{BackgroundTask, DeleteOptions, ObjectRef, OnConflict, StoredObject, retry};
use crate::registry::storage::DependentKey;

const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";

impl ControllerManager {
    /// Queues a page of the dependents of an owner that was removed, and then the next page.
    pub(crate) fn check_dependents(&self, uid: &str, after: Option<&DependentKey>) {
        let DependentsPage { dependents, next } = self.dependents(uid, after);
        let tasks = dependents.iter().map(|dependent| BackgroundTask::Dependent(dependent.reference()));
        self.queues.background.add_all(tasks);
        if next.is_some() {
            self.queues.background.add(BackgroundTask::DependentsOf { owner: uid.into(), after: next });
        }
    }

    pub(crate) fn delete_if_ownerless(&self, object: &ObjectRef) {
        let Some(found) = self.find_ref(object) else { return };
        if !found.stored.owners.is_empty() && !self.has_owner(&found) {
            // An error of this deletion means that another write deleted or changed the object first, so it
            // is ignored.
            let name = found.stored.key.name();
            drop(ready(self.delete(found.scope(), name, &DeleteOptions::now())));
        }
    }

    pub(crate) fn propagate_deletion(&self, object: &ObjectRef) {
        let Some(owner) = self.find_ref(object) else { return };
        let uid = &owner.stored.uid;
        let Value::Object(object) = parse(owner.stored.as_slice()) else { return };
        let held = finalizers(&object);
        if held.contains(&ORPHAN) {
            let page = self.dependents(uid, None);
            page.dependents.iter().for_each(|dependent| self.remove_owner_reference(dependent, uid));
            // Keys without a stored object cannot be orphaned, so a page of only such keys is the last one.
            if !page.dependents.is_empty() && self.storage.read().has_dependents(uid) {
                self.queues.background.add(BackgroundTask::Terminating(owner.reference()));
            } else {
                self.remove_finalizer(&owner, ORPHAN);
            }
        } else if held.contains(&FOREGROUND) {
            self.propagate_foreground(&owner.reference(), None);
        }
    }

    /// Queues a page of the dependents of an owner that is deleted in the foreground, and then the next page
    /// or the end of the deletion. A later page does nothing if the owner has lost its finalizer since.
    pub(crate) fn propagate_foreground(&self, owner: &ObjectRef, after: Option<&DependentKey>) {
        if after.is_some() && !self.is_deleted_in_foreground(owner) {
            return;
        }
        let DependentsPage { dependents, next } = self.dependents(&owner.uid, after);
        let tasks = dependents.iter().map(|one| BackgroundTask::DeleteForeground(one.reference()));
        self.queues.background.add_all(tasks);
        let owner = owner.clone();
        self.queues.background.add(match next {
            Some(after) => BackgroundTask::ForegroundDependents { owner, after },
            None => BackgroundTask::FinishForeground(owner),
        });
    }

    fn is_deleted_in_foreground(&self, owner: &ObjectRef) -> bool {
        let Some(owner) = self.find_ref(owner) else { return false };
        let Value::Object(object) = parse(owner.stored.as_slice()) else { return false };
        finalizers(&object).contains(&FOREGROUND)
    }

    pub(crate) fn delete_foreground(&self, object: &ObjectRef) {
        let Some(found) = self.find_ref(object) else { return };
        // An error of this deletion means that another write deleted or changed the dependent first, so it is
        // ignored.
        let (name, options) = (found.stored.key.name(), DeleteOptions::foreground());
        drop(ready(self.delete(found.scope(), name, &options)));
    }

    pub(crate) fn finish_foreground(&self, object: &ObjectRef) {
        let Some(owner) = self.find_ref(object) else { return };
        if self.storage.read().has_dependents(&owner.stored.uid) {
            return;
        }
        let Value::Object(object) = parse(owner.stored.as_slice()) else { return };
        if finalizers(&object).contains(&FOREGROUND) {
            self.remove_finalizer(&owner, FOREGROUND);
        }
    }

    fn remove_finalizer(&self, owner: &StoredObject, finalizer: &str) {
        self.change(owner, |object| {
            let kept: Vec<Value> =
                finalizers(object).into_iter().filter(|name| *name != finalizer).map(Value::from).collect();
            let metadata = metadata_of_mut(object);
            if kept.is_empty() {
                metadata.remove("finalizers")
            } else {
                metadata.insert("finalizers".into(), kept.into())
            };
        });
    }

    fn remove_owner_reference(&self, dependent: &StoredObject, uid: &str) {
        self.change(dependent, |object| {
            let metadata = metadata_of_mut(object);
            let all = metadata.get_mut("ownerReferences").and_then(Value::as_array_mut);
            let Some(all) = all else { return };
            all.retain(|reference| reference["uid"] != uid);
            if all.is_empty() {
                metadata.remove("ownerReferences");
            }
        });
    }

    /// Applies `change` to an object and writes it. Repeats both after a conflict with another write.
    fn change(&self, of: &StoredObject, change: impl Fn(&mut Object)) {
        let name = of.stored.key.name();
        let change = &change;
        let changed = retry(&of.resource.kind, name, OnConflict::Retry, || async move {
            let current = self.find(&of.resource, of.stored.key.namespace(), name)?;
            let Value::Object(mut object) = parse(current.as_slice()) else { return Ok(None) };
            change(&mut object);
            self.put_or_remove(of.scope(), &current, &object)
        });
        // The only possible error is that the object was deleted in the meantime, so it is ignored.
        drop(ready(changed));
    }

    /// Returns the referenced object, or `None` if it was removed, possibly re-created with another UID.
    fn find_ref(&self, object: &ObjectRef) -> Option<StoredObject> {
        self.find_at(object.table, &object.key).filter(|found| found.stored.uid == object.uid)
    }

    /// Returns the page of dependents that follows the key `after`, or the first page.
    fn dependents(&self, uid: &str, after: Option<&DependentKey>) -> DependentsPage {
        let mut keys = self.storage.read().dependents(uid, after, MAX_OBJECTS_PER_TASK);
        let dependents = keys.iter().filter_map(|found| self.find_at(found.table, &found.key)).collect();
        let next = if keys.len() == MAX_OBJECTS_PER_TASK { keys.pop() } else { None };
        DependentsPage { dependents, next }
    }
}

/// At most [`MAX_OBJECTS_PER_TASK`] dependents of an owner.
struct DependentsPage {
    dependents: Vec<StoredObject>,
    /// The last key of a full page, after which the next page begins.
    next: Option<DependentKey>,
}

#[cfg(test)]
mod tests {
    use informer_core::Gvr;
    use serde_json::{Value, json};

    use super::MAX_OBJECTS_PER_TASK;
    use crate::admission::Scope;
    use crate::pipeline::DeleteOptions;
    use crate::pipeline::ready::ready;
    use crate::server::ApiServer;

    const DEPENDENTS: usize = 1_000;

    /// Deletes an owner of many dependents. Asserts that no task queues more than a page of them, and that
    /// all objects are deleted.
    fn delete_owner(options: &DeleteOptions) {
        let server = ApiServer::builder().build();
        let maps = Gvr::new("", "v1", "configmaps");
        let owner = server.create(&maps, "n", json!({"metadata": {"name": "owner"}})).unwrap();
        let reference = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"],
            "blockOwnerDeletion": true,
        });
        let dependent = |index: usize| -> Value {
            let name = format!("dependent-{index}");
            json!({"metadata": {"name": name, "namespace": "n", "ownerReferences": [reference]}})
        };
        assert_eq!(server.load(&maps, (0..DEPENDENTS).map(dependent)).unwrap(), DEPENDENTS);
        let manager = &server.shared.manager;
        let resource = manager.resource(&maps).unwrap();
        ready(manager.delete(Scope::new(&resource, Some("n")), "owner", options)).unwrap();
        let (mut tasks, mut growth, mut before) = (0, 0, manager.queues.background.len());
        while manager.run_ready_task() {
            let after = manager.queues.background.len();
            growth = growth.max(after.saturating_sub(before));
            before = after;
            tasks += 1;
        }
        assert!(growth <= MAX_OBJECTS_PER_TASK, "one task queued {growth} others");
        assert!(tasks > DEPENDENTS, "only {tasks} tasks");
        assert!(server.list(&maps, "n").unwrap().is_empty());
    }

    #[test]
    fn background_deletion_queues_dependents_in_pages() {
        delete_owner(&DeleteOptions::now());
    }

    #[test]
    fn foreground_deletion_queues_dependents_in_pages() {
        delete_owner(&DeleteOptions::foreground());
    }
}

//! The garbage collector: deletes dependents whose owners do not exist, and completes deletions with the
//! propagation policies `Foreground` and `Orphan`.

use serde_json::Value;

use super::{ControllerManager, MAX_DELETIONS_PER_TASK};
use crate::model::json::Object;
use crate::model::json::parse;
use crate::model::object_meta::{finalizers, metadata_of_mut};
use crate::pipeline::ready::ready;
use crate::pipeline::{BackgroundTask, DeleteOptions, ObjectRef, StoredObject, retry};

const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";

impl ControllerManager {
    pub(crate) fn check_dependents(&self, uid: &str) {
        let dependents = self.dependents(uid, usize::MAX);
        let tasks = dependents.iter().map(|dependent| BackgroundTask::Dependent(dependent.reference()));
        self.queues.background.add_all(tasks);
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
            let dependents = self.dependents(uid, MAX_DELETIONS_PER_TASK);
            dependents.iter().for_each(|dependent| self.remove_owner_reference(dependent, uid));
            if self.dependents(uid, 1).is_empty() {
                self.remove_finalizer(&owner, ORPHAN);
            } else {
                self.queues.background.add(BackgroundTask::Terminating(owner.reference()));
            }
        } else if held.contains(&FOREGROUND) {
            let dependents = self.dependents(uid, usize::MAX);
            let tasks = dependents.iter().map(|one| BackgroundTask::DeleteForeground(one.reference()));
            self.queues.background.add_all(tasks);
            self.queues.background.add(BackgroundTask::FinishForeground(owner.reference()));
        }
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
        let changed = retry(&of.resource.kind, name, || {
            let current = self.find(&of.resource, of.stored.key.namespace(), name)?;
            let Value::Object(mut object) = parse(current.as_slice()) else { return Ok(None) };
            change(&mut object);
            self.put_or_remove(of.scope(), &current, &object)
        });
        // The only possible error is that the object was deleted in the meantime, so it is ignored.
        drop(changed);
    }

    /// Returns the referenced object, or `None` if it was removed, possibly re-created with another UID.
    fn find_ref(&self, object: &ObjectRef) -> Option<StoredObject> {
        self.find_at(object.table, &object.key).filter(|found| found.stored.uid == object.uid)
    }

    fn dependents(&self, uid: &str, max: usize) -> Vec<StoredObject> {
        let places = self.storage.read().dependents(uid, max);
        places.into_iter().filter_map(|(table, key)| self.find_at(table, &key)).collect()
    }
}

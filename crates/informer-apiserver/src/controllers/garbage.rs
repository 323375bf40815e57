//! The garbage collector: deletes dependents without owners, and completes foreground and orphan deletions.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};

use super::BackgroundTask;
use crate::kinds::Resource;
use crate::ready::ready;
use crate::server::{Shared, parse};
use crate::storage::Stored;
use crate::write::{DeleteOptions, Object, Scope, finalizers, metadata_of_mut, retry};

const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";

/// How long an object lives whose owners did not exist when it was created. A controller with a stale cache would otherwise
/// create it again and again without any time passing.
const ABSENT_OWNER_DELAY: Duration = Duration::from_secs(1);

/// The place of an object in the storage.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct ObjectRef {
    table: usize,
    key: Box<str>,
    uid: Box<str>,
}

impl ObjectRef {
    fn of(resource: &Resource, stored: &Stored) -> Self {
        Self { table: resource.table, key: stored.key.as_str().into(), uid: stored.uid.clone() }
    }
}

/// A stored object and its resource.
struct Found {
    resource: Arc<Resource>,
    stored: Arc<Stored>,
}

impl Found {
    fn scope(&self) -> Scope<'_> {
        Scope::new(&self.resource, self.stored.key.namespace())
    }

    fn reference(&self) -> ObjectRef {
        ObjectRef::of(&self.resource, &self.stored)
    }
}

impl Shared {
    /// Called after an object was removed: queues its dependents, and owners that wait for their last dependent.
    pub(super) fn collect_after(&self, removed: &Stored) {
        if !self.controllers.garbage {
            return;
        }
        let queue = &self.queues.background;
        if self.storage.read().has_dependents(&removed.uid) {
            queue.add(BackgroundTask::DependentsOf(removed.uid.clone()));
        }
        if removed.owners.is_empty() {
            return;
        }
        for reference in references(&parse(removed.as_slice())) {
            let owner = self.owner(&reference, removed.key.namespace());
            if let Some(owner) = owner.filter(|owner| owner.stored.terminating) {
                queue.add(BackgroundTask::FinishForeground(owner.reference()));
            }
        }
    }

    /// Called after an object was marked as deleted: orphans or deletes its dependents, as its finalizers require.
    pub(crate) fn propagate(&self, scope: Scope<'_>, marked: &Stored) {
        if self.controllers.garbage && !scope.dry_run {
            let marked = ObjectRef::of(scope.resource, marked);
            self.queues.background.add(BackgroundTask::Terminating(marked));
        }
    }

    /// Called after a request has created an object: if none of its owners exists, it is deleted after a delay.
    pub(crate) fn check_owners_of_new(&self, resource: &Arc<Resource>, created: &Arc<Stored>) {
        if !self.controllers.garbage || created.owners.is_empty() {
            return;
        }
        let created = Found { resource: Arc::clone(resource), stored: Arc::clone(created) };
        if !self.has_owner(&created) {
            let task = BackgroundTask::Dependent(created.reference());
            self.queues.background.add_after(task, ABSENT_OWNER_DELAY);
        }
    }

    pub(super) fn check_dependents(&self, uid: &str) {
        let dependents = self.dependents(uid);
        let tasks = dependents.iter().map(|dependent| BackgroundTask::Dependent(dependent.reference()));
        self.queues.background.add_all(tasks);
    }

    pub(super) fn delete_if_ownerless(&self, object: &ObjectRef) {
        let Some(found) = self.find_ref(object) else { return };
        if !found.stored.owners.is_empty() && !self.has_owner(&found) {
            // An error means that the object was deleted or changed in the meantime.
            let name = found.stored.key.name();
            drop(ready(self.delete(found.scope(), name, &DeleteOptions::now())));
        }
    }

    pub(super) fn propagate_deletion(&self, object: &ObjectRef) {
        let Some(owner) = self.find_ref(object) else { return };
        let uid = &owner.stored.uid;
        let Value::Object(object) = parse(owner.stored.as_slice()) else { return };
        let held = finalizers(&object);
        if held.contains(&ORPHAN) {
            self.dependents(uid).iter().for_each(|dependent| self.disown(dependent, uid));
            self.remove_finalizer(&owner, ORPHAN);
        } else if held.contains(&FOREGROUND) {
            let options = DeleteOptions::foreground();
            for dependent in self.dependents(uid) {
                drop(ready(self.delete(dependent.scope(), dependent.stored.key.name(), &options)));
            }
            self.queues.background.add(BackgroundTask::FinishForeground(owner.reference()));
        }
    }

    pub(super) fn finish_foreground(&self, object: &ObjectRef) {
        let Some(owner) = self.find_ref(object) else { return };
        if self.storage.read().has_dependents(&owner.stored.uid) {
            return;
        }
        let Value::Object(object) = parse(owner.stored.as_slice()) else { return };
        if finalizers(&object).contains(&FOREGROUND) {
            self.remove_finalizer(&owner, FOREGROUND);
        }
    }

    fn remove_finalizer(&self, owner: &Found, finalizer: &str) {
        self.change(owner, |object| {
            let kept: Vec<Value> =
                finalizers(object).into_iter().filter(|name| *name != finalizer).map(Value::from).collect();
            let metadata = metadata_of_mut(object);
            match kept.is_empty() {
                true => metadata.remove("finalizers"),
                false => metadata.insert("finalizers".into(), kept.into()),
            };
        });
    }

    fn disown(&self, dependent: &Found, uid: &str) {
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

    /// Changes an object that other writes may change at the same time.
    fn change(&self, of: &Found, change: impl Fn(&mut Object)) {
        let name = of.stored.key.name();
        let changed = retry(&of.resource.kind, name, || {
            let current = self.find(&of.resource, of.stored.key.namespace(), name)?;
            let Value::Object(mut object) = parse(current.as_slice()) else { return Ok(Ok(None)) };
            change(&mut object);
            self.settle(of.scope(), &current, &object)
        });
        // An error means that the object was deleted in the meantime.
        drop(changed);
    }

    /// Returns the object, unless it was removed or replaced by another one of its name.
    fn find_ref(&self, object: &ObjectRef) -> Option<Found> {
        self.find_at(object.table, &object.key).filter(|found| found.stored.uid == object.uid)
    }

    fn find_at(&self, table: usize, key: &str) -> Option<Found> {
        let registry = self.registry.read();
        let mut all = registry.iter().filter(|resource| resource.table == table);
        let resource = all.clone().find(|resource| resource.stored_as.is_none()).or_else(|| all.next())?;
        let stored = self.storage.read().get(table, key).cloned()?;
        Some(Found { resource: Arc::clone(resource), stored })
    }

    fn dependents(&self, uid: &str) -> Vec<Found> {
        let places = self.storage.read().dependents(uid);
        places.into_iter().filter_map(|(table, key)| self.find_at(table, &key)).collect()
    }

    fn has_owner(&self, dependent: &Found) -> bool {
        let object = parse(dependent.stored.as_slice());
        let namespace = dependent.stored.key.namespace();
        references(&object).iter().any(|reference| self.owner(reference, namespace).is_some())
    }

    fn owner(&self, reference: &Map<String, Value>, namespace: Option<&str>) -> Option<Found> {
        let text = |name: &str| reference.get(name).and_then(Value::as_str).unwrap_or_default();
        let resource = self.registry.read().by_kind(text("apiVersion"), text("kind"))?;
        let namespace = namespace.filter(|_| resource.kind.namespaced);
        let stored = self.find(&resource, namespace, text("name")).ok()?;
        (&*stored.uid == text("uid")).then_some(Found { resource, stored })
    }
}

fn references(object: &Value) -> Vec<Map<String, Value>> {
    let all = object["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    all.filter_map(|reference| reference.as_object().cloned()).collect()
}

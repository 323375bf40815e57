//! The garbage collector: deletes dependents without owners, and completes foreground and orphan deletions.

mod queue;

use std::sync::Arc;

use serde_json::{Map, Value};

use super::metadata::{self, metadata_of_mut};
use super::retry::retry;
use super::{DeleteOptions, Object, Scope};
use crate::kinds::Resource;
use crate::ready::ready;
use crate::server::{Shared, parse};
use crate::storage::Stored;

pub(crate) use queue::TaskQueue;

const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";

/// An object that names another one as its owner.
struct Dependent {
    resource: Arc<Resource>,
    stored: Arc<Stored>,
}

impl Dependent {
    fn scope(&self) -> Scope<'_> {
        Scope::new(&self.resource, self.stored.key.namespace())
    }
}

/// A task of the collector, caused by a write.
#[derive(Debug)]
pub(crate) enum Task {
    /// An object was removed: its dependents have lost an owner, and its owners a dependent.
    Removed { uid: Box<str>, namespace: Option<String>, owners: Vec<Map<String, Value>> },
    /// An object was marked as deleted, and may have the finalizers `orphan` or `foregroundDeletion`.
    Marked { resource: Arc<Resource>, stored: Arc<Stored> },
}

impl Shared {
    /// Called after an object was removed: deletes the dependents that have no other owner, and completes the deletion of an owner that
    /// waited for this dependent.
    pub(super) fn collect_after(&self, removed: &Stored) {
        if !self.controllers.garbage {
            return;
        }
        let task = Task::Removed {
            uid: removed.uid.clone(),
            namespace: removed.key.namespace().map(str::to_owned),
            owners: references(&parse(removed.as_slice())),
        };
        self.garbage.run(task, |task| self.collect(task));
    }

    /// Called after an object was marked as deleted: orphans or deletes its dependents, as its finalizers say.
    pub(super) fn propagate(&self, scope: Scope<'_>, marked: &Arc<Stored>) {
        if self.controllers.garbage && !scope.dry_run {
            let task = Task::Marked { resource: Arc::clone(scope.resource), stored: Arc::clone(marked) };
            self.garbage.run(task, |task| self.collect(task));
        }
    }

    /// Runs one task. Tasks that its writes cause are queued behind it.
    fn collect(&self, task: Task) {
        match task {
            Task::Removed { uid, namespace, owners } => {
                for dependent in self.dependents(&uid) {
                    if !self.has_owner(&dependent) {
                        // An error means that the object was deleted or changed; that write collects it.
                        let name = dependent.stored.key.name();
                        drop(ready(self.delete(dependent.scope(), name, &DeleteOptions::now())));
                    }
                }
                for reference in owners {
                    if let Some(owner) = self.owner(&reference, namespace.as_deref()) {
                        self.finish(&owner);
                    }
                }
            }
            Task::Marked { resource, stored } => self.propagate_marked(&Dependent { resource, stored }),
        }
    }

    fn propagate_marked(&self, owner: &Dependent) {
        let uid = &owner.stored.uid;
        let Value::Object(object) = parse(owner.stored.as_slice()) else { return };
        let held = metadata::finalizers(&object);
        if held.contains(&ORPHAN) {
            self.dependents(uid).iter().for_each(|dependent| self.disown(dependent, uid));
            self.let_go(owner, ORPHAN);
        } else if held.contains(&FOREGROUND) {
            let options = DeleteOptions::foreground();
            for dependent in self.dependents(uid) {
                drop(ready(self.delete(dependent.scope(), dependent.stored.key.name(), &options)));
            }
            self.finish(owner);
        }
    }

    /// Lets an owner go that waits for its dependents, once none is left.
    fn finish(&self, owner: &Dependent) {
        let found = self.find(&owner.resource, owner.stored.key.namespace(), owner.stored.key.name());
        let Ok(stored) = found else { return };
        let object = parse(stored.as_slice());
        let waits =
            object["metadata"]["finalizers"].as_array().is_some_and(|all| all.contains(&FOREGROUND.into()));
        if waits && stored.uid == owner.stored.uid && self.dependents(&stored.uid).is_empty() {
            self.let_go(owner, FOREGROUND);
        }
    }

    /// Takes one finalizer off an object.
    fn let_go(&self, owner: &Dependent, finalizer: &str) {
        self.change(owner, |object| {
            let kept: Vec<Value> = metadata::finalizers(object)
                .into_iter()
                .filter(|name| *name != finalizer)
                .map(Value::from)
                .collect();
            let metadata = metadata_of_mut(object);
            match kept.is_empty() {
                true => metadata.remove("finalizers"),
                false => metadata.insert("finalizers".into(), kept.into()),
            };
        });
    }

    fn disown(&self, dependent: &Dependent, uid: &str) {
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

    /// Changes an object that may change meanwhile.
    fn change(&self, of: &Dependent, change: impl Fn(&mut Object)) {
        let name = of.stored.key.name();
        let changed = retry(&of.resource.kind, name, || {
            let current = self.find(&of.resource, of.stored.key.namespace(), name)?;
            let Value::Object(mut object) = parse(current.as_slice()) else { return Ok(Ok(None)) };
            change(&mut object);
            self.settle(of.scope(), &current, &object)
        });
        // Gone meanwhile: there is nothing left to change.
        drop(changed);
    }

    fn dependents(&self, uid: &str) -> Vec<Dependent> {
        let registry = self.registry.read();
        let storage = self.storage.read();
        let of = |(table, key): (usize, String)| {
            let mut all = registry.iter().filter(|r| r.table == table);
            let resource = all.clone().find(|r| r.stored_as.is_none()).or_else(|| all.next())?;
            Some(Dependent { resource: Arc::clone(resource), stored: Arc::clone(storage.get(table, &key)?) })
        };
        storage.dependents(uid).into_iter().filter_map(of).collect()
    }

    /// Whether one of the owners that an object names is there.
    fn has_owner(&self, dependent: &Dependent) -> bool {
        let object = parse(dependent.stored.as_slice());
        let namespace = dependent.stored.key.namespace();
        references(&object).iter().any(|reference| self.owner(reference, namespace).is_some())
    }

    fn owner(&self, reference: &Map<String, Value>, namespace: Option<&str>) -> Option<Dependent> {
        let text = |name: &str| reference.get(name).and_then(Value::as_str).unwrap_or_default();
        let resource = self.registry.read().by_kind(text("apiVersion"), text("kind"))?;
        let namespace = namespace.filter(|_| resource.kind.namespaced);
        let stored = self.find(&resource, namespace, text("name")).ok()?;
        (&*stored.uid == text("uid")).then_some(Dependent { resource, stored })
    }
}

fn references(object: &Value) -> Vec<Map<String, Value>> {
    let all = object["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    all.filter_map(|reference| reference.as_object().cloned()).collect()
}

use informer_core::{Object, ObjectKey, OwnerReference};

use super::{Enqueue, Handler};
use crate::kind::object_key;
use crate::{KubeObject, Request, ResourceKind, Trigger};

/// Returns a handler that enqueues the owners of kind `K` of an object. For an update, it enqueues the owners
/// of the old and of the new state, because an owner reference may have been removed.
pub fn enqueue_owner<K: KubeObject>() -> EnqueueOwner {
    enqueue_owner_of(ResourceKind::of::<K>())
}

/// Returns a handler like [`enqueue_owner`] that enqueues the owners of a kind which is known only at run
/// time.
pub fn enqueue_owner_of(kind: impl Into<ResourceKind>) -> EnqueueOwner {
    EnqueueOwner { kind: kind.into(), only_controller: false }
}

/// The handler returned by [`enqueue_owner`]. Group and kind of an owner reference must match; its version is
/// ignored, since the same object exists in all versions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnqueueOwner {
    kind: ResourceKind,
    only_controller: bool,
}

impl EnqueueOwner {
    /// Restricts the handler to the controller owner of an object, whose owner reference has `controller:
    /// true`.
    pub fn only_controller(mut self) -> Self {
        self.only_controller = true;
        self
    }

    fn matches(&self, owner: &OwnerReference) -> bool {
        let matches_controller = owner.is_controller() || !self.only_controller;
        let gvk = self.kind.gvk();
        matches_controller && owner.kind() == gvk.kind && group(owner.api_version()) == Some(&gvk.group)
    }

    fn request(&self, object: &ObjectKey, owner: &OwnerReference) -> Option<Request> {
        // An owner reference with a missing or invalid name has no object key, so it is skipped.
        object_key(&self.kind, object.namespace(), owner.name()).map(Request::new)
    }
}

/// Returns the API group in an `apiVersion`: `apps` for `apps/v1`, and the empty core group for `v1`. Returns
/// `None` if the string is invalid.
fn group(api_version: &str) -> Option<&str> {
    match api_version.split_once('/') {
        None => Some(""),
        Some((_, version)) if version.contains('/') => None,
        Some((group, _)) => Some(group),
    }
}

impl<O: Object> Handler<O> for EnqueueOwner {
    fn handle(&self, trigger: &Trigger<O>, enqueue: &mut Enqueue<'_, Request>) {
        let mut enqueued: Vec<Request> = Vec::new();
        for object in trigger.states() {
            for owner in object.owners().iter().filter(|owner| self.matches(owner)) {
                let Some(request) = self.request(object.key(), owner) else { continue };
                if !enqueued.contains(&request) {
                    enqueued.push(request.clone());
                    enqueue.add(request);
                }
            }
        }
    }
}

use informer_core::{Object, ObjectKey, OwnerReference};

use super::{Enqueue, Handler};
use crate::{KubeKind, Request, ScopedKind, Trigger};

/// The owners of kind `K` are looked at: of an update, those of both states.
pub fn enqueue_owner<K: KubeKind>() -> EnqueueOwner {
    enqueue_owner_of(ScopedKind::of::<K>())
}

/// The owners of a kind that is known at run time only.
pub fn enqueue_owner_of(kind: impl Into<ScopedKind>) -> EnqueueOwner {
    EnqueueOwner { kind: kind.into(), only_controller: false }
}

/// Made by [`enqueue_owner`]. Group and kind of an owner reference have to match; its version does not, since an owner is the
/// same object in every version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnqueueOwner {
    kind: ScopedKind,
    only_controller: bool,
}

impl EnqueueOwner {
    /// Only the one owner that manages the object: whose reference says `controller: true`.
    pub fn only_controller(mut self) -> Self {
        self.only_controller = true;
        self
    }

    fn matches(&self, owner: &OwnerReference) -> bool {
        let wanted = owner.is_controller() || !self.only_controller;
        let gvk = self.kind.gvk();
        wanted && owner.kind() == gvk.kind && group(owner.api_version()) == Some(&gvk.group)
    }

    fn request(&self, object: &ObjectKey, owner: &OwnerReference) -> Option<Request> {
        // A reference without a name, or with one that cannot be, leads nowhere.
        self.kind.key_of(object.namespace(), owner.name()).map(Request::new)
    }
}

/// The group of `group/version`, or of `version`, which is the core group. `None` where it is neither.
fn group(api_version: &str) -> Option<&str> {
    match api_version.split_once('/') {
        None => Some(""),
        Some((_, version)) if version.contains('/') => None,
        Some((group, _)) => Some(group),
    }
}

impl<O: Object> Handler<O> for EnqueueOwner {
    fn handle(&self, trigger: &Trigger<O>, enqueue: &mut Enqueue<'_, Request>) {
        let mut told: Vec<Request> = Vec::new();
        for object in trigger.states() {
            for owner in object.owners().iter().filter(|owner| self.matches(owner)) {
                let Some(request) = self.request(object.key(), owner) else { continue };
                if !told.contains(&request) {
                    told.push(request.clone());
                    enqueue.add(request);
                }
            }
        }
    }
}

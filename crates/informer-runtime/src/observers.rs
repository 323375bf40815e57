//! The metrics receivers of a component: the one that its builder has set, and the one of its manager.

use std::sync::{Arc, OnceLock};

/// Up to two metrics receivers. The one of the manager can be set after the component was created, but only
/// once.
pub(crate) struct Observers<M: ?Sized> {
    own: Option<Arc<M>>,
    manager: OnceLock<Arc<M>>,
}

impl<M: ?Sized> Observers<M> {
    pub(crate) fn new(own: Option<Arc<M>>) -> Self {
        Self { own, manager: OnceLock::new() }
    }

    /// Sets the manager as a receiver. Returns false if a manager was set before.
    pub(crate) fn set_manager(&self, manager: Arc<M>) -> bool {
        self.manager.set(manager).is_ok()
    }

    pub(crate) fn own(&self) -> Option<&Arc<M>> {
        self.own.as_ref()
    }

    pub(crate) fn manager(&self) -> Option<&Arc<M>> {
        self.manager.get()
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<M>> {
        self.own().into_iter().chain(self.manager())
    }
}

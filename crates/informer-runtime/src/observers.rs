//! Receivers of a component's metrics: one that its builder has set, and one that its manager sets.

use std::sync::{Arc, OnceLock};

/// Up to two receivers of a client's or cache's metrics. The builder sets one; the manager, which is created
/// later, can set the other once.
pub(crate) struct Observers<M: ?Sized> {
    own: Option<Arc<M>>,
    manager: OnceLock<Arc<M>>,
}

impl<M: ?Sized> Observers<M> {
    pub(crate) fn new(own: Option<Arc<M>>) -> Self {
        Self { own, manager: OnceLock::new() }
    }

    /// Sets the receiver of the manager. Returns false if a manager has set its receiver before, because a
    /// component reports to one manager only.
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

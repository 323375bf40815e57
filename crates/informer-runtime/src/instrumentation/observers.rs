//! Who is told of a part: whom its builder named, and the manager that it is in.

use std::sync::{Arc, OnceLock};

/// Both of them, as one for the part. A manager may come later than the part; of several managers the first one counts.
pub(crate) struct Observers<M: ?Sized> {
    own: Option<Arc<M>>,
    manager: OnceLock<Arc<M>>,
}

impl<M: ?Sized> Observers<M> {
    pub(crate) fn new(own: Option<Arc<M>>) -> Self {
        Self { own, manager: OnceLock::new() }
    }

    /// Answers whether it is the first manager: another one is told nothing.
    pub(crate) fn join(&self, manager: Arc<M>) -> bool {
        self.manager.set(manager).is_ok()
    }

    /// Whom the builder named.
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

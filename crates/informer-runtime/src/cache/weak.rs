//! A reference to a cache that does not keep it alive, for the actions of the console.

use std::sync::{Arc, Weak};

use informer_core::Gvk;

use super::informer::ErasedInformer;
use super::{Cache, CacheInner};
use crate::EventSubject;

/// A reference to a cache that does not keep it alive.
#[derive(Clone)]
pub(crate) struct WeakCache(Weak<CacheInner>);

/// The reason why an informer is not removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RemoveError {
    #[error("the cache has no such informer")]
    Unknown,
    #[error(
        "the informer is in use by a controller, a handler or a handle of the program; use relist to refresh it"
    )]
    Used,
}

impl WeakCache {
    /// Returns the cache; `None` if it was dropped.
    pub(crate) fn upgrade(&self) -> Option<Cache> {
        self.0.upgrade().map(|shared| Cache { shared })
    }

    pub(crate) fn is_alive(&self) -> bool {
        self.0.strong_count() > 0
    }
}

impl Cache {
    pub(crate) fn downgrade(&self) -> WeakCache {
        WeakCache(Arc::downgrade(&self.shared))
    }

    /// Returns true if both values are handles of the same cache.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    /// Returns the number of informers of this name.
    pub(crate) fn count_named(&self, name: &str) -> usize {
        let informers = self.shared.table.lock().informers();
        informers.iter().filter(|informer| informer.states().iter().any(|state| state.name == name)).count()
    }

    /// Returns a reference to an object that one of the informers of its kind has.
    pub(crate) fn subject_of(&self, gvk: &Gvk, key: &str) -> Option<EventSubject> {
        let informers = self.shared.table.lock().informers_of(gvk);
        informers.iter().find_map(|informer| informer.subject(key))
    }

    /// Removes the informer of this name, and those of the other namespaces of its kind and representation.
    /// The next read creates them again.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no such informer, or if it is in use: its handlers would get no more
    /// events.
    pub(crate) fn remove_unused(&self, name: &str) -> Result<(), RemoveError> {
        let informers = self.shared.table.lock().informers();
        // The states are read without the lock of the table.
        let is_named =
            |informer: &&Arc<dyn ErasedInformer>| informer.states().iter().any(|state| state.name == name);
        let found = informers.iter().find(is_named).ok_or(RemoveError::Unknown)?;
        let removed = self.shared.table.lock().remove_unused(found)?;
        removed.ok_or(RemoveError::Unknown)?.informer.close();
        Ok(())
    }
}

#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use informer_cache::Event;
use informer_core::{Object, ObjectKey};
use informer_workqueue::LOW_PRIORITY;

/// The event that enqueues a request of a controller: a cache event, or a generic event from outside the
/// cache.
pub enum Trigger<O> {
    /// A cache event: an object was added, updated or deleted in the cache of an informer.
    Event(Event<O>),
    /// A generic event, for example from a timer or a webhook of another system. A channel source or stream
    /// source of `informer-runtime` sends it.
    Generic(Arc<O>),
}

impl<O> Trigger<O> {
    /// Returns the newest state of the object; for a deleted object, its last known state.
    pub fn object(&self) -> &Arc<O> {
        match self {
            Self::Event(event) => event.object(),
            Self::Generic(object) => object,
        }
    }

    /// Returns the old state of the object if this trigger is an update.
    pub fn old(&self) -> Option<&Arc<O>> {
        match self {
            Self::Event(Event::Updated { old, .. }) => Some(old),
            _ => None,
        }
    }

    /// Returns the old state of the object, if this trigger is an update, and the newest state.
    pub fn states(&self) -> impl Iterator<Item = &Arc<O>> {
        self.old().into_iter().chain([self.object()])
    }

    /// Returns the priority of the requests that this trigger enqueues: [`LOW_PRIORITY`] for events of
    /// initial lists and resyncs, otherwise 0.
    pub fn priority(&self) -> i32 {
        match self {
            Self::Event(Event::Added { initial: true, .. } | Event::Updated { resync: true, .. }) => {
                LOW_PRIORITY
            }
            _ => 0,
        }
    }
}

impl<O: Object> Trigger<O> {
    /// Returns the key of the object that triggers the request.
    pub fn key(&self) -> &ObjectKey {
        self.object().key()
    }
}

impl<O> From<Event<O>> for Trigger<O> {
    fn from(event: Event<O>) -> Self {
        Self::Event(event)
    }
}

impl<O> Clone for Trigger<O> {
    fn clone(&self) -> Self {
        match self {
            Self::Event(event) => Self::Event(event.clone()),
            Self::Generic(object) => Self::Generic(Arc::clone(object)),
        }
    }
}

impl<O: Object> fmt::Debug for Trigger<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Event(event) => fmt::Display::fmt(event, f),
            Self::Generic(object) => write!(f, "generic {} @{}", object.key(), object.resource_version()),
        }
    }
}

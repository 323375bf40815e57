#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use informer_cache::Event;
use informer_core::{Object, ObjectKey};
use informer_workqueue::LOW_PRIORITY;

/// What makes a controller look at something: a change in a cache, or something from outside that concerns an object.
pub enum Trigger<O> {
    /// A change that an informer announced.
    Event(Event<O>),
    /// Something that is no change in a cache: a webhook of another system, a timer. From a channel or a stream of the runtime.
    Generic(Arc<O>),
}

impl<O> Trigger<O> {
    /// The newest state that it carries: of a deletion, the last known one.
    pub fn object(&self) -> &Arc<O> {
        match self {
            Self::Event(event) => event.object(),
            Self::Generic(object) => object,
        }
    }

    /// The state before, of an update.
    pub fn old(&self) -> Option<&Arc<O>> {
        match self {
            Self::Event(Event::Updated { old, .. }) => Some(old),
            _ => None,
        }
    }

    /// Old state, where it is an update, and newest state.
    pub fn states(&self) -> impl Iterator<Item = &Arc<O>> {
        self.old().into_iter().chain([self.object()])
    }

    /// The priority of what follows from it: [`LOW_PRIORITY`] for the first list and for a resync, which are no news, 0
    /// otherwise.
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
    /// The key of the object.
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

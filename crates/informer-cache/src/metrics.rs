//! The interface through which informers report metrics.

#[cfg(feature = "prometheus")]
pub mod prometheus;

use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use informer_core::Object;

use crate::InformerState;
use crate::any_object::AnyObject;

/// Receives the metrics of informers. Without an implementation, an informer has no overhead for metrics.
///
/// Most metrics are pulled: an informer passes an [`InformerProbe`] once, and the collector reads it. A panic
/// of [`processed`](Self::processed) is contained, counted in [`panics`](crate::InformerState::panics) and
/// logged.
pub trait InformerMetrics: Send + Sync + 'static {
    /// Called once for each informer, when it is created. The probe can be read as long as the informer
    /// exists.
    fn observe(&self, probe: InformerProbe);

    /// Called after a batch of `changes` changes was applied to the cache and added to the listeners'
    /// buffers. `took` is the duration of that work.
    fn processed(&self, informer: &str, changes: usize, took: Duration) {
        let _ = (informer, changes, took);
    }
}

/// A weak reference to an informer, with which its state and its objects can be read without keeping it
/// alive.
#[derive(Clone)]
pub struct InformerProbe(Arc<dyn Probed>);

/// An informer that a probe reads.
pub(crate) trait ProbeTarget: Send + Sync + 'static {
    fn state(&self) -> InformerState;

    fn request_relist(&self);

    fn get(&self, key: &str) -> Option<AnyObject>;

    fn for_each(&self, visit: &mut dyn FnMut(&dyn Object));
}

trait Probed: Send + Sync {
    fn is_alive(&self) -> bool;

    fn target(&self) -> Option<Arc<dyn ProbeTarget>>;
}

impl<T: ProbeTarget> Probed for Weak<T> {
    fn is_alive(&self) -> bool {
        self.strong_count() > 0
    }

    fn target(&self) -> Option<Arc<dyn ProbeTarget>> {
        self.upgrade().map(|informer| informer as Arc<dyn ProbeTarget>)
    }
}

impl InformerProbe {
    pub(crate) fn new<T: ProbeTarget>(informer: &Arc<T>) -> Self {
        Self(Arc::new(Arc::downgrade(informer)))
    }

    /// Returns the state of the informer; `None` once the informer was dropped.
    pub fn state(&self) -> Option<InformerState> {
        self.0.target().map(|informer| informer.state())
    }

    /// Returns false once the informer was dropped. The call takes no lock, so that collectors can cheaply
    /// remove unused probes.
    pub fn is_alive(&self) -> bool {
        self.0.is_alive()
    }

    /// Makes the informer list all objects again after a backoff, for example because an operator suspects
    /// that its cache is wrong. Returns false if the informer was dropped.
    ///
    /// The list is a consistent read, and its reason is
    /// [`RelistReason::Requested`](crate::reflector::RelistReason::Requested). Requests before that list are
    /// combined into one.
    pub fn request_relist(&self) -> bool {
        self.0.target().map(|informer| informer.request_relist()).is_some()
    }

    /// Returns the cached object with this key; `None` if there is none, or if the informer was dropped.
    pub fn get(&self, key: &str) -> Option<AnyObject> {
        self.0.target()?.get(key)
    }

    /// Calls `visit` for each cached object, in no order. The objects are those of one version of the cache.
    /// No lock is held during the calls. Does nothing if the informer was dropped.
    pub fn for_each(&self, mut visit: impl FnMut(&dyn Object)) {
        if let Some(informer) = self.0.target() {
            informer.for_each(&mut visit);
        }
    }

    /// Returns true if this probe and `other` read the same informer.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl fmt::Debug for InformerProbe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("InformerProbe").field(&self.state().map(|state| state.name)).finish()
    }
}

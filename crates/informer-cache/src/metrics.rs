//! The interface through which informers report metrics.

#[cfg(feature = "prometheus")]
pub mod prometheus;

use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::InformerState;

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

/// A weak reference to an informer, with which its state can be read without keeping it alive.
#[derive(Clone)]
pub struct InformerProbe(Arc<dyn Probed>);

trait Probed: Send + Sync {
    fn state(&self) -> Option<InformerState>;

    fn is_alive(&self) -> bool;

    fn request_relist(&self) -> bool;
}

struct Distant<T> {
    informer: Weak<T>,
    state: fn(&T) -> InformerState,
    relist: fn(&T),
}

impl<T: Send + Sync> Probed for Distant<T> {
    fn state(&self) -> Option<InformerState> {
        self.informer.upgrade().map(|informer| (self.state)(&informer))
    }

    fn is_alive(&self) -> bool {
        self.informer.strong_count() > 0
    }

    fn request_relist(&self) -> bool {
        let informer = self.informer.upgrade();
        informer.is_some_and(|informer| {
            (self.relist)(&informer);
            true
        })
    }
}

impl InformerProbe {
    pub(crate) fn new<T: Send + Sync + 'static>(
        informer: &Arc<T>,
        state: fn(&T) -> InformerState,
        relist: fn(&T),
    ) -> Self {
        Self(Arc::new(Distant { informer: Arc::downgrade(informer), state, relist }))
    }

    /// Returns the state of the informer; `None` once the informer was dropped.
    pub fn state(&self) -> Option<InformerState> {
        self.0.state()
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
        self.0.request_relist()
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

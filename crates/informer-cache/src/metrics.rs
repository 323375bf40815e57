//! Where informers show how they are.

#[cfg(feature = "prometheus")]
pub mod prometheus;

use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::InformerState;

/// Receives what informers have to show. An informer without one pays nothing for it.
///
/// Most figures are not pushed: an informer hands over an [`InformerProbe`] once, and whoever collects metrics asks it. A panic
/// of [`processed`](Self::processed) is contained, counted among the [`panics`](crate::InformerState::panics) and logged.
pub trait InformerMetrics: Send + Sync + 'static {
    /// An informer was made. Its probe answers as long as the informer lives.
    fn observe(&self, probe: InformerProbe);

    /// A batch of `changes` was applied to the cache and handed to the listeners' buffers in `took`.
    fn processed(&self, informer: &str, changes: usize, took: Duration) {
        let _ = (informer, changes, took);
    }
}

/// Asks one informer for its state, without keeping it alive.
#[derive(Clone)]
pub struct InformerProbe(Arc<dyn Probed>);

trait Probed: Send + Sync {
    fn state(&self) -> Option<InformerState>;

    fn is_alive(&self) -> bool;
}

struct Distant<T> {
    informer: Weak<T>,
    state: fn(&T) -> InformerState,
}

impl<T: Send + Sync> Probed for Distant<T> {
    fn state(&self) -> Option<InformerState> {
        self.informer.upgrade().map(|informer| (self.state)(&informer))
    }

    fn is_alive(&self) -> bool {
        self.informer.strong_count() > 0
    }
}

impl InformerProbe {
    pub(crate) fn new<T: Send + Sync + 'static>(informer: &Arc<T>, state: fn(&T) -> InformerState) -> Self {
        Self(Arc::new(Distant { informer: Arc::downgrade(informer), state }))
    }

    /// The state; `None` once the informer is gone.
    pub fn state(&self) -> Option<InformerState> {
        self.0.state()
    }

    /// False once the informer is gone. Takes no lock, for whoever keeps probes and drops those that are of no use.
    pub fn is_alive(&self) -> bool {
        self.0.is_alive()
    }

    /// True where both ask the same informer.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl fmt::Debug for InformerProbe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("InformerProbe").field(&self.state().map(|state| state.name)).finish()
    }
}

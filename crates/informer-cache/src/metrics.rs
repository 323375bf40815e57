//! Where informers show how they are.

#[cfg(feature = "prometheus")]
pub mod prometheus;

use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::InformerState;

/// Receives what informers have to show. An informer without one pays nothing for it.
///
/// Most figures are not pushed: an informer hands over an [`InformerProbe`] once, and whoever collects metrics asks it.
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
pub struct InformerProbe(Arc<dyn Fn() -> Option<InformerState> + Send + Sync>);

impl InformerProbe {
    pub(crate) fn new<T: Send + Sync + 'static>(informer: &Arc<T>, state: fn(&T) -> InformerState) -> Self {
        let informer: Weak<T> = Arc::downgrade(informer);
        Self(Arc::new(move || informer.upgrade().map(|informer| state(&informer))))
    }

    /// The state; `None` once the informer is gone.
    pub fn state(&self) -> Option<InformerState> {
        (self.0)()
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

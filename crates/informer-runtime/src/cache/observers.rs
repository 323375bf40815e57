//! Who is told of the informers of a cache: whom its builder named, and the manager that the cache is in.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use informer_cache::metrics::{InformerMetrics, InformerProbe};

/// Both of them, as one for the informers. A manager may come after the first informers.
pub(super) struct Observers {
    own: Option<Arc<dyn InformerMetrics>>,
    manager: OnceLock<Arc<dyn InformerMetrics>>,
}

impl Observers {
    pub(super) fn new(own: Option<Arc<dyn InformerMetrics>>) -> Self {
        Self { own, manager: OnceLock::new() }
    }

    /// Answers whether it is the first manager: another one is told nothing.
    pub(super) fn join(&self, manager: Arc<dyn InformerMetrics>) -> bool {
        self.manager.set(manager).is_ok()
    }

    pub(super) fn manager(&self) -> Option<&Arc<dyn InformerMetrics>> {
        self.manager.get()
    }
}

impl InformerMetrics for Observers {
    /// The manager is told later, once the informer has its place in the table: one that comes at the same time is told of each
    /// informer once, and of none that lost its place to another.
    fn observe(&self, probe: InformerProbe) {
        if let Some(own) = &self.own {
            own.observe(probe);
        }
    }

    fn processed(&self, informer: &str, changes: usize, took: Duration) {
        for metrics in self.own.iter().chain(self.manager.get()) {
            metrics.processed(informer, changes, took);
        }
    }
}

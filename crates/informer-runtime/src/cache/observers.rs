//! Forwards the metrics of a cache's informers to the receivers of the program and of a manager.

use std::time::Duration;

use informer_cache::metrics::{InformerMetrics, InformerProbe};

use crate::observers::Observers;

impl InformerMetrics for Observers<dyn InformerMetrics> {
    /// Reports a new informer only to the program's own metrics receiver. The receiver of a manager gets the
    /// informer later, once it is in the table of the cache. A manager that is added concurrently therefore
    /// receives each informer once. It receives no informer that was discarded because another task had
    /// created the same one first.
    fn observe(&self, probe: InformerProbe) {
        if let Some(own) = self.own() {
            own.observe(probe);
        }
    }

    fn processed(&self, informer: &str, changes: usize, took: Duration) {
        self.all().for_each(|metrics| metrics.processed(informer, changes, took));
    }
}

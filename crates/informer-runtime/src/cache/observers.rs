//! What the informers of a cache tell, and whom.

use std::time::Duration;

use informer_cache::metrics::{InformerMetrics, InformerProbe};

use crate::observed::Observers;

impl InformerMetrics for Observers<dyn InformerMetrics> {
    /// The manager is told later, once the informer has its place in the table: one that comes at the same time is told of each
    /// informer once, and of none that lost its place to another.
    fn observe(&self, probe: InformerProbe) {
        if let Some(own) = self.own() {
            own.observe(probe);
        }
    }

    fn processed(&self, informer: &str, changes: usize, took: Duration) {
        self.all().for_each(|metrics| metrics.processed(informer, changes, took));
    }
}

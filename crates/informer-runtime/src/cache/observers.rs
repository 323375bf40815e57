//! Forwards the metrics of a cache's informers.

use std::time::Duration;

use informer_cache::metrics::{InformerMetrics, InformerProbe};

use crate::instrumentation::Observers;

impl InformerMetrics for Observers<dyn InformerMetrics> {
    /// Does not notify the manager: it is notified once the informer is in the table. A manager that is added
    /// concurrently then gets each informer once, and none that lost a race for its table entry.
    fn observe(&self, probe: InformerProbe) {
        if let Some(own) = self.own() {
            own.observe(probe);
        }
    }

    fn processed(&self, informer: &str, changes: usize, took: Duration) {
        self.all().for_each(|metrics| metrics.processed(informer, changes, took));
    }
}

//! Forwards the metrics of a cache's informers to the receivers of the program and of a manager.

use std::time::Duration;

use informer_cache::metrics::{InformerMetrics, InformerProbe};

use crate::instrumentation::Observers;

impl InformerMetrics for Observers<dyn InformerMetrics> {
    /// The manager is not notified here, but once the informer is in the table. A manager that is added
    /// concurrently then gets each informer once, and no informer that another task replaced before it was in
    /// the table.
    fn observe(&self, probe: InformerProbe) {
        if let Some(own) = self.own() {
            own.observe(probe);
        }
    }

    fn processed(&self, informer: &str, changes: usize, took: Duration) {
        self.all().for_each(|metrics| metrics.processed(informer, changes, took));
    }
}

use prometheus_client::{metrics::counter::Counter, registry::Registry};

/// Counts how often the servers of a manager have read their certificate files, under the names of these
/// metrics in controller-runtime.
#[derive(Clone, Default)]
pub(crate) struct CertificateReads {
    all: Counter,
    failed: Counter,
}

impl CertificateReads {
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let reads = Self::default();
        let name = "certwatcher_read_certificate";
        registry.register(name, "Reads of certificates", reads.all.clone());
        registry.register(
            format!("{name}_errors"),
            "Reads of certificates that failed",
            reads.failed.clone(),
        );
        reads
    }

    pub(super) fn count(&self, failed: bool) {
        self.all.inc();
        self.failed.inc_by(u64::from(failed));
    }
}

use std::sync::atomic::AtomicI64;

use jiff::Timestamp;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// The metrics of the certificates of a manager's servers: how often their files were read, under the names
/// of controller-runtime, and when the certificates that the program generates expire.
#[derive(Clone, Default)]
pub(crate) struct CertificateMetrics {
    reads: Counter,
    failed_reads: Counter,
    expirations: Family<ServerLabel, Gauge<i64, AtomicI64>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ServerLabel {
    server: String,
}

impl CertificateMetrics {
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        let name = "certwatcher_read_certificate";
        registry.register(name, "Reads of certificates", metrics.reads.clone());
        registry.register(
            format!("{name}_errors"),
            "Reads of certificates that failed",
            metrics.failed_reads.clone(),
        );
        registry.register(
            "informer_certificate_expiration_timestamp_seconds",
            "When the generated certificate that a server uses expires, in seconds since 1970",
            metrics.expirations.clone(),
        );
        metrics
    }

    pub(super) fn count(&self, failed: bool) {
        self.reads.inc();
        self.failed_reads.inc_by(u64::from(failed));
    }

    /// Records that a server uses a generated certificate, which expires at this time.
    pub(super) fn serves(&self, server: &str, until: Timestamp) {
        let label = ServerLabel { server: server.to_owned() };
        self.expirations.get_or_create(&label).set(until.as_second());
    }
}

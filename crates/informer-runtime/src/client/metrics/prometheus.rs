//! Exports the metrics of clients to a prometheus-client registry (feature `prometheus`).

use std::fmt;
use std::time::Duration;

use informer_core::Gvk;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::ClientMetrics;
use crate::client::OperationVerb;

/// The upper bounds, in seconds, of the buckets of the histogram of read waits. They range from 1 ms to 10 s,
/// as in the metrics of informers.
const WAIT_BUCKETS: [f64; 9] = [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0];

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    code: String,
    method: String,
    host: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct KindLabels {
    group: String,
    kind: String,
}

/// Exports the metrics of clients to Prometheus. A cheap handle; clones share the metrics.
///
/// The metric `rest_client_requests_total` by code, method and host has the name and labels of client-go.
/// `informer_client_read_wait_seconds` and `informer_client_read_wait_timeouts_total` measure how long reads
/// wait for the cache to contain own writes, by group and kind. `informer_client_unknown_fields` is 1 for
/// each group and kind of which the server sends fields that this version of the library does not know.
#[derive(Clone)]
pub struct PrometheusClient {
    host: String,
    requests: Family<RequestLabels, Counter>,
    waits: Family<KindLabels, Histogram, fn() -> Histogram>,
    timeouts: Family<KindLabels, Counter>,
    unknown_fields: Family<KindLabels, Gauge>,
}

impl PrometheusClient {
    /// Registers the metrics of the clients of one server, named `host`. A manager that serves metrics
    /// registers those of its own client in its own registry.
    pub fn register(registry: &mut Registry, host: impl Into<String>) -> Self {
        let histogram: fn() -> Histogram = || Histogram::new(WAIT_BUCKETS);
        let metrics = Self {
            host: host.into(),
            requests: Family::default(),
            waits: Family::new_with_constructor(histogram),
            timeouts: Family::default(),
            unknown_fields: Family::default(),
        };
        let requests = "Number of HTTP requests, partitioned by status code, method, and host";
        registry.register("rest_client_requests", requests, metrics.requests.clone());
        let waits = "Time that reads waited for the cache to show writes of the same program";
        registry.register("informer_client_read_wait_seconds", waits, metrics.waits.clone());
        let timeouts = "Reads that timed out waiting for the cache to show writes of the same program";
        registry.register("informer_client_read_wait_timeouts", timeouts, metrics.timeouts.clone());
        let unknown =
            "Whether the server sends fields of a kind that this version of the library does not know";
        registry.register("informer_client_unknown_fields", unknown, metrics.unknown_fields.clone());
        metrics
    }
}

fn method(verb: OperationVerb) -> &'static str {
    match verb {
        OperationVerb::Get | OperationVerb::List => "GET",
        OperationVerb::Create => "POST",
        OperationVerb::Replace => "PUT",
        OperationVerb::Patch(_) | OperationVerb::Apply => "PATCH",
        OperationVerb::Delete | OperationVerb::DeleteCollection => "DELETE",
    }
}

impl ClientMetrics for PrometheusClient {
    fn request(&self, verb: OperationVerb, _: &Gvk, code: u16, _: Duration) {
        // If there was no response, client-go sets the label `code` of `rest_client_requests_total` to
        // `<error>`.
        let code = if code == 0 { "<error>".to_owned() } else { code.to_string() };
        let labels = RequestLabels { code, method: method(verb).to_owned(), host: self.host.clone() };
        self.requests.get_or_create(&labels).inc();
    }

    fn read_waited(&self, kind: &Gvk, waited: Duration, shown: bool) {
        let labels = KindLabels { group: kind.group.clone(), kind: kind.kind.clone() };
        self.waits.get_or_create(&labels).observe(waited.as_secs_f64());
        // The counter of timeouts is created with the value 0 at the first wait. Prometheus could otherwise
        // not compute the increase for the first timeout.
        self.timeouts.get_or_create(&labels).inc_by(u64::from(!shown));
    }

    fn unknown_fields(&self, kind: &Gvk) {
        let labels = KindLabels { group: kind.group.clone(), kind: kind.kind.clone() };
        self.unknown_fields.get_or_create(&labels).set(1);
    }
}

impl fmt::Debug for PrometheusClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PrometheusClient").field("host", &self.host).finish_non_exhaustive()
    }
}

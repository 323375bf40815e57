//! The metrics of admission and conversion webhooks, under their names in controller-runtime.

use std::time::Duration;

use http::StatusCode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use tokio::time::Instant;

type Labels = Vec<(&'static str, String)>;

/// The upper bounds of the buckets of review latencies in seconds, as in controller-runtime. An API server
/// waits at most 30 s for a webhook.
const LATENCY_BUCKETS: [f64; 12] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0];

/// The metrics of all webhooks of a manager: counts, latencies and panics of reviews. The label `webhook` is
/// the path of the webhook.
#[derive(Clone)]
pub(crate) struct WebhookMetrics {
    requests: Family<Labels, Counter>,
    in_flight: Family<Labels, Gauge>,
    latency: Family<Labels, Histogram, fn() -> Histogram>,
    panics: Counter,
}

impl WebhookMetrics {
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let histogram: fn() -> Histogram = || Histogram::new(LATENCY_BUCKETS);
        let metrics = Self {
            requests: Family::default(),
            in_flight: Family::default(),
            latency: Family::new_with_constructor(histogram),
            panics: Counter::default(),
        };
        let name = |name: &str| format!("controller_runtime_webhook_{name}");
        registry.register(name("requests"), "Reviews by status of the response", metrics.requests.clone());
        registry.register(name("requests_in_flight"), "Reviews in flight", metrics.in_flight.clone());
        registry.register(name("latency_seconds"), "Latency of reviews", metrics.latency.clone());
        registry.register(name("panics"), "Panics of webhooks", metrics.panics.clone());
        metrics
    }

    pub(super) fn begin(&self, path: &str) -> Review {
        let labels = vec![("webhook", path.to_owned())];
        self.in_flight.get_or_create_owned(&labels).inc();
        Review { metrics: self.clone(), labels, began: Instant::now() }
    }
}

/// A guard for a review that is in progress. It counts the review as in flight, and records its latency when
/// it is dropped.
pub(super) struct Review {
    metrics: WebhookMetrics,
    labels: Labels,
    began: Instant,
}

impl Review {
    pub(super) fn completed(&self, status: StatusCode, panicked: bool) {
        let mut labels = self.labels.clone();
        labels.push(("code", status.as_u16().to_string()));
        self.metrics.requests.get_or_create_owned(&labels).inc();
        self.metrics.panics.inc_by(u64::from(panicked));
    }
}

impl Drop for Review {
    fn drop(&mut self) {
        let took: Duration = self.began.elapsed();
        self.metrics.in_flight.get_or_create_owned(&self.labels).dec();
        self.metrics.latency.get_or_create_owned(&self.labels).observe(took.as_secs_f64());
    }
}

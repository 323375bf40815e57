//! Metrics of clients.

#[cfg(feature = "prometheus")]
pub mod prometheus;

use std::time::Duration;

use informer_core::Gvk;

use super::OperationVerb;
use crate::observers::Observers;

/// Receives the metrics of clients. Metrics never contain object names.
pub trait ClientMetrics: Send + Sync + 'static {
    /// Called when a request to the API server ended. `code` is the status code of an error, 0 without a
    /// response, and 200 otherwise.
    fn request(&self, verb: OperationVerb, kind: &Gvk, code: u16, took: Duration) {
        let _ = (verb, kind, code, took);
    }

    /// Called when a read has waited for the cache to contain own writes; `shown` is false if the wait
    /// reached its bound.
    fn read_waited(&self, kind: &Gvk, waited: Duration, shown: bool) {
        let _ = (kind, waited, shown);
    }

    /// Called when the server sends fields of a kind that this version of the library does not know, once per
    /// kind and client. Updates of such objects may cost a read from the server.
    fn unknown_fields(&self, kind: &Gvk) {
        let _ = kind;
    }
}

impl ClientMetrics for Observers<dyn ClientMetrics> {
    fn request(&self, verb: OperationVerb, kind: &Gvk, code: u16, took: Duration) {
        self.all().for_each(|metrics| metrics.request(verb, kind, code, took));
    }

    fn read_waited(&self, kind: &Gvk, waited: Duration, shown: bool) {
        self.all().for_each(|metrics| metrics.read_waited(kind, waited, shown));
    }

    fn unknown_fields(&self, kind: &Gvk) {
        self.all().for_each(|metrics| metrics.unknown_fields(kind));
    }
}

//! The metrics of clients: requests to the API server, and waits of reads for the program's own writes.

#[cfg(feature = "prometheus")]
pub mod prometheus;

use std::time::Duration;

use informer_core::Gvk;

use super::OperationVerb;
use crate::observers::Observers;

/// Receives the metrics of clients. The metrics never contain object names.
pub trait ClientMetrics: Send + Sync + 'static {
    /// Called when a request to the API server ended. `code` is the HTTP status code of an error, 0 if there
    /// was no response, and 200 otherwise.
    fn request(&self, verb: OperationVerb, kind: &Gvk, code: u16, took: Duration) {
        let _ = (verb, kind, code, took);
    }

    /// Called when a read has waited for the cache to contain the program's own writes. `shown` is false if
    /// the wait reached its time limit.
    fn read_waited(&self, kind: &Gvk, waited: Duration, shown: bool) {
        let _ = (kind, waited, shown);
    }

    /// Called when the server sends fields of a kind that this version of the library does not know, once per
    /// kind and client. An update of such an object may cost a read from the server, because its patch is
    /// computed on the complete object.
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

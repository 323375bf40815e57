//! Where clients show how they are.

#[cfg(feature = "prometheus")]
pub mod prometheus;

use std::time::Duration;

use informer_core::Gvk;

use super::OperationVerb;
use crate::observed::Observers;

/// Receives what clients have to show. Names of objects never come here.
pub trait ClientMetrics: Send + Sync + 'static {
    /// An operation went to the server and was answered: with `code` where it was refused, with 0 where no answer came, with 200
    /// otherwise.
    fn request(&self, verb: OperationVerb, kind: &Gvk, code: u16, took: Duration) {
        let _ = (verb, kind, code, took);
    }

    /// A read waited for the cache to show own writes; `shown` is false where the wait reached its bound.
    fn read_waited(&self, kind: &Gvk, waited: Duration, shown: bool) {
        let _ = (kind, waited, shown);
    }

    /// The server sends fields of a kind that this version of the library does not know. Reported once per
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

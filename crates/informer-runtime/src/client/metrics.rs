//! Where clients show how they are.

#[cfg(feature = "prometheus")]
pub mod prometheus;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use informer_core::Gvk;

use super::OperationVerb;

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
}

/// Whom a client tells: whom its builder named, and the manager that it is in.
pub(super) struct Observers {
    own: Option<Arc<dyn ClientMetrics>>,
    manager: OnceLock<Arc<dyn ClientMetrics>>,
}

impl Observers {
    pub(super) fn new(own: Option<Arc<dyn ClientMetrics>>) -> Self {
        Self { own, manager: OnceLock::new() }
    }

    /// Of several managers the first one is told.
    #[cfg(feature = "prometheus")]
    pub(super) fn join(&self, manager: Arc<dyn ClientMetrics>) {
        let _ = self.manager.set(manager);
    }

    fn all(&self) -> impl Iterator<Item = &Arc<dyn ClientMetrics>> {
        self.own.iter().chain(self.manager.get())
    }
}

impl ClientMetrics for Observers {
    fn request(&self, verb: OperationVerb, kind: &Gvk, code: u16, took: Duration) {
        self.all().for_each(|metrics| metrics.request(verb, kind, code, took));
    }

    fn read_waited(&self, kind: &Gvk, waited: Duration, shown: bool) {
        self.all().for_each(|metrics| metrics.read_waited(kind, waited, shown));
    }
}

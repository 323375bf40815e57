//! Health, readiness and liveness checks, and their HTTP endpoints.
//!
//! # Lock order
//!
//! One mutex guards the list of health checks. The list is copied under that lock, and the checks run without
//! it, because a check may take any other lock.

mod page;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::{BoxError, HttpServer};

/// The timeout of a health check. It is longer than the kubelet's default timeout of one second, so that a
/// program whose probes have a longer timeout can add checks with a round trip to another server.
const CHECK_TIMEOUT: Duration = Duration::from_secs(5);

type Check = Arc<dyn Fn() -> BoxFuture<'static, Result<(), BoxError>> + Send + Sync>;

/// The health endpoint to which a check belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Probe {
    /// The endpoint `/healthz`, which reports whether the process is healthy.
    Health,
    /// The endpoint `/readyz`, which reports whether the process can serve requests.
    Ready,
    /// The endpoint `/livez`, which reports whether the program makes progress. If it fails, the program
    /// should be restarted.
    Live,
}

impl Probe {
    /// Returns the name of the endpoint, which is also its path: `healthz`, `readyz` or `livez`.
    pub fn page(self) -> &'static str {
        match self {
            Self::Health => "healthz",
            Self::Ready => "readyz",
            Self::Live => "livez",
        }
    }
}

/// The named checks of a manager. Clones are cheap and share the checks.
///
/// An endpoint returns `ok`, or 500 with the checks by name. `?verbose` lists the checks in any case,
/// `?exclude=NAME` skips one, and `/readyz/NAME` runs a single check and returns its error. A check that
/// panics or takes longer than 5 s fails.
///
/// A manager adds these checks:
///
/// - `manager`, on every endpoint, fails when the manager's loop does not respond;
/// - `informers`, in `readyz`, fails while an informer restarts after a panic of its own tasks;
/// - `started`, in `readyz`, fails until the caches have synced and everything else has started, and again
///   once the manager stops. With webhooks, `started` waits only for them: an API server may need them to
///   serve the caches, and sends no requests to a server that is not ready.
///
/// This type corresponds to [`healthz`](https://pkg.go.dev/sigs.k8s.io/controller-runtime/pkg/healthz), where
/// no check depends on caches.
#[derive(Clone, Default)]
pub struct HealthChecks {
    checks: Arc<Mutex<BTreeMap<(Probe, String), Check>>>,
}

impl HealthChecks {
    /// Adds a health check to an endpoint. It replaces an earlier check with the same name.
    pub fn add<F, Fut>(&self, probe: Probe, name: impl Into<String>, check: F)
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), BoxError>> + Send + 'static,
    {
        let check: Check = Arc::new(move || check().boxed());
        self.checks.lock().insert((probe, name.into()), check);
    }

    /// Adds a check to `livez` that fails if [`Heartbeat::beat`] was not called for the duration `limit`. Use
    /// it for loops that must not stall. The check is removed when the last clone of the returned heartbeat
    /// is dropped.
    pub fn heartbeat(&self, name: impl Into<String>, limit: Duration) -> Heartbeat {
        let heartbeat = Heartbeat { last: Arc::new(Mutex::new(Instant::now())) };
        let last = Arc::downgrade(&heartbeat.last);
        self.add(Probe::Live, name, move || {
            let silence = last.upgrade().map_or(Duration::ZERO, |last| last.lock().elapsed());
            let alive =
                if silence <= limit { Ok(()) } else { Err(format!("no heartbeat for {silence:?}").into()) };
            std::future::ready(alive)
        });
        heartbeat
    }

    pub(crate) fn pages(&self, mut server: HttpServer) -> HttpServer {
        for probe in [Probe::Health, Probe::Ready, Probe::Live] {
            for path in [format!("/{}", probe.page()), format!("/{}/", probe.page())] {
                let checks = self.clone();
                server = server.route(path, move |request| {
                    let checks = checks.clone();
                    async move { checks.respond(probe, request.uri()).await }
                });
            }
        }
        server
    }

    fn of(&self, probe: Probe) -> Vec<(String, Check)> {
        let checks = self.checks.lock();
        let of_probe = checks.iter().filter(|((of, _), _)| *of == probe);
        of_probe.map(|((_, name), check)| (name.clone(), Arc::clone(check))).collect()
    }
}

impl fmt::Debug for HealthChecks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.checks.lock().keys()).finish()
    }
}

/// Reports that a loop makes progress, so that its liveness check succeeds; see [`HealthChecks::heartbeat`].
#[derive(Debug, Clone)]
#[must_use = "dropping it removes the check"]
pub struct Heartbeat {
    last: Arc<Mutex<Instant>>,
}

impl Heartbeat {
    /// Reports progress: the liveness check of this heartbeat succeeds until its limit elapses again.
    pub fn beat(&self) {
        *self.last.lock() = Instant::now();
    }
}

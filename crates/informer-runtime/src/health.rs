//! Health, readiness and liveness: named checks, and the pages that show them.
//!
//! # Lock order
//!
//! `checks` is copied from; no check runs under it.

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

/// How long a check may take: less than the second that kubelet waits by default would fail checks that need a round trip, and
/// longer than this nobody waits.
const CHECK_TIMEOUT: Duration = Duration::from_secs(5);

type Check = Arc<dyn Fn() -> BoxFuture<'static, Result<(), BoxError>> + Send + Sync>;

/// Which question a check answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Probe {
    /// `/healthz`: is it well?
    Health,
    /// `/readyz`: may it be sent requests?
    Ready,
    /// `/livez`: does it go on, or should it be restarted?
    Live,
}

impl Probe {
    /// The name of its page.
    pub fn page(self) -> &'static str {
        match self {
            Self::Health => "healthz",
            Self::Ready => "readyz",
            Self::Live => "livez",
        }
    }
}

/// The named checks of a manager. Cheap to clone; clones are one.
///
/// A page answers `ok`, or 500 with the checks by name; `?verbose` shows them in any case, `?exclude=NAME` leaves one out, and
/// `/readyz/NAME` is one check alone, with its error. A check that panics or takes longer than 5 s has failed.
///
/// A manager brings its own: `manager`, in each of the pages, fails when its loop does not answer; `informers` in `readyz` fails
/// while an informer restarts after a panic of its own tasks; and `started` in `readyz` fails
/// until its caches are synced and everything else has started, and again once it stops. Where it serves webhooks, `started` waits for
/// those alone: an API server may need them to answer the caches, and sends nothing to what is not ready.
///
/// Upstream: [`healthz`](https://pkg.go.dev/sigs.k8s.io/controller-runtime/pkg/healthz); there nothing is tied to caches.
#[derive(Clone, Default)]
pub struct HealthChecks {
    checks: Arc<Mutex<BTreeMap<(Probe, String), Check>>>,
}

impl HealthChecks {
    /// Adds a check. One of the same name is replaced.
    pub fn add<F, Fut>(&self, probe: Probe, name: impl Into<String>, check: F)
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), BoxError>> + Send + 'static,
    {
        let check: Check = Arc::new(move || check().boxed());
        self.checks.lock().insert((probe, name.into()), check);
    }

    /// Adds a check in `livez` that fails when nobody has called [`Heartbeat::beat`] for `limit`: for loops that must not stand
    /// still. It ends with the last clone of the heartbeat.
    pub fn heartbeat(&self, name: impl Into<String>, limit: Duration) -> Heartbeat {
        let heartbeat = Heartbeat { last: Arc::new(Mutex::new(Instant::now())) };
        let last = Arc::downgrade(&heartbeat.last);
        self.add(Probe::Live, name, move || {
            let silence = last.upgrade().map_or(Duration::ZERO, |last| last.lock().elapsed());
            let alive = if silence <= limit { Ok(()) } else { Err(format!("silent for {silence:?}").into()) };
            std::future::ready(alive)
        });
        heartbeat
    }

    /// The pages, on a server.
    pub(crate) fn pages(&self, mut server: HttpServer) -> HttpServer {
        for probe in [Probe::Health, Probe::Ready, Probe::Live] {
            for path in [format!("/{}", probe.page()), format!("/{}/", probe.page())] {
                let checks = self.clone();
                server = server.route(path, move |request| {
                    let checks = checks.clone();
                    async move { checks.answer(probe, request.uri()).await }
                });
            }
        }
        server
    }

    /// The checks of a question, by name.
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

/// Says that a loop goes on; see [`HealthChecks::heartbeat`].
#[derive(Debug, Clone)]
#[must_use = "the check ends with it"]
pub struct Heartbeat {
    last: Arc<Mutex<Instant>>,
}

impl Heartbeat {
    /// It goes on.
    pub fn beat(&self) {
        *self.last.lock() = Instant::now();
    }
}

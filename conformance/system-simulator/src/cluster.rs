//! The cluster of a run: the embedded API server, which clients reach without sockets, and its failures.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::header::USER_AGENT;
use http::{HeaderValue, Method, Request, Response};
use http_body_util::Full;
use informer_apiserver::{ApiBody, ApiError, ApiServer, Clock, ExtraField, FaultMatch, Sleep, TokioClock};
use informer_core::Gvr;
use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tower::util::BoxCloneSyncService;
use tower::{BoxError, ServiceExt};

use crate::trace::Trace;

/// The connection of a client to the API server. A fault can make the server unreachable.
pub(crate) type Transport = BoxCloneSyncService<Request<Full<Bytes>>, Response<ApiBody>, BoxError>;

/// The wall time at which the simulated clock starts. It is fixed, so that every run of a seed writes the
/// same timestamps.
const BEGIN: &str = "2026-01-01T00:00:00Z";

/// The `User-Agent` of requests of programs under test. Faults affect only requests that have it.
pub(crate) const PROGRAM_AGENT: &str = "program";

/// A field that the server's schema has and the client's schema table does not know, as if the server were
/// newer.
pub(crate) const EXTRA: ExtraField = ExtraField::new("core.v1.Container", "shells", 200, "[]string");

/// A reading request of a program that did not reach the server, because the server was unreachable.
#[derive(Debug, Clone)]
pub(crate) struct RefusedRequest {
    pub(crate) agent: String,
    pub(crate) path: String,
    pub(crate) query: String,
    /// The time of the request, by the server's clock.
    pub(crate) at: Duration,
}

/// The embedded API server and its failures. A clone refers to the same server.
#[derive(Debug, Clone)]
pub(crate) struct Cluster {
    server: ApiServer,
    reachable: Arc<AtomicBool>,
    /// Number of restores of the server to an earlier state.
    epoch: Arc<AtomicU64>,
    requests: Arc<AtomicU64>,
    refused: Arc<Mutex<Vec<RefusedRequest>>>,
    backups: Arc<Mutex<Vec<u64>>>,
    trace: Trace,
}

impl Cluster {
    /// Creates a server that has the simulated kinds. Must be called within a tokio runtime with paused time.
    pub(crate) fn new(trace: &Trace) -> Self {
        let server = ApiServer::builder()
            .extra_fields(&[EXTRA])
            .expect("the table has no such field")
            .clock(Arc::new(SimulatedClock::new()))
            .build();
        let definition = fruit_definition(None);
        let created = server.create(&definitions(), "", definition);
        created.expect("the definition of a fruit is valid");
        Self {
            server,
            reachable: Arc::new(AtomicBool::new(true)),
            epoch: Arc::default(),
            requests: Arc::default(),
            refused: Arc::default(),
            backups: Arc::default(),
            trace: trace.clone(),
        }
    }

    pub(crate) fn server(&self) -> &ApiServer {
        &self.server
    }

    pub(crate) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::SeqCst)
    }

    /// Sets whether requests of programs reach the server. Open connections stay open.
    pub(crate) fn set_reachable(&self, reachable: bool) {
        self.reachable.store(reachable, Ordering::SeqCst);
    }

    pub(crate) fn refused(&self) -> Vec<RefusedRequest> {
        self.refused.lock().clone()
    }

    pub(crate) fn back_up(&self) {
        self.backups.lock().push(self.server.version());
    }

    /// Gives the fruits a new default, which the server adds to stored objects when they are read, without a
    /// new resourceVersion. Returns the error of the server if it refuses the definition.
    pub(crate) fn change_schema(&self) -> Result<(), ApiError> {
        self.server.update(&definitions(), "", fruit_definition(Some("sweet"))).map(drop)
    }

    /// Makes every watch expire: each informer must list again.
    pub(crate) fn expire_watches(&self) {
        self.server.skip_to(self.server.version() + 1);
        self.server.compact();
        self.server.disconnect_watchers();
    }

    pub(crate) fn last_backup(&self) -> Option<u64> {
        self.backups.lock().last().copied()
    }

    /// Restores the last backup together with its resource versions, as a restore of etcd does. Returns false
    /// if there is no backup.
    pub(crate) fn rewind(&self) -> bool {
        let Some(version) = self.backups.lock().pop() else { return false };
        self.epoch.fetch_add(1, Ordering::SeqCst);
        self.server.rewind(version).is_ok()
    }

    /// Returns a transport whose requests carry `agent` as their `User-Agent`.
    pub(crate) fn transport(&self, agent: &str) -> Transport {
        let agent = HeaderValue::try_from(agent).expect("user agents are valid header values");
        let cluster = self.clone();
        BoxCloneSyncService::new(tower::service_fn(move |mut request: Request<Full<Bytes>>| {
            request.headers_mut().insert(USER_AGENT, agent.clone());
            cluster.clone().respond(request)
        }))
    }

    fn respond(
        self,
        request: Request<Full<Bytes>>,
    ) -> BoxFuture<'static, Result<Response<ApiBody>, BoxError>> {
        Box::pin(async move {
            let agent = request.headers().get(USER_AGENT).and_then(|agent| agent.to_str().ok());
            let of_program = agent.is_some_and(|agent| agent.contains(PROGRAM_AGENT));
            if !of_program {
                return Ok(self.server.service().oneshot(request).await?);
            }
            let number = self.requests.fetch_add(1, Ordering::SeqCst);
            let (agent, uri) = (agent.unwrap_or_default(), request.uri());
            self.trace.line(format!("  request {number}: {agent} {} {uri}", request.method()));
            if !self.reachable.load(Ordering::SeqCst) {
                if request.method() == Method::GET {
                    self.refused.lock().push(RefusedRequest {
                        agent: agent.to_owned(),
                        path: uri.path().to_owned(),
                        query: uri.query().unwrap_or_default().to_owned(),
                        at: self.trace.elapsed(),
                    });
                }
                return Err("connection refused (simulated)".into());
            }
            let response = self.server.service().oneshot(request).await?;
            self.trace.line(format_args!("  response {number}: {}", response.status()));
            Ok(response)
        })
    }
}

fn definitions() -> Gvr {
    Gvr::new("apiextensions.k8s.io", "v1", "customresourcedefinitions")
}

/// Returns the definition of the kind `Fruit`, whose field `spec.taste` may have a default.
fn fruit_definition(taste: Option<&str>) -> Value {
    let mut fields = json!({"color": {"type": "string"}, "taste": {"type": "string"}});
    if let Some(taste) = taste {
        fields["taste"]["default"] = json!(taste);
    }
    let spec = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": fields});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "fruits.sim.example.com"},
        "spec": {
            "group": "sim.example.com",
            "scope": "Namespaced",
            "names": {"plural": "fruits", "singular": "fruit", "kind": "Fruit", "listKind": "FruitList"},
            "versions": [{
                "name": "v1",
                "served": true,
                "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}},
                "selectableFields": [{"jsonPath": ".spec.color"}],
            }],
        },
    })
}

pub(crate) fn of_programs(matching: FaultMatch) -> FaultMatch {
    FaultMatch { client: Some(PROGRAM_AGENT.to_owned()), ..matching }
}

/// The server's clock: tokio's (simulated) clock, which starts at a fixed wall time.
struct SimulatedClock {
    inner: TokioClock,
    begin: Timestamp,
}

impl SimulatedClock {
    fn new() -> Self {
        Self { inner: TokioClock::new(), begin: BEGIN.parse().expect("the constant is a timestamp") }
    }
}

impl fmt::Debug for SimulatedClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl Clock for SimulatedClock {
    fn elapsed(&self) -> Duration {
        self.inner.elapsed()
    }

    fn timestamp(&self) -> Timestamp {
        self.begin + self.inner.elapsed()
    }

    fn sleep_until(&self, at: Duration) -> Sleep {
        self.inner.sleep_until(at)
    }

    fn advance(&self, by: Duration) {
        self.inner.advance(by);
    }
}

//! The connection of a simulated process to the API server. It numbers the writes of the program, and injects
//! the faults of a fault script.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::header::USER_AGENT;
use http::{HeaderValue, Request, Response, StatusCode, Uri};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use informer_apiserver::{RunFault, ScriptInjector};
use informer_client::Client;
use informer_core::random;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};
use tower::ServiceExt;
use tower::util::BoxCloneSyncService;

use super::record::{MAX_REQUESTS_PER_SECOND, ProcessId, Record};
use super::request::ProgramWrite;
use super::stale::{StaleCache, StaleRead};
use crate::testing::{ApiServer, FaultAction, FaultMatch, RequestRecord, User, Verb};

type BoxError = Box<dyn std::error::Error + Send + Sync>;
type Body = UnsyncBoxBody<Bytes, BoxError>;

/// A function that returns true for the writes that must not be repeated.
pub(super) type OncePredicate = Arc<dyn Fn(&ProgramWrite) -> bool + Send + Sync>;

/// The part of a run's state that all tasks of the run share.
///
/// Lock order: `injector` and `record` are never held together, and no lock is held while a request runs.
pub(super) struct Shared {
    pub(super) server: ApiServer,
    pub(super) user: Option<User>,
    pub(super) injector: Mutex<ScriptInjector>,
    pub(super) record: Mutex<Record>,
    pub(super) once: Vec<OncePredicate>,
    /// The state of the random generator for the delays of requests. `None` if each request takes 1 ms.
    pub(super) delays: Option<Mutex<u64>>,
    pub(super) stale: Mutex<Vec<StaleCache>>,
}

impl Shared {
    pub(super) fn line(&self, text: impl std::fmt::Display) {
        self.record.lock().line(text);
    }

    fn delay(&self) -> Duration {
        let Some(state) = &self.delays else { return Duration::from_millis(1) };
        let number = random::next(&mut state.lock());
        // One of eight requests takes up to 60 ms, and the others up to 4 ms. A slow request can therefore
        // reach the server after requests that other tasks send later.
        Duration::from_micros(if number.is_multiple_of(8) { number % 60_000 } else { number % 4_000 })
    }

    fn stale_read(&self, read: &ProgramWrite, uri: &Uri) -> Option<StaleRead> {
        self.stale.lock().iter().find_map(|cache| cache.read(read, uri))
    }

    /// Injects a fault before a write: into later lists, or into the open watches of the program. With the
    /// number 0 the program has not started, and the fault affects its first watch.
    pub(super) fn inject(&self, fault: &RunFault, write: u64) {
        if let RunFault::StaleList { resource, seconds } = fault {
            self.stale.lock().push(StaleCache::new(resource, *seconds, self.server.version()));
        }
        let Some((resource, action)) = fault.watch_action() else { return };
        let matching = FaultMatch { client: Some(AGENT.to_owned()), ..FaultMatch::watch(resource) };
        let rule = self.server.faults().on(matching);
        if write == 0 {
            drop(rule.times(1).then(action))
        } else {
            // Adding the rule affects the open watches immediately. The rule is removed at once, so that it
            // does not affect later watches.
            rule.then(action).remove()
        }
    }
}

/// A string that is added to the `User-Agent` of the program's requests, so that fault rules match them and
/// not the requests of users.
const AGENT: &str = "explore-process/";

/// A simulated process of the program under exploration.
pub(super) struct Process {
    pub(super) id: ProcessId,
    /// True after the process has crashed or ended. Its requests then never complete, because its tasks may
    /// still run.
    crashed: std::sync::atomic::AtomicBool,
    pub(super) crash: Notify,
    isolated_until: Mutex<Option<Instant>>,
}

impl Process {
    pub(super) fn new(id: ProcessId) -> Self {
        Self { id, crashed: false.into(), crash: Notify::new(), isolated_until: Mutex::default() }
    }

    pub(super) fn end(&self) {
        self.crashed.store(true, std::sync::atomic::Ordering::SeqCst);
        self.crash.notify_one();
    }

    fn is_crashed(&self) -> bool {
        self.crashed.load(std::sync::atomic::Ordering::SeqCst)
    }

    fn is_isolated(&self) -> bool {
        self.isolated_until.lock().is_some_and(|until| Instant::now() < until)
    }

    /// Simulates a crash of the process. Never returns, because the calling task belongs to the process.
    async fn crash(&self, shared: &Shared, text: &str) -> ! {
        shared.line(format_args!("fault: process {} crashes {text}", self.id));
        self.end();
        std::future::pending().await
    }

    /// Returns a client for the process. Its requests are recorded and receive faults, and do not complete
    /// after a crash of the process.
    pub(super) fn client(self: &Arc<Self>, shared: &Arc<Shared>) -> Client {
        let (process, shared) = (Arc::clone(self), Arc::clone(shared));
        let service = tower::service_fn(move |request: Request<Full<Bytes>>| {
            let call = Call { process: Arc::clone(&process), shared: Arc::clone(&shared) };
            let future: BoxFuture<'static, Result<Response<Body>, BoxError>> = Box::pin(call.run(request));
            future
        });
        Client::from_service(BoxCloneSyncService::new(service), "default")
    }
}

struct Call {
    process: Arc<Process>,
    shared: Arc<Shared>,
}

impl Call {
    async fn run(self, request: Request<Full<Bytes>>) -> Result<Response<Body>, BoxError> {
        sleep(self.shared.delay()).await;
        if self.process.is_crashed() {
            std::future::pending::<()>().await;
        }
        let (mut head, body) = request.into_parts();
        let body = body.collect().await?.to_bytes();
        let query = head.uri.query().unwrap_or_default().to_owned();
        let parsed = ProgramWrite::parse(&head.method, head.uri.path(), &query, &body);
        if !self.shared.record.lock().count(self.process.id) {
            return self.stop_hot_loop(parsed.as_ref()).await;
        }
        let agent = head.headers.get(USER_AGENT).and_then(|agent| agent.to_str().ok()).unwrap_or_default();
        let agent = format!("{agent} {AGENT}{}", self.process.id);
        head.headers.insert(USER_AGENT, HeaderValue::try_from(agent)?);
        let request = Request::from_parts(head, Full::new(body));
        match parsed {
            Some(write) if write.counts(&query) => self.write(&write, request).await,
            Some(other) => self.other(&other, request).await,
            None => self.send(request).await,
        }
    }

    async fn stop_hot_loop(&self, request: Option<&ProgramWrite>) -> Result<Response<Body>, BoxError> {
        let text = format!(
            "process {} sends more than {MAX_REQUESTS_PER_SECOND} requests per second, such as {}",
            self.process.id,
            request.map(ToString::to_string).unwrap_or_default()
        );
        self.shared.record.lock().violated("hot loop", text);
        self.process.crash(&self.shared, "because of the hot loop").await
    }

    /// Sends a request that is not a numbered write, such as a read, a dry run, or a request for a Lease. An
    /// isolation of the process is the only fault of a script that affects it.
    async fn other(
        &self,
        read: &ProgramWrite,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Body>, BoxError> {
        if self.process.is_isolated() {
            return Err("connection refused (injected)".into());
        }
        let stale = self.shared.stale_read(read, request.uri());
        if let Some(stale) = stale {
            return self.stale(read, stale, request).await;
        }
        let lease = read.is_lease();
        self.shared.record.lock().read(read);
        let response = self.send(request).await?;
        let written = lease && !matches!(read.verb, Verb::Get | Verb::List | Verb::Watch);
        if written && response.status().is_success() {
            self.shared.record.lock().lease_written(self.process.id, read);
        }
        if !lease {
            self.line(read, response.status());
        }
        Ok(response)
    }

    /// Sends a read to an API server whose watch cache is behind.
    async fn stale(
        &self,
        read: &ProgramWrite,
        stale: StaleRead,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Body>, BoxError> {
        self.shared.record.lock().read(read);
        let shown = read.to_string();
        match stale {
            StaleRead::NoStreamingList => Ok(self.injected(&shown, StatusCode::UNPROCESSABLE_ENTITY)),
            StaleRead::List { uri, version } => {
                let text = format!("fault: {shown} returns the state at resourceVersion {version}");
                self.shared.line(text);
                let (mut head, body) = request.into_parts();
                head.uri = uri;
                let response = self.send(Request::from_parts(head, body)).await?;
                self.line(read, response.status());
                Ok(response)
            }
            StaleRead::Watch { version, lag } => {
                let response = self.send(request).await?;
                let (agent, version) = (format!("{AGENT}{}", self.process.id), version.to_string());
                let matches = |request: &RequestRecord| {
                    request.user_agent.ends_with(&agent)
                        && request.resource_version == version
                        && request.gvr.as_ref().is_some_and(|gvr| gvr.resource == read.resource)
                };
                // The program has not read from the response yet, so all its events are late.
                self.shared.server.faults().inject_into_open_watches(matches, &lag);
                self.line(read, response.status());
                Ok(response)
            }
        }
    }

    async fn write(
        &self,
        write: &ProgramWrite,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Body>, BoxError> {
        if self.process.is_isolated() {
            self.shared.line(format_args!("  {} {write}: connection refused", self.process.id));
            return Err("connection refused (injected)".into());
        }
        let injected = self.shared.injector.lock().write();
        let number = injected.write;
        self.note_write(write);
        for fault in &injected.watches {
            self.shared.line(format_args!("fault: {fault:?} before write {number}"));
            self.shared.inject(fault, number);
        }
        let shown = format!("write {number}: {write}");
        match injected.request {
            None => {
                let response = self.execute(&shown, write, request).await?;
                Ok(response)
            }
            Some(RunFault::CrashBefore) => self.process.crash(&self.shared, &format!("before {shown}")).await,
            Some(RunFault::CrashAfter) => {
                drop(self.execute(&shown, write, request).await?);
                self.process.crash(&self.shared, &format!("after write {number}")).await
            }
            Some(RunFault::LostResponse) => {
                drop(self.execute(&shown, write, request).await?);
                self.shared.line(format_args!("fault: the response of write {number} is lost"));
                Err("connection reset (injected)".into())
            }
            Some(RunFault::Isolate { seconds }) => {
                self.shared
                    .line(format_args!("fault: process {} is isolated for {seconds} s", self.process.id));
                self.isolate(Duration::from_secs(seconds));
                Err("connection refused (injected)".into())
            }
            Some(RunFault::Conflict) => Ok(self.injected(&shown, StatusCode::CONFLICT)),
            Some(_) => Ok(self.injected(&shown, StatusCode::INTERNAL_SERVER_ERROR)),
        }
    }

    fn note_write(&self, write: &ProgramWrite) {
        let mut record = self.shared.record.lock();
        record.last_write = Instant::now();
        record.requests += 1;
        let lost = record.lost_lease(self.process.id).map(|(lease, holder)| {
            format!("process {} sends {write}, but process {holder} holds the lease {lease}", self.process.id)
        });
        if let Some(text) = lost {
            record.violated("former leader", text);
        }
    }

    /// Isolates the process from the API server for a time: its requests fail, and its open watches receive
    /// nothing. A leader thereby loses its lease.
    fn isolate(&self, time: Duration) {
        *self.process.isolated_until.lock() = Some(Instant::now() + time);
        let client = Some(format!("{AGENT}{}", self.process.id));
        let matching = FaultMatch { client, ..FaultMatch::verb(Verb::Watch) };
        let millis = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        self.shared.server.faults().on(matching).then(FaultAction::Lag { millis }).remove();
    }

    async fn execute(
        &self,
        shown: &str,
        write: &ProgramWrite,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Body>, BoxError> {
        let response = self.send(request).await?;
        let (head, body) = response.into_parts();
        let body = body.collect().await?.to_bytes();
        let status = head.status;
        let mut record = self.shared.record.lock();
        record.line(format_args!(
            "  {} {shown} -> {}{}",
            self.process.id,
            status.as_u16(),
            reason(status, &body)
        ));
        if status.is_success() && self.shared.once.iter().any(|matches| matches(write)) {
            *record.once.entry(write.to_string()).or_default() += 1;
        }
        drop(record);
        self.check_allowed(status, &body);
        Ok(Response::from_parts(head, full(body)))
    }

    /// Reports a request that RBAC denied as a violation of the check `forbidden`. Requests that fail with
    /// 403 for another reason, such as an exceeded quota, are not reported.
    fn check_allowed(&self, status: StatusCode, body: &Bytes) {
        if status != StatusCode::FORBIDDEN || self.shared.user.is_none() {
            return;
        }
        let message = message(body);
        if message.contains("User \"") {
            self.shared.record.lock().violated("forbidden", message);
        }
    }

    fn injected(&self, shown: &str, status: StatusCode) -> Response<Body> {
        self.shared.line(format_args!("  {} {shown} -> {} (fault)", self.process.id, status.as_u16()));
        let (reason, message) = match status {
            StatusCode::CONFLICT => (
                "Conflict",
                "the object has been modified; please apply your changes to the latest version and try again",
            ),
            StatusCode::UNPROCESSABLE_ENTITY => {
                ("Invalid", "sendInitialEvents is forbidden: the WatchList feature gate is disabled")
            }
            _ => ("InternalError", "Internal error occurred: injected"),
        };
        let body = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "code": status.as_u16(), "reason": reason, "message": message,
        });
        let mut response = Response::new(full(body.to_string().into()));
        *response.status_mut() = status;
        response.headers_mut().insert("content-type", HeaderValue::from_static("application/json"));
        response
    }

    async fn send(&self, request: Request<Full<Bytes>>) -> Result<Response<Body>, BoxError> {
        let service = match &self.shared.user {
            Some(user) => self.shared.server.service_as(user.clone()),
            None => self.shared.server.service(),
        };
        let response = service.oneshot(request).await?;
        if self.process.is_crashed() {
            std::future::pending::<()>().await;
        }
        if response.status() == StatusCode::FORBIDDEN {
            let (head, body) = response.into_parts();
            let body = body.collect().await.map_err(BoxError::from)?.to_bytes();
            self.check_allowed(head.status, &body);
            return Ok(Response::from_parts(head, full(body)));
        }
        Ok(response.map(|body| body.map_err(BoxError::from).boxed_unsync()))
    }

    fn line(&self, request: &ProgramWrite, status: StatusCode) {
        self.shared.line(format_args!("  {} {request} -> {}", self.process.id, status.as_u16()));
    }
}

fn full(body: Bytes) -> Body {
    Full::new(body).map_err(|never| match never {}).boxed_unsync()
}

fn reason(status: StatusCode, body: &Bytes) -> String {
    if status.is_success() { String::new() } else { format!(" {}", message(body)) }
}

fn message(body: &Bytes) -> String {
    let status: Value = serde_json::from_slice(body).unwrap_or_default();
    status["message"].as_str().unwrap_or_default().to_owned()
}

//! The Lease of an election script, stored as by an API server, and the faults of the candidates' requests.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use informer_client::Client;
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{ElectionVerb, Operation};

const BEGIN: Timestamp = Timestamp::constant(1_767_225_600, 0);

pub(super) struct Board {
    lease: Option<Value>,
    version: u64,
    faults: HashMap<String, ElectionVerb>,
    /// How far the clock of each candidate is ahead of the simulated time, by the candidate's name. Negative
    /// if the clock is behind.
    skews: HashMap<String, SignedDuration>,
    begin: Instant,
}

impl Board {
    /// Creates a server without a Lease. The simulated clocks of all candidates start now.
    pub(super) fn new() -> Self {
        let (faults, skews) = (HashMap::new(), HashMap::new());
        Self { lease: None, version: 0, faults, skews, begin: Instant::now() }
    }

    pub(super) fn carry_out(
        &mut self,
        Operation { verb, whom: who, milliseconds }: &Operation<ElectionVerb>,
    ) {
        let skew = SignedDuration::from_millis(i64::try_from(*milliseconds).unwrap_or(i64::MAX));
        match verb {
            ElectionVerb::Refuse | ElectionVerb::Hang | ElectionVerb::Conflict => {
                _ = self.faults.insert(who.clone(), *verb)
            }
            ElectionVerb::Heal => _ = self.faults.remove(who),
            ElectionVerb::Ahead => _ = self.skews.insert(who.clone(), skew),
            ElectionVerb::Behind => _ = self.skews.insert(who.clone(), -skew),
            ElectionVerb::Delete => self.lease = None,
            ElectionVerb::Take => self.take(who, milliseconds / 1000),
            ElectionVerb::Start | ElectionVerb::Stop | ElectionVerb::Advance => {}
        }
    }

    /// Stores a Lease of a holder that is not a candidate. `seconds` is its lease duration.
    fn take(&mut self, holder: &str, seconds: u64) {
        let now = self.clock_of(holder);
        let before = self.lease.as_ref().and_then(|lease| lease["spec"]["leaseTransitions"].as_i64());
        let spec = json!({
            "holderIdentity": holder, "leaseDurationSeconds": seconds, "acquireTime": now, "renewTime": now,
            "leaseTransitions": before.map_or(0, |before| before + 1),
        });
        self.store(json!({"spec": spec}));
    }

    pub(super) fn line(&self) -> String {
        let Some(lease) = &self.lease else { return "no lease".to_owned() };
        let holder = lease["spec"]["holderIdentity"].as_str().filter(|holder| !holder.is_empty());
        let transitions = lease["spec"]["leaseTransitions"].as_i64().unwrap_or_default();
        format!("lease of {}, {transitions} transitions", holder.unwrap_or("nobody"))
    }

    fn store(&mut self, mut lease: Value) -> Value {
        self.version += 1;
        lease["apiVersion"] = json!("coordination.k8s.io/v1");
        lease["kind"] = json!("Lease");
        lease["metadata"] =
            json!({"name": "parity", "namespace": "default", "resourceVersion": self.version.to_string()});
        self.lease = Some(lease.clone());
        lease
    }

    fn clock_of(&self, who: &str) -> String {
        let since = SignedDuration::try_from(self.begin.elapsed()).unwrap_or_default();
        let shown = since + self.skews.get(who).copied().unwrap_or_default();
        let shown = BEGIN.checked_add(shown).unwrap_or(BEGIN);
        shown.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string()
    }

    fn respond(&mut self, who: &str, method: &Method, mut lease: Value) -> (StatusCode, Value) {
        let held = self.lease.as_ref().map(|lease| lease["metadata"]["resourceVersion"].clone());
        match (method, held) {
            (&Method::POST, None) => {
                // The request of a candidate contains the real time of this process as `renewTime`. The
                // server replaces it by the candidate's simulated clock, so that the skew of that clock has
                // an effect.
                lease["spec"]["renewTime"] = json!(self.clock_of(who));
                (StatusCode::CREATED, self.store(lease))
            }
            (&Method::POST, Some(_)) => refusal(StatusCode::CONFLICT, "AlreadyExists"),
            (_, None) => refusal(StatusCode::NOT_FOUND, "NotFound"),
            (&Method::PUT, Some(version)) if lease["metadata"]["resourceVersion"] != version => {
                refusal(StatusCode::CONFLICT, "Conflict")
            }
            (&Method::PUT, Some(_)) => {
                lease["spec"]["renewTime"] = json!(self.clock_of(who));
                (StatusCode::OK, self.store(lease))
            }
            _ => (StatusCode::OK, self.lease.clone().unwrap_or_default()),
        }
    }
}

fn refusal(code: StatusCode, reason: &str) -> (StatusCode, Value) {
    let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "code": code.as_u16(), "message": reason});
    (code, status)
}

pub(super) fn client(board: &Arc<Mutex<Board>>, who: &str) -> Client {
    let (board, who) = (Arc::clone(board), who.to_owned());
    let service = tower::service_fn(move |request: Request<Full<Bytes>>| {
        let (board, who) = (Arc::clone(&board), who.clone());
        async move {
            let (code, body) = exchange(&board, &who, request).await;
            let mut response = Response::new(Full::new(Bytes::from(body.to_string())));
            *response.status_mut() = code;
            Ok::<_, std::convert::Infallible>(response)
        }
    });
    Client::from_service(service, "default")
}

async fn exchange(board: &Mutex<Board>, who: &str, request: Request<Full<Bytes>>) -> (StatusCode, Value) {
    if request.uri().query().is_some_and(|query| query.contains("watch=1")) {
        // The candidates of client-go do not watch the Lease, they poll it. Watch requests of this library
        // are rejected, so that its candidates poll, too.
        return refusal(StatusCode::FORBIDDEN, "Forbidden");
    }
    let fault = board.lock().faults.get(who).copied();
    let writes = request.method() != Method::GET;
    match fault {
        Some(ElectionVerb::Hang) => std::future::pending().await,
        Some(ElectionVerb::Refuse) => refusal(StatusCode::INTERNAL_SERVER_ERROR, "InternalError"),
        Some(ElectionVerb::Conflict) if writes => refusal(StatusCode::CONFLICT, "Conflict"),
        _ => {
            let (head, body) = request.into_parts();
            let body = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
            let lease = serde_json::from_slice(&body).unwrap_or_default();
            board.lock().respond(who, &head.method, lease)
        }
    }
}

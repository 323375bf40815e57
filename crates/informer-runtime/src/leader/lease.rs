//! The Lease on the wire.

use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Limited};
use informer_client::Client;
use informer_core::{Gvr, ResourceVersion};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::EventSubject;

use informer_control::election::{Action, Answer, LeaseRecord, LeaseWrite};

/// A Lease is some hundred bytes; the rest is for labels and annotations of others.
const LEASE_BYTES_MAX: usize = 1 << 20;

/// How long the server may keep a watch of the Lease open.
const WATCH_SECONDS: u32 = 300;

/// One Lease of one server.
pub(super) struct LeaseLock {
    client: Client,
    path: String,
    name: String,
    namespace: String,
    /// The Lease as it was last seen, so that a write keeps what others have put into it.
    last: Option<Value>,
}

impl LeaseLock {
    pub(super) fn new(client: Client, namespace: &str, name: &str) -> Self {
        let path = Gvr::new("coordination.k8s.io", "v1", "leases").path(Some(namespace));
        Self { client, path, name: name.to_owned(), namespace: namespace.to_owned(), last: None }
    }

    /// The request of an action.
    pub(super) fn request(&self, action: &Action, now: Timestamp) -> Request<Bytes> {
        let named = format!("{}/{}", self.path, self.name);
        match action {
            Action::Get => json_request(Method::GET, named, None),
            Action::Create(write) => {
                let metadata = json!({"name": self.name, "namespace": self.namespace});
                let mut lease =
                    json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata});
                write_record(&mut lease, write, now);
                json_request(Method::POST, self.path.clone(), Some(lease))
            }
            Action::Update(version, write) => {
                let mut lease = self.last.clone().unwrap_or_else(|| json!({}));
                lease["metadata"]["name"] = json!(self.name);
                lease["metadata"]["resourceVersion"] = json!(version.to_string());
                write_record(&mut lease, write, now);
                json_request(Method::PUT, named, Some(lease))
            }
        }
    }

    /// Asks the server. The answer is kept by [`keep`](Self::keep), so that a request that is given up leaves nothing half done.
    pub(super) async fn send(client: Client, request: Request<Bytes>) -> (Answer, Option<Value>) {
        match exchange(&client, request, LEASE_BYTES_MAX).await {
            Ok((status, body)) if status.is_success() => match read_record(&body) {
                Some((record, version)) => (Answer::Seen(record, version), Some(body)),
                None => (Answer::Failed("the answer is no Lease".to_owned()), None),
            },
            Ok((StatusCode::NOT_FOUND, _)) => (Answer::Missing, None),
            Ok((StatusCode::CONFLICT, _)) => (Answer::Conflict, None),
            Ok((status, body)) => {
                let message = body["message"].as_str().unwrap_or("without a reason");
                (Answer::Failed(format!("the server said {}: {message}", status.as_u16())), None)
            }
            Err(problem) => (Answer::Failed(problem), None),
        }
    }

    pub(super) fn keep(&mut self, seen: Option<Value>) {
        self.last = seen.or(self.last.take());
    }

    /// What events about it refer to.
    pub(super) fn subject(&self) -> EventSubject {
        EventSubject::new("coordination.k8s.io/v1", "Lease", &self.namespace, &self.name)
    }

    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    /// A watch of the one Lease. Its events are hints; what they say is not read.
    pub(super) fn watch(&self) -> Request<Bytes> {
        let query =
            format!("watch=1&fieldSelector=metadata.name%3D{}&timeoutSeconds={WATCH_SECONDS}", self.name);
        json_request(Method::GET, format!("{}?{query}", self.path), None)
    }
}

pub(crate) fn json_request(method: Method, uri: String, body: Option<Value>) -> Request<Bytes> {
    let body = body.map(|body| Bytes::from(body.to_string())).unwrap_or_default();
    let request = Request::builder().method(method).uri(uri).header(http::header::ACCEPT, "application/json");
    let request = request.header(http::header::CONTENT_TYPE, "application/json").body(body);
    request.expect("names of Leases are checked to be paths")
}

/// Sends a request, and reads an answer of at most so many bytes.
pub(crate) async fn exchange(
    client: &Client,
    request: Request<Bytes>,
    bytes_max: usize,
) -> Result<(StatusCode, Value), String> {
    let response = client.request(request).await.map_err(|error| error.to_string())?;
    let status = response.status();
    let body = Limited::new(response.into_body(), bytes_max).collect().await;
    let body = body.map_err(|_| "the answer broke off, or is too large".to_owned())?.to_bytes();
    Ok((status, serde_json::from_slice(&body).unwrap_or_default()))
}

/// Reads what makes sense: anybody may have written the Lease, and what is garbage is as good as nothing.
fn read_record(lease: &Value) -> Option<(LeaseRecord, ResourceVersion)> {
    let version = lease["metadata"]["resourceVersion"].as_str()?;
    let spec = &lease["spec"];
    let text = |name: &str| spec[name].as_str().map(str::to_owned);
    let record = LeaseRecord {
        holder: text("holderIdentity").unwrap_or_default(),
        duration: spec["leaseDurationSeconds"].as_u64().and_then(|seconds| u32::try_from(seconds).ok()),
        transitions: spec["leaseTransitions"]
            .as_i64()
            .and_then(|count| i32::try_from(count).ok())
            .unwrap_or(0),
        acquired: text("acquireTime"),
        renewed: text("renewTime"),
    };
    Some((record, ResourceVersion::from(version)))
}

fn write_record(lease: &mut Value, write: &LeaseWrite, now: Timestamp) {
    if !lease["spec"].is_object() {
        lease["spec"] = json!({});
    }
    let now = now.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string();
    let spec = &mut lease["spec"];
    spec["holderIdentity"] = json!(write.holder);
    spec["leaseDurationSeconds"] = json!(write.duration.as_secs());
    spec["acquireTime"] = json!(write.acquired.as_ref().unwrap_or(&now));
    spec["renewTime"] = json!(now);
    spec["leaseTransitions"] = json!(write.transitions.max(0));
}

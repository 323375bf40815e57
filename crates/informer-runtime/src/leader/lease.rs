//! The JSON encoding of an election's Lease, and the requests that read and write it.

use std::collections::BTreeMap;

use bytes::Bytes;
use http::{Method, Request, StatusCode};
use informer_client::Client;
use informer_core::{Gvr, ResourceVersion};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::failures::{Failure, FailureKind};
use crate::EventSubject;
use crate::api_request::{exchange, json_request, watch_request};

use informer_control::election::{ElectionAction, ElectionResponse, LeaseRecord, LeaseWrite};

/// The maximum size in bytes of a response with a Lease. The fields of an election have some hundred bytes;
/// the rest is for labels and annotations of other programs.
pub(super) const MAX_LEASE_BYTES: usize = 1 << 20;

pub(super) struct LeaseReply {
    pub(super) response: ElectionResponse,
    pub(super) lease: Option<Value>,
    pub(super) failure: Option<Failure>,
}

impl LeaseReply {
    fn of(response: ElectionResponse) -> Self {
        Self { response, lease: None, failure: None }
    }

    pub(super) fn failed(failure: Failure) -> Self {
        Self {
            response: ElectionResponse::Failed(failure.problem.clone()),
            lease: None,
            failure: Some(failure),
        }
    }
}

pub(super) struct LeaseLock {
    client: Client,
    path: String,
    name: String,
    namespace: String,
    /// The labels that each write sets.
    labels: BTreeMap<String, String>,
    /// The Lease of the last response. Updates are based on it, so that they keep the fields of other
    /// clients.
    last: Option<Value>,
}

impl LeaseLock {
    pub(super) fn new(client: Client, namespace: &str, name: &str, labels: BTreeMap<String, String>) -> Self {
        let path = Gvr::new("coordination.k8s.io", "v1", "leases").path(Some(namespace));
        Self { client, path, name: name.to_owned(), namespace: namespace.to_owned(), labels, last: None }
    }

    pub(super) fn request(&self, action: &ElectionAction, now: Timestamp) -> Request<Bytes> {
        let named = format!("{}/{}", self.path, self.name);
        match action {
            ElectionAction::Get => json_request(Method::GET, named, None),
            ElectionAction::Create(write) => {
                let metadata = json!({"name": self.name, "namespace": self.namespace});
                let mut lease =
                    json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata});
                self.write(&mut lease, write, now);
                json_request(Method::POST, self.path.clone(), Some(lease))
            }
            ElectionAction::Update(version, write) => {
                let mut lease = self.last.clone().unwrap_or_else(|| json!({}));
                lease["metadata"]["name"] = json!(self.name);
                lease["metadata"]["resourceVersion"] = json!(version.to_string());
                self.write(&mut lease, write, now);
                json_request(Method::PUT, named, Some(lease))
            }
        }
    }

    fn write(&self, lease: &mut Value, write: &LeaseWrite, now: Timestamp) {
        for (name, value) in &self.labels {
            lease["metadata"]["labels"][name] = json!(value);
        }
        write_record(lease, write, now);
    }

    /// Sends a request for the election's Lease. Returns the received Lease, which the caller passes to
    /// [`keep`](Self::keep), so that the response to an abandoned request does not change this state.
    pub(super) async fn send(client: Client, request: Request<Bytes>) -> LeaseReply {
        let creates = request.method() == Method::POST;
        match exchange(&client, request, MAX_LEASE_BYTES).await {
            Ok((status, body)) if status.is_success() => match read_record(&body) {
                Some((record, version)) => LeaseReply {
                    response: ElectionResponse::Lease(record, version),
                    lease: Some(body),
                    failure: None,
                },
                None => {
                    LeaseReply::failed(Failure::new(FailureKind::Rejected, "the response is not a Lease"))
                }
            },
            // In the response to a create request, 404 means that the namespace or the resource does not
            // exist, which is a failure. In the response to another request, it means that the Lease does not
            // exist yet.
            Ok((StatusCode::NOT_FOUND, _)) if !creates => LeaseReply::of(ElectionResponse::NotFound),
            Ok((StatusCode::CONFLICT, _)) => LeaseReply::of(ElectionResponse::Conflict),
            Ok((status, body)) => LeaseReply::failed(Failure::of_status(status, &body)),
            Err(problem) => LeaseReply::failed(Failure::unreachable(problem)),
        }
    }

    pub(super) fn keep(&mut self, seen: Option<Value>) {
        self.last = seen.or(self.last.take());
    }

    pub(super) fn subject(&self) -> EventSubject {
        let text = |name: &str| {
            let seen = self.last.as_ref().and_then(|lease| lease["metadata"][name].as_str());
            seen.unwrap_or_default().to_owned()
        };
        EventSubject {
            uid: text("uid"),
            resource_version: text("resourceVersion"),
            ..EventSubject::new("coordination.k8s.io/v1", "Lease", &self.namespace, &self.name)
        }
    }

    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    /// Returns the request that watches the election's Lease. The content of the events is not read: each
    /// event is a hint to read the Lease.
    pub(super) fn watch(&self) -> Request<Bytes> {
        watch_request(&self.path, &self.name)
    }
}

/// Reads the fields of an election from a Lease. Invalid fields count as missing, because any client may have
/// written the Lease. Returns `None` if it has no resourceVersion.
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
        preferred: text("preferredHolder").unwrap_or_default(),
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

//! The JSON encoding of Kubernetes events, and the requests that create and patch them.

use bytes::Bytes;
use http::{Method, Request, StatusCode};
use informer_client::Client;
use informer_core::Gvr;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::EventKey;
use super::state::{EventWrite, WriteResult};
use crate::EventSubject;

/// The namespace of an Event about a cluster-scoped object, as in client-go: Events are always namespaced.
const DEFAULT_NAMESPACE: &str = "default";

/// Sends the request that creates or patches an Event. Returns `Err` if the failure is temporary, so that a
/// later attempt may succeed.
pub(super) async fn send(client: &Client, write: &EventWrite, instance: &str) -> Result<WriteResult, String> {
    let Ok(request) = request(write, instance) else {
        warn(write, "the namespace of its object is invalid");
        return Ok(WriteResult::Refused);
    };
    let response = client.request(request).await.map_err(|error| error.to_string())?;
    match response.status() {
        status if status.is_success() => Ok(WriteResult::Done),
        StatusCode::NOT_FOUND if write.exists => Ok(WriteResult::NotFound),
        StatusCode::CONFLICT if !write.exists => Ok(WriteResult::NameTaken),
        status if status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error() => {
            Err(format!("the server responded with {}", status.as_u16()))
        }
        status => {
            warn(write, &format!("the server rejected it with {}", status.as_u16()));
            Ok(WriteResult::Refused)
        }
    }
}

fn warn(write: &EventWrite, problem: &str) {
    let EventKey { controller, regarding, reason, .. } = &write.key;
    tracing::warn!(
        event = write.name,
        controller = &**controller,
        kind = regarding.kind,
        namespace = regarding.namespace,
        name = regarding.name,
        reason,
        problem,
        "dropped an event"
    );
}

fn request(write: &EventWrite, instance: &str) -> Result<Request<Bytes>, http::Error> {
    let namespace = namespace(&write.key.regarding);
    let path = Gvr::new("events.k8s.io", "v1", "events").path(Some(namespace));
    let (method, path, content_type, body) = if write.exists {
        let patch = json!({"series": series(write)});
        (Method::PATCH, format!("{path}/{}", write.name), "application/merge-patch+json", patch)
    } else {
        (Method::POST, path, "application/json", event(write, namespace, instance))
    };
    let request = Request::builder().method(method).header(http::header::CONTENT_TYPE, content_type);
    let request = request.header(http::header::ACCEPT, "application/json");
    request.uri(path).body(Bytes::from(body.to_string()))
}

fn namespace(subject: &EventSubject) -> &str {
    if subject.namespace.is_empty() { DEFAULT_NAMESPACE } else { &subject.namespace }
}

fn event(write: &EventWrite, namespace: &str, instance: &str) -> Value {
    let key = &write.key;
    let mut event = json!({
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": write.name, "namespace": namespace},
        "eventTime": micro_time(write.first),
        "reportingController": &*key.controller,
        "reportingInstance": instance,
        "action": key.action,
        "reason": key.reason,
        "regarding": reference(&key.regarding),
        "note": write.note,
        "type": key.event_type.name(),
    });
    if let Some(related) = &key.related {
        event["related"] = reference(related);
    }
    if write.count > 1 {
        event["series"] = series(write);
    }
    event
}

fn series(write: &EventWrite) -> Value {
    json!({"count": write.count, "lastObservedTime": micro_time(write.last)})
}

fn reference(subject: &EventSubject) -> Value {
    let mut reference =
        json!({"apiVersion": subject.api_version, "kind": subject.kind, "name": subject.name});
    let optional = [
        ("namespace", &subject.namespace),
        ("uid", &subject.uid),
        ("resourceVersion", &subject.resource_version),
    ];
    for (name, value) in optional {
        if !value.is_empty() {
            reference[name] = json!(value);
        }
    }
    reference
}

fn micro_time(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string()
}

//! An independent client: it sends plain JSON over HTTP, and uses no code of the client under test.

use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use http::{Method, Request};
use http_body_util::{BodyExt, BodyStream, Full};
use informer_apiserver::ApiBody;
use informer_core::Gvr;
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::cluster::{Cluster, Transport};

/// An independent client that reads and writes objects as JSON. Faults do not affect its requests.
#[derive(Clone)]
pub(crate) struct RawClient {
    transport: Transport,
}

#[derive(Debug)]
pub(crate) struct Refused {
    pub(crate) status: u16,
    pub(crate) message: String,
}

type Reply = Result<Value, Refused>;

fn path(gvr: &Gvr, namespace: &str, name: Option<&str>) -> String {
    let collection = gvr.path(Some(namespace).filter(|namespace| !namespace.is_empty()));
    name.map_or(collection.clone(), |name| format!("{collection}/{name}"))
}

impl RawClient {
    pub(crate) fn new(cluster: &Cluster, agent: &str) -> Self {
        Self { transport: cluster.transport(agent) }
    }

    pub(crate) async fn create(&self, gvr: &Gvr, namespace: &str, object: &Value) -> Reply {
        self.send(Method::POST, &path(gvr, namespace, None), "application/json", object).await
    }

    pub(crate) async fn merge(&self, gvr: &Gvr, key: (&str, &str), patch: &Value) -> Reply {
        let path = path(gvr, key.0, Some(key.1));
        self.send(Method::PATCH, &path, "application/merge-patch+json", patch).await
    }

    pub(crate) async fn delete(&self, gvr: &Gvr, key: (&str, &str)) -> Reply {
        let options = json!({"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0});
        self.send(Method::DELETE, &path(gvr, key.0, Some(key.1)), "application/json", &options).await
    }

    /// Returns all objects of a kind in all namespaces, and the resourceVersion of the list.
    pub(crate) async fn list(&self, gvr: &Gvr) -> Result<(Vec<Value>, String), Refused> {
        let mut list = self.send(Method::GET, &path(gvr, "", None), "application/json", &Value::Null).await?;
        let version = list["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned();
        match list["items"].take() {
            Value::Array(items) => Ok((items, version)),
            _ => Ok((Vec::new(), version)),
        }
    }

    /// Returns the watch events of a kind after a resourceVersion, until the server ends the watch.
    pub(crate) async fn watch(self, gvr: Gvr, version: String) -> impl Stream<Item = Value> + Unpin + Send {
        let query = format!("watch=true&timeoutSeconds=360000&resourceVersion={version}");
        let path = format!("{}?{query}", path(&gvr, "", None));
        let request = Request::get(path).body(Full::default()).expect("paths are valid URIs");
        let body = self.transport.oneshot(request).await.ok().map(http::Response::into_body);
        let chunks = futures_util::stream::iter(body).flat_map(|body: ApiBody| {
            let data = |frame: http_body::Frame<Bytes>| frame.into_data().ok();
            BodyStream::new(body).filter_map(move |frame| std::future::ready(frame.ok().and_then(data)))
        });
        Box::pin(lines(chunks))
    }

    async fn send(&self, method: Method, path: &str, content: &str, body: &Value) -> Reply {
        let bytes = if body.is_null() { Bytes::new() } else { Bytes::from(body.to_string()) };
        let request = Request::builder().method(method).uri(path).header("content-type", content);
        let request = request.body(Full::new(bytes)).expect("paths are valid URIs");
        let refused = |message: String| Refused { status: 0, message };
        let response = self.transport.clone().oneshot(request).await;
        let response = response.map_err(|error| refused(error.to_string()))?;
        let status = response.status();
        let body = response.into_body().collect().await.map_err(|error| refused(error.to_string()))?;
        let value: Value = serde_json::from_slice(&body.to_bytes()).unwrap_or_default();
        if status.is_success() {
            Ok(value)
        } else {
            let message = value["message"].as_str().unwrap_or_default().to_owned();
            Err(Refused { status: status.as_u16(), message })
        }
    }
}

/// Parses the chunks of a body that has one JSON value per line, and returns the values.
fn lines(chunks: impl Stream<Item = Bytes> + Send) -> impl Stream<Item = Value> + Send {
    let mut rest = Vec::new();
    chunks.flat_map(move |chunk| {
        rest.extend_from_slice(&chunk);
        let mut values = Vec::new();
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = rest.drain(..=end).collect();
            values.extend(serde_json::from_slice(&line).ok());
        }
        futures_util::stream::iter(values)
    })
}

//! Sends the requests of the checks of `informer doctor`. Each response also provides data for two checks:
//! that of the clocks, with its `Date` header, and that of API priority and fairness.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, DATE};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Limited};
use informer::client::{Client, ResponseBody};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::time::timeout;

use super::clock::{self, Sample};
use crate::failure::chain;

/// The maximum size of a response body, in bytes. A list of CRDs with large schemas takes some MB.
const MAX_BODY_BYTES: usize = 64 << 20;

/// The maximum number of responses whose `Date` header is recorded for the check of the clocks.
const MAX_SAMPLES: usize = 1_000;

const FLOW_SCHEMA: &str = "x-kubernetes-pf-flowschema-uid";
const PRIORITY_LEVEL: &str = "x-kubernetes-pf-prioritylevel-uid";

/// The error of a request that a check has sent: there was no response, or its status is not successful.
#[derive(Debug)]
pub(super) struct ApiFailure {
    /// The HTTP status; `None` if there was no response.
    pub(super) status: Option<StatusCode>,
    text: String,
}

impl ApiFailure {
    pub(super) fn is(&self, status: StatusCode) -> bool {
        self.status == Some(status)
    }
}

impl fmt::Display for ApiFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Properties of the responses that the check of API priority and fairness reports.
#[derive(Debug, Clone, Default)]
pub(super) struct Fairness {
    /// The number of requests that the server rejected with 429.
    pub(super) rejected: u64,
    /// The uid of the FlowSchema by which the server classified the last request.
    pub(super) flow_schema: Option<String>,
    pub(super) priority_level: Option<String>,
}

pub(super) struct Api {
    client: Client,
    timeout: Duration,
    samples: Mutex<Vec<Sample>>,
    fairness: Mutex<Fairness>,
}

impl Api {
    pub(super) fn new(client: Client, timeout: Duration) -> Self {
        Self { client, timeout, samples: Mutex::default(), fairness: Mutex::default() }
    }

    pub(super) fn samples(&self) -> Vec<Sample> {
        self.samples.lock().clone()
    }

    pub(super) fn fairness(&self) -> Fairness {
        self.fairness.lock().clone()
    }

    pub(super) async fn get(&self, path: &str) -> Result<Value, ApiFailure> {
        self.request(Method::GET, path, Bytes::new()).await
    }

    /// Sends a review, such as a SelfSubjectAccessReview, and returns the server's response. The server does
    /// not store reviews, so the check does not change the cluster.
    pub(super) async fn review(&self, path: &str, review: &Value) -> Result<Value, ApiFailure> {
        self.request(Method::POST, path, review.to_string().into()).await
    }

    async fn request(&self, method: Method, path: &str, body: Bytes) -> Result<Value, ApiFailure> {
        let work = async {
            let response = self.open(method.clone(), path, body).await?;
            let status = response.status();
            let body = Limited::new(response.into_body(), MAX_BODY_BYTES).collect().await;
            let failed = |text: String| ApiFailure { status: None, text };
            let body = body.map_err(|error| failed(format!("{method} {path}: {error}")))?.to_bytes();
            let value: Value = serde_json::from_slice(&body).unwrap_or_default();
            if !status.is_success() {
                let message = value["message"].as_str().unwrap_or("the response has no message");
                let text = format!("{method} {path}: {}: {message}", status.as_u16());
                return Err(ApiFailure { status: Some(status), text });
            }
            if value.is_null() {
                return Err(failed(format!("{method} {path}: the response is not JSON")));
            }
            Ok(value)
        };
        timeout(self.timeout, work).await.unwrap_or_else(|_| Err(self.timed_out(path)))
    }

    fn timed_out(&self, path: &str) -> ApiFailure {
        let text = format!("{path}: no response within {:?}", self.timeout);
        ApiFailure { status: None, text }
    }

    /// Sends a watch request, and returns the response whose body contains the events. The timeout applies
    /// only until the response head arrives, because the body of a watch has no end.
    pub(super) async fn watch(&self, path: &str) -> Result<Response<ResponseBody>, ApiFailure> {
        let open = self.open(Method::GET, path, Bytes::new());
        timeout(self.timeout, open).await.unwrap_or_else(|_| Err(self.timed_out(path)))
    }

    async fn open(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<Response<ResponseBody>, ApiFailure> {
        let json = HeaderValue::from_static("application/json");
        let request = Request::builder().method(method.clone()).uri(path);
        let request = request.header(ACCEPT, json.clone()).header(CONTENT_TYPE, json).body(body);
        let failed = |text: String| ApiFailure { status: None, text };
        let request = request.map_err(|error| failed(format!("{method} {path}: {error}")))?;
        let sent = clock::now();
        let response = self.client.request(request).await.map_err(|error| failed(chain(&error)))?;
        self.observe(sent, response.status(), response.headers());
        Ok(response)
    }

    fn observe(&self, sent: f64, status: StatusCode, headers: &HeaderMap) {
        let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
        if let Some(date) = text(DATE.as_str()).and_then(clock::parse_date) {
            let mut samples = self.samples.lock();
            if samples.len() < MAX_SAMPLES {
                samples.push(Sample { sent, received: clock::now(), date });
            }
        }
        let mut fairness = self.fairness.lock();
        fairness.rejected += u64::from(status == StatusCode::TOO_MANY_REQUESTS);
        let (schema, level) = (text(FLOW_SCHEMA), text(PRIORITY_LEVEL));
        fairness.flow_schema = schema.map(str::to_owned).or(fairness.flow_schema.take());
        fairness.priority_level = level.map(str::to_owned).or(fairness.priority_level.take());
    }
}

//! Sends API requests with a JSON body. Elections, shard groups and the access check of HTTP servers use them
//! for Leases, TokenReviews and SubjectAccessReviews.

use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Limited};
use informer_client::Client;
use serde_json::Value;

pub(crate) fn json_request(method: Method, uri: String, body: Option<Value>) -> Request<Bytes> {
    let body = body.map(|body| Bytes::from(body.to_string())).unwrap_or_default();
    let request = Request::builder().method(method).uri(uri).header(http::header::ACCEPT, "application/json");
    let request = request.header(http::header::CONTENT_TYPE, "application/json").body(body);
    request.expect("names in the URI are validated")
}

/// Sends a request to the API server, and returns the status and the decoded JSON body of the response. A
/// body that is not JSON is returned as null. The returned error states why no complete response was
/// received.
pub(crate) async fn exchange(
    client: &Client,
    request: Request<Bytes>,
    max_bytes: usize,
) -> Result<(StatusCode, Value), String> {
    let response = client.request(request).await.map_err(|error| error_chain(&error))?;
    let status = response.status();
    let body = Limited::new(response.into_body(), max_bytes).collect().await;
    let broken = |_| "the response is incomplete or too large".to_owned();
    let body = body.map_err(broken)?.to_bytes();
    Ok((status, serde_json::from_slice(&body).unwrap_or_default()))
}

fn error_chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |error| error.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

//! Sends API requests with a JSON body. Elections, shard groups, managed certificates and the access check of
//! HTTP servers use them for Leases, Secrets, TokenReviews and SubjectAccessReviews.

use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Limited};
use informer_client::Client;
use serde_json::Value;
use tokio::sync::mpsc;

/// The delay before a rejected or failed watch is repeated. A long delay is sufficient, because the object is
/// also read periodically.
const WATCH_RETRY_DELAY: Duration = Duration::from_secs(30);

/// The time after which the server ends a watch. It is short, so that a watch on a broken connection is
/// noticed.
const WATCH_SECONDS: u32 = 300;

/// Returns true if a text has only characters of names of objects, so that it can be a part of a URI.
pub(crate) fn is_name(text: &str) -> bool {
    let is_of_names = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.';
    !text.is_empty() && text.chars().all(is_of_names)
}

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

/// Returns the request that watches one object by its name.
pub(crate) fn watch_request(path: &str, name: &str) -> Request<Bytes> {
    let query = format!("watch=1&fieldSelector=metadata.name%3D{name}&timeoutSeconds={WATCH_SECONDS}");
    json_request(Method::GET, format!("{path}?{query}"), None)
}

/// Repeats a watch without end. For each received event, sends a hint that the object should be read. The
/// content of the events is not read.
pub(crate) async fn watch_with_hints(client: Client, request: Request<Bytes>, hint: mpsc::Sender<()>) {
    loop {
        if let Ok(response) = client.request(request.clone()).await
            && response.status().is_success()
        {
            let mut body = response.into_body();
            while let Some(Ok(_)) = body.frame().await {
                // The channel has room for one hint. If it is full, the object will be read anyway, so this
                // hint can be dropped.
                let _ = hint.try_send(());
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        } else {
            tokio::time::sleep(WATCH_RETRY_DELAY).await;
        }
    }
}

//! Reviews on the wire: what both kinds of webhooks have in common.

use std::panic::AssertUnwindSafe;

use bytes::Bytes;
use futures_util::FutureExt;
use http::header::CONTENT_TYPE;
use http::{Method, Request, Response, StatusCode};
use serde_json::{Value, json};

use crate::http_server::{answer, text};

/// Reads a review, and answers it with what `review` makes of it: a review with a `response`.
pub(super) async fn serve<F, Fut>(request: &Request<Bytes>, review: F) -> Response<Bytes>
where
    F: FnOnce(Value) -> Fut,
    Fut: Future<Output = Value>,
{
    if request.method() != Method::POST {
        return text(StatusCode::METHOD_NOT_ALLOWED, "reviews are posted\n");
    }
    let content_type =
        request.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if content_type.split(';').next().map(str::trim) != Some("application/json") {
        return text(StatusCode::UNSUPPORTED_MEDIA_TYPE, "send a review as application/json\n");
    }
    let body: Value = match serde_json::from_slice(request.body()) {
        Ok(body) => body,
        Err(error) => return text(StatusCode::BAD_REQUEST, format!("the body is no JSON: {error}\n")),
    };
    let head = head(&body);
    let Some(mut answered) = head else {
        return text(
            StatusCode::BAD_REQUEST,
            "the body is no review: it needs apiVersion, kind and a request with a uid\n",
        );
    };
    let uid = body["request"]["uid"].clone();
    let reviewed = AssertUnwindSafe(async { review(body).await }).catch_unwind().await;
    let mut response = reviewed.unwrap_or_else(|_| failure(500, "the webhook panicked"));
    response["uid"] = uid;
    answered["response"] = response;
    answer(StatusCode::OK, "application/json", answered.to_string())
}

/// The review without its request.
fn head(review: &Value) -> Option<Value> {
    let (version, kind) = (review["apiVersion"].as_str()?, review["kind"].as_str()?);
    review["request"]["uid"].as_str()?;
    Some(json!({"apiVersion": version, "kind": kind}))
}

/// An admission response that refuses, with a code and a message.
pub(super) fn failure(code: u16, message: impl Into<String>) -> Value {
    json!({"allowed": false, "status": {"code": code, "message": message.into()}, "result": {"status": "Failure"}})
}

//! The envelope of AdmissionReviews and ConversionReviews: decodes the review in an HTTP request, and encodes
//! the response.

use std::panic::AssertUnwindSafe;

use bytes::Bytes;
use futures_util::FutureExt;
use http::header::CONTENT_TYPE;
use http::{Method, Request, Response, StatusCode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::access::AccessReview;
use crate::http_server::{text, typed_response};

#[cfg_attr(not(feature = "prometheus"), expect(dead_code, reason = "only metrics read whether it panicked"))]
pub(super) struct ReviewResponse {
    pub(super) response: Response<Bytes>,
    pub(super) panicked: bool,
}

/// Decodes the review in an HTTP request, and calls the function `review` with it. Responds with a review
/// whose field `response` is the result of the function.
pub(super) async fn serve<F, Fut>(request: &Request<Bytes>, review: F) -> ReviewResponse
where
    F: FnOnce(Value) -> Fut,
    Fut: Future<Output = Value>,
{
    let (body, mut envelope) = match read(request) {
        Ok(read) => read,
        Err((status, problem)) => return ReviewResponse { response: text(status, problem), panicked: false },
    };
    let uid = body["request"]["uid"].clone();
    let reviewed = AssertUnwindSafe(async { review(body).await }).catch_unwind().await;
    let panicked = reviewed.is_err();
    let mut outcome = reviewed.unwrap_or_else(|_| failure(500, "the webhook panicked"));
    outcome["uid"] = uid;
    envelope["response"] = outcome;
    ReviewResponse {
        response: typed_response(StatusCode::OK, "application/json", envelope.to_string()),
        panicked,
    }
}

/// Returns the JSON body of an HTTP request.
fn read_json(request: &Request<Bytes>) -> Result<Value, (StatusCode, String)> {
    if request.method() != Method::POST {
        return Err((StatusCode::METHOD_NOT_ALLOWED, "send reviews by POST\n".to_owned()));
    }
    let content_type =
        request.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if content_type.split(';').next().map(str::trim) != Some("application/json") {
        return Err((StatusCode::UNSUPPORTED_MEDIA_TYPE, "send a review as application/json\n".to_owned()));
    }
    // The error of `serde_json` contains the position in the body, and none of its content, which may be
    // secret.
    serde_json::from_slice(request.body())
        .map_err(|error| (StatusCode::BAD_REQUEST, format!("the body is not JSON: {error}\n")))
}

/// Decodes the TokenReview or SubjectAccessReview in an HTTP request, and responds with the status that the
/// function `decide` returns for its spec.
pub(super) async fn serve_access<S, T, F, Fut>(
    request: &Request<Bytes>,
    kind: AccessReview,
    decide: F,
) -> ReviewResponse
where
    S: DeserializeOwned,
    T: Serialize,
    F: FnOnce(S) -> Fut,
    Fut: Future<Output = T>,
{
    let rejected = |(status, problem): (StatusCode, String)| ReviewResponse {
        response: text(status, problem),
        panicked: false,
    };
    let body = match read_json(request) {
        Ok(body) => body,
        Err(problem) => return rejected(problem),
    };
    let version = body["apiVersion"].as_str().unwrap_or_default().to_owned();
    let spec = match kind.spec(body) {
        Ok(spec) => spec,
        Err(problem) => return rejected((StatusCode::BAD_REQUEST, format!("{problem}\n"))),
    };
    match AssertUnwindSafe(async { decide(spec).await }).catch_unwind().await {
        Ok(status) => {
            let review = kind.response(&version, &status).to_string();
            let response = typed_response(StatusCode::OK, "application/json", review);
            ReviewResponse { response, panicked: false }
        }
        Err(_) => {
            let response = text(StatusCode::INTERNAL_SERVER_ERROR, "the webhook panicked\n");
            ReviewResponse { response, panicked: true }
        }
    }
}

/// Returns the review in an HTTP request, and an empty review of the same version and kind to which the
/// caller adds the response.
fn read(request: &Request<Bytes>) -> Result<(Value, Value), (StatusCode, String)> {
    let body = read_json(request)?;
    let advice = "the body is not a review: it needs apiVersion, kind and a request with a uid\n";
    let head = head(&body).ok_or_else(|| (StatusCode::BAD_REQUEST, advice.to_owned()))?;
    Ok((body, head))
}

/// Returns a review with the version and kind of the received one, to which the caller adds the response.
/// Returns `None` if the received review lacks its version, kind or uid.
fn head(review: &Value) -> Option<Value> {
    let (version, kind) = (review["apiVersion"].as_str()?, review["kind"].as_str()?);
    review["request"]["uid"].as_str()?;
    Some(json!({"apiVersion": version, "kind": kind}))
}

pub(super) fn failure(code: u16, message: impl Into<String>) -> Value {
    json!({"allowed": false, "status": {"code": code, "message": message.into()}, "result": {"status": "Failure"}})
}

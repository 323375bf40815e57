//! The web UI of the server: a page for browsers, its data, and its actions.
//!
//! | request below `/debug/apiserver` | response |
//! |---|---|
//! | `GET /` | the page; its script and style sheet have paths next to it |
//! | `GET /v1/state?after=N` | the [`ServerState`], with the logged requests whose number is greater than N |
//! | `POST /v1/actions` | executes an [`Action`] |
//!
//! Requests are authenticated and authorized like those of any other path.
//!
//! # Invariants
//!
//! 1. The web UI does not change the result of a test: its own requests are not logged, and fault rules do
//!    not match them.
//! 2. The size of a response is bounded, and a response contains no object.
//! 3. A request ends after [`MAX_TIME`] at the latest.

mod action;
mod state;

use std::time::Duration;

use bytes::{Buf, Bytes};
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderValue, LOCATION, REFERRER_POLICY,
};
use http::{Method, Response, StatusCode, request};
use informer_http::OriginPolicy;
use serde_json::json;

use crate::http::Frontend;
use crate::http::body::ApiBody;
use crate::http::call::{collect, media_type};
use crate::http::response::{ApiResponse, value};
use crate::model::error::ApiError;
use crate::model::query::Query;
use action::Action;
use state::ServerState;

/// Maximum duration of a request of the web UI, including the transfer of its body.
pub(super) const MAX_TIME: Duration = Duration::from_secs(10);

/// Maximum size of the body of an action in bytes.
const MAX_ACTION_BYTES: usize = 64 << 10;

/// The path of the page. The page itself uses relative paths only, so a proxy may serve it under any prefix.
const PAGE: &str = "/debug/apiserver";

/// The page may load its own script and style sheet and read its own data, and nothing else.
const CONTENT_SECURITY_POLICY_VALUE: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; \
     base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
);

/// The committed output of `cargo xtask console`.
const ASSETS: [(&str, &str, &str); 3] = [
    ("", "text/html; charset=utf-8", include_str!("web_ui/assets/index.html")),
    ("server.css", "text/css; charset=utf-8", include_str!("web_ui/assets/server.css")),
    ("server.js", "text/javascript; charset=utf-8", include_str!("web_ui/assets/server.js")),
];

/// Returns the path of the page below the URL of a server.
pub(super) fn path() -> String {
    format!("{PAGE}/")
}

/// Returns true if a path belongs to the web UI.
pub(super) fn is_web_ui(path: &str) -> bool {
    path.strip_prefix(PAGE).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Responds to an authorized request of the web UI.
pub(super) async fn respond<B>(
    shared: &Frontend,
    head: &request::Parts,
    query: &Query,
    body: B,
) -> Result<ApiResponse, ApiError>
where
    B: http_body::Body,
    B::Data: Buf,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let path = head.uri.path().strip_prefix(PAGE).unwrap_or_default();
    let is_read = matches!(head.method, Method::GET | Method::HEAD);
    Ok(match path {
        "/v1/actions" if head.method == Method::POST => {
            check_same_site(head)?;
            let body = collect(body).await?;
            if body.len() > MAX_ACTION_BYTES {
                let problem = format!("cannot read the action: it has more than {MAX_ACTION_BYTES} bytes");
                return Err(ApiError::new(413, "RequestEntityTooLarge", problem));
            }
            value(200, &json!({"message": Action::parse(&body)?.run(shared)?}))
        }
        "/v1/actions" => return Err(ApiError::method_not_allowed()),
        _ if !is_read => return Err(ApiError::method_not_allowed()),
        "/v1/state" => {
            let after = query.integer("after")?.and_then(|after| u64::try_from(after).ok());
            value(200, &json!(ServerState::read(shared, after.unwrap_or_default())))
        }
        "" => redirect(),
        path => asset(path.trim_start_matches('/')).ok_or_else(ApiError::unknown_path)?,
    })
}

/// Rejects an action that a page of another site may have caused. A browser sends the client certificate of
/// the user with such a request. But a cross-origin request with the type `application/json` needs a CORS
/// preflight, which this server does not answer, so a browser never sends it.
fn check_same_site(head: &request::Parts) -> Result<(), ApiError> {
    if media_type(head) != "application/json" {
        let problem = "the body of an action must have the type application/json; set Content-Type";
        return Err(ApiError::new(415, "UnsupportedMediaType", problem));
    }
    let policy = OriginPolicy { hosts: None, links: false };
    policy.check(&head.method, &head.uri, &head.headers).map_err(|foreign| {
        let problem = format!("refusing the action: {foreign}; use the web UI of this server");
        ApiError::new(403, "Forbidden", problem)
    })
}

fn redirect() -> ApiResponse {
    let mut response = Response::new(ApiBody::none());
    *response.status_mut() = StatusCode::PERMANENT_REDIRECT;
    // The location is relative, so that it is right behind a proxy with a path prefix.
    response.headers_mut().insert(LOCATION, HeaderValue::from_static("apiserver/"));
    response
}

fn asset(name: &str) -> Option<ApiResponse> {
    let (_, content_type, content) = ASSETS.iter().find(|(asset, ..)| *asset == name)?;
    let mut response = Response::new(ApiBody::whole(Bytes::from_static(content.as_bytes())));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    Some(response)
}

pub(super) fn with_security_headers(mut response: ApiResponse) -> ApiResponse {
    let headers = response.headers_mut();
    headers.insert(CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY_VALUE);
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert("x-content-type-options", HeaderValue::from_static("nosniff"));
    headers.insert("cross-origin-resource-policy", HeaderValue::from_static("same-origin"));
    response
}

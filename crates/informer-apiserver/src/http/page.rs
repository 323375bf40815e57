//! The page of the server for browsers, its data, and its actions.
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
//! 1. The page does not change the result of a test: its own requests are not logged, and fault rules do not
//!    match them.
//! 2. The size of a response is bounded, and a response contains no object.

mod action;
mod state;

use bytes::{Buf, Bytes};
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue, LOCATION, REFERRER_POLICY,
};
use http::{Method, Response, StatusCode, request};
use serde_json::json;

use crate::http::Frontend;
use crate::http::body::ApiBody;
use crate::http::call::{collect, media_type};
use crate::http::response::{ApiResponse, value};
use crate::model::error::ApiError;
use crate::model::query::Query;
use action::Action;
use state::ServerState;

/// The path of the page. The page itself uses relative paths only, so a proxy may serve it under any prefix.
const PAGE: &str = "/debug/apiserver";

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The page may load its own script and style sheet and read its own data, and nothing else.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; \
     base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
);

/// The committed output of `cargo xtask console`.
const ASSETS: [(&str, &str, &str); 3] = [
    ("", "text/html; charset=utf-8", include_str!("page/assets/index.html")),
    ("server.css", "text/css; charset=utf-8", include_str!("page/assets/server.css")),
    ("server.js", "text/javascript; charset=utf-8", include_str!("page/assets/server.js")),
];

/// Returns the path of the page below the URL of a server.
pub(super) fn path() -> String {
    format!("{PAGE}/")
}

/// Returns true if a path belongs to the page.
pub(super) fn is_page(path: &str) -> bool {
    path.strip_prefix(PAGE).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Responds to an authorized request of the page.
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
    let reads = matches!(head.method, Method::GET | Method::HEAD);
    let response = match path {
        "/v1/actions" if head.method == Method::POST => {
            check_same_site(head)?;
            let action = Action::parse(&collect(body).await?)?;
            value(200, &json!({"message": action.run(shared)?}))
        }
        "/v1/actions" => return Err(ApiError::method_not_allowed()),
        _ if !reads => return Err(ApiError::method_not_allowed()),
        "/v1/state" => {
            let after = query.integer("after")?.and_then(|after| u64::try_from(after).ok());
            value(200, &json!(ServerState::read(shared, after.unwrap_or_default())))
        }
        "" => redirect(),
        path => asset(path.trim_start_matches('/')).ok_or_else(ApiError::unknown_path)?,
    };
    Ok(with_policy(response))
}

/// Refuses an action that a page of another site may have caused. A browser sends the client certificate of
/// the user with such a request, but asks the server first if the type of the body is JSON.
fn check_same_site(head: &request::Parts) -> Result<(), ApiError> {
    if media_type(head) != "application/json" {
        let problem = "the body of an action must have the type application/json; set Content-Type";
        return Err(ApiError::new(415, "UnsupportedMediaType", problem));
    }
    match head.headers.get(SEC_FETCH_SITE).map(HeaderValue::as_bytes) {
        None | Some(b"same-origin" | b"none") => Ok(()),
        Some(_) => {
            let problem = "refusing the action: a page of another site sent it; use the page of this server";
            Err(ApiError::new(403, "Forbidden", problem))
        }
    }
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

fn with_policy(mut response: ApiResponse) -> ApiResponse {
    let headers = response.headers_mut();
    headers.insert(CONTENT_SECURITY_POLICY, POLICY);
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert("x-content-type-options", HeaderValue::from_static("nosniff"));
    headers.insert("cross-origin-resource-policy", HeaderValue::from_static("same-origin"));
    response
}

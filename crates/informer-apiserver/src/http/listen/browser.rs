//! Protects an open server from web pages.
//!
//! A server without authentication allows every request, so it should listen on loopback addresses only. A
//! browser on the same machine bypasses this protection: any web page can send requests to the server
//! (cross-site request forgery), and a page that binds its own host name to the server's address can also
//! read the responses (DNS rebinding). kubectl, client-go, kube-rs and curl send none of the browser's
//! headers that are checked here.

use http::header::{CONTENT_TYPE, HeaderName, ORIGIN};
use http::{Method, request};
use informer_http::{ForeignRequest, OriginPolicy};

use crate::http::web_ui;
use crate::model::error::ApiError;

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Refuses a request to an open server that a foreign web page may have caused. `allowed` are the names of
/// the server in addition to the local ones. A browser must also send a `Content-Type` with a body, because
/// a page of another origin can send a body without one. A link to the web UI may be on any page.
///
/// # Errors
///
/// 403 for the host and the origin, 415 for the body.
pub(super) fn check(head: &request::Parts, allowed: &[String]) -> Result<(), ApiError> {
    let policy = OriginPolicy { hosts: Some(allowed), links: web_ui::is_web_ui(head.uri.path()) };
    policy.check(&head.method, &head.uri, &head.headers).map_err(|foreign| forbidden(&foreign))?;
    let is_browser = head.headers.contains_key(ORIGIN) || head.headers.contains_key(SEC_FETCH_SITE);
    let writes = matches!(head.method, Method::POST | Method::PUT | Method::PATCH);
    let has_type = head.headers.get(CONTENT_TYPE).is_some_and(|value| !value.is_empty());
    if writes && !has_type && is_browser {
        return Err(ApiError::new(
            415,
            "UnsupportedMediaType",
            "a request of a browser must declare the type of its body; set Content-Type to application/json",
        ));
    }
    Ok(())
}

fn forbidden(foreign: &ForeignRequest) -> ApiError {
    let remedy = match foreign {
        ForeignRequest::Host(_) => "use an IP address or localhost, or allow the name",
        ForeignRequest::Origin(_) | ForeignRequest::Site => "send the request without a browser",
    };
    let problem = format!("refusing the request to a server without authentication: {foreign}; {remedy}");
    ApiError::new(403, "Forbidden", problem)
}

#[cfg(test)]
mod tests;

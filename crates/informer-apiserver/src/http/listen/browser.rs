//! Protects an open server from web pages.
//!
//! A server without authentication allows every request, so it should listen on loopback addresses only. A
//! browser on the same machine bypasses this protection: any web page can send requests to the server
//! (cross-site request forgery), and a page that binds its own host name to the server's address can also
//! read the responses (DNS rebinding). kubectl, client-go, kube-rs and curl send none of the browser's
//! headers that are checked here.

use std::net::IpAddr;

use http::header::{CONTENT_TYPE, HOST, HeaderName, ORIGIN};
use http::uri::Authority;
use http::{Method, request};

use crate::model::error::ApiError;

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Refuses a request to an open server that a foreign web page may have caused.
///
/// - `Host` must be an IP address, `localhost` or a name below it, or one of `allowed`: a page can bind any
///   other name.
/// - `Origin` must have the host and port of `Host`, which shows that this server served the page.
/// - A browser must send a `Content-Type` with a body: a page of another origin can send a body without one.
///
/// # Errors
///
/// 403 for the host and the origin, 415 for the body.
pub(super) fn check(head: &request::Parts, allowed: &[String]) -> Result<(), ApiError> {
    let hosts: Vec<&str> = texts(head, HOST).chain(head.uri.authority().map(Authority::as_str)).collect();
    if let Some(host) = hosts.iter().find(|host| !is_own(host, allowed)) {
        return Err(forbidden(&format!(
            "host {host:?} is not a name of this server, which has no authentication; use an IP address or localhost, or \
             allow the name"
        )));
    }
    let site = head.headers.get(SEC_FETCH_SITE).map(|value| value.as_bytes());
    let foreign = |origin: &&str| !hosts.iter().any(|host| is_origin_of(origin, host));
    if let Some(origin) = texts(head, ORIGIN).find(foreign) {
        return Err(forbidden(&format!(
            "origin {origin:?} is not this server, which has no authentication; send the request without a browser"
        )));
    }
    if matches!(site, Some(b"cross-site" | b"same-site")) {
        return Err(forbidden(
            "a web page of another origin sent the request, and this server has no authentication; send it without a browser",
        ));
    }
    let writes = matches!(head.method, Method::POST | Method::PUT | Method::PATCH);
    let has_type = head.headers.get(CONTENT_TYPE).is_some_and(|value| !value.is_empty());
    if writes && !has_type && (site.is_some() || head.headers.contains_key(ORIGIN)) {
        return Err(ApiError::new(
            415,
            "UnsupportedMediaType",
            "a request of a browser must declare the type of its body; set Content-Type to application/json",
        ));
    }
    Ok(())
}

/// Returns all values of a header. A value that is not ASCII is replaced by an empty string.
fn texts(head: &request::Parts, name: HeaderName) -> impl Iterator<Item = &str> {
    head.headers.get_all(name).into_iter().map(|value| value.to_str().unwrap_or_default())
}

/// Returns true if a `Host` such as `127.0.0.1:8001` is safe, that is, no foreign web page can have bound
/// this name to the server's address.
fn is_own(authority: &str, allowed: &[String]) -> bool {
    let Ok(authority) = authority.parse::<Authority>() else { return false };
    let host = authority.host().trim_end_matches('.');
    let address = host.trim_start_matches('[').trim_end_matches(']');
    address.parse::<IpAddr>().is_ok()
        || is_or_ends_in(host, "localhost")
        || allowed.iter().any(|name| name.eq_ignore_ascii_case(host))
}

fn is_or_ends_in(host: &str, name: &str) -> bool {
    let Some(at) = host.len().checked_sub(name.len()) else { return false };
    let (before, end) = host.split_at_checked(at).unwrap_or_default();
    end.eq_ignore_ascii_case(name) && (before.is_empty() || before.ends_with('.'))
}

fn is_origin_of(origin: &str, authority: &str) -> bool {
    let Some((_, host)) = origin.split_once("://") else { return false };
    host.eq_ignore_ascii_case(authority)
}

fn forbidden(why: &str) -> ApiError {
    ApiError::new(403, "Forbidden", format!("refusing the request: {why}"))
}

#[cfg(test)]
mod tests;

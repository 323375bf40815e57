//! Detects requests that a web page of another site may have caused.
//!
//! Any web page can send requests to a server on the machine of its reader (cross-site request forgery). A
//! page that binds its own host name to the address of the server can also read the responses (DNS
//! rebinding). Browsers add headers to their requests that show both. kubectl, client-go, kube-rs and curl do
//! not send these headers.

use std::net::IpAddr;

use http::header::{HOST, HeaderName, ORIGIN};
use http::uri::Authority;
use http::{HeaderMap, Method, Uri};

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const SEC_FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
const SEC_FETCH_DEST: HeaderName = HeaderName::from_static("sec-fetch-dest");

/// Determines which requests of browsers a server accepts. The default is the strictest policy.
///
/// - If [`hosts`](Self::hosts) are set, `Host` must be an IP address, `localhost`, a name below it, or one of
///   the hosts. A page can bind any other name to the address of the server.
/// - `Origin` must have the host and port of `Host`, which shows that this server has sent the page.
/// - `Sec-Fetch-Site` must not name another site or another origin.
///
/// A request without these headers is accepted.
#[derive(Debug, Clone, Copy)]
pub struct OriginPolicy<'a> {
    /// The names of the server in addition to the local ones. `None` accepts each `Host`, for a server that
    /// authorizes requests.
    pub hosts: Option<&'a [String]>,
    /// Accepts that a user follows a link on a page of another site. That page cannot read the response.
    pub links: bool,
}

impl Default for OriginPolicy<'_> {
    fn default() -> Self {
        Self { hosts: Some(&[]), links: false }
    }
}

/// The reason why a request may come from a page of another site.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ForeignRequest {
    /// A page could have bound this `Host` to the address of the server.
    #[error("host {0:?} is not a name of this server")]
    Host(String),
    /// A page of this origin sent the request.
    #[error("origin {0:?} is not this server")]
    Origin(String),
    /// A page of another origin sent the request.
    #[error("a web page of another origin sent the request")]
    Site,
}

impl OriginPolicy<'_> {
    /// Checks the headers of a request.
    ///
    /// # Errors
    ///
    /// Returns an error if a page of another site may have caused the request.
    pub fn check(&self, method: &Method, uri: &Uri, headers: &HeaderMap) -> Result<(), ForeignRequest> {
        // HTTP/2 has the authority in the URI.
        let hosts: Vec<&str> = texts(headers, &HOST).chain(uri.authority().map(Authority::as_str)).collect();
        if let Some(allowed) = self.hosts
            && let Some(host) = hosts.iter().find(|host| !is_own(host, allowed))
        {
            return Err(ForeignRequest::Host((*host).to_owned()));
        }
        let is_foreign = |origin: &&str| !hosts.iter().any(|host| is_origin_of(origin, host));
        if let Some(origin) = texts(headers, &ORIGIN).find(is_foreign) {
            return Err(ForeignRequest::Origin(origin.to_owned()));
        }
        let is_other_origin =
            texts(headers, &SEC_FETCH_SITE).any(|site| matches!(site, "cross-site" | "same-site"));
        if is_other_origin && !(self.links && is_link(method, headers)) {
            return Err(ForeignRequest::Site);
        }
        Ok(())
    }
}

/// Returns true if the user follows a link. A form that is sent by `POST` is a navigation, too, but changes
/// data.
fn is_link(method: &Method, headers: &HeaderMap) -> bool {
    let is = |name: &HeaderName, expected: &str| texts(headers, name).eq([expected]);
    matches!(*method, Method::GET | Method::HEAD)
        && is(&SEC_FETCH_MODE, "navigate")
        && is(&SEC_FETCH_DEST, "document")
}

/// Returns all values of a header. A value that is not ASCII is replaced by an empty string.
fn texts<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a str> {
    headers.get_all(name).into_iter().map(|value| value.to_str().unwrap_or_default())
}

/// Returns true if no page of another site can have bound a `Host` such as `127.0.0.1:8001` to the address
/// of the server.
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

#[cfg(test)]
mod tests;

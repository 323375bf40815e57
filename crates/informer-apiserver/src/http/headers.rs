//! Reads headers of requests.

use http::header::HeaderName;
use http::request;

/// Returns the value of a header, or an empty string if it is absent or not ASCII.
pub(crate) fn header(head: &request::Parts, name: HeaderName) -> &str {
    head.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

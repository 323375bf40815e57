//! The version of the API server.
//!
//! Informers request the version with each complete list, because another server version may serialize the
//! same state of an object differently. Concurrent lists share one request.
//!
//! # Lock order
//!
//! The only lock is held until the response to `/version` has arrived, so that concurrent callers share one
//! request.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::ACCEPT;
use http::{HeaderValue, Request, StatusCode, Uri};
use serde::Deserialize;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

use crate::Client;

/// How long a response to `/version` is reused. An upgrade of an API server takes longer than that, so a
/// reused response does not hide an upgrade.
const FRESH_FOR: Duration = Duration::from_secs(1);

/// Timeout of a request to `/version`. An informer sends this request with each complete list, so the timeout
/// also limits how long a list is delayed by a server that does not respond to it.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum size of a response to `/version`. API servers send half a kilobyte.
const MAX_RESPONSE_BYTES: usize = 16 << 10;

/// A field that every API server includes in its response to `/version`. It distinguishes an API server from
/// other servers.
#[derive(Deserialize)]
struct VersionDocument {
    #[serde(rename = "gitVersion")]
    _git_version: String,
}

#[derive(Default)]
pub(super) struct Cached(Mutex<Option<CachedVersion>>);

struct CachedVersion {
    at: Instant,
    version: Option<Arc<str>>,
}

impl Client {
    /// Returns the body of the server's response to `/version`: version, commit and build of the server.
    /// Returns `None` if there is no response, or if it is invalid.
    pub(crate) async fn server_version(&self) -> Option<Arc<str>> {
        let mut cached = self.inner.server_version.0.lock().await;
        if let Some(last) = cached.as_ref().filter(|last| last.at.elapsed() < FRESH_FOR) {
            return last.version.clone();
        }
        let version = timeout(RESPONSE_TIMEOUT, self.request_version()).await.ok().flatten();
        *cached = Some(CachedVersion { at: Instant::now(), version: version.clone() });
        version
    }

    async fn request_version(&self) -> Option<Arc<str>> {
        let mut request = Request::new(Bytes::new());
        *request.uri_mut() = Uri::from_static("/version");
        request.headers_mut().insert(ACCEPT, HeaderValue::from_static("application/json"));
        let response = self.request(request).await.ok()?;
        if response.status() != StatusCode::OK {
            return None;
        }
        let text = response.into_body().read_up_to(MAX_RESPONSE_BYTES).await;
        // Parse the body to reject truncated responses, and responses of servers that are not API servers.
        let _: VersionDocument = serde_json::from_slice(&text).ok()?;
        String::from_utf8(text).ok().map(Into::into)
    }
}

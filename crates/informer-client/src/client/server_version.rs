//! The version of the API server, and of the schemas of custom kinds.
//!
//! Both determine how the server serializes the same state of an object. A new default in the schema of a
//! CustomResourceDefinition changes stored objects when they are read, without a new resourceVersion.
//! Informers request the version with each complete list. For custom kinds they also request the [index of
//! OpenAPI documents], which has a hash of the document of each group and version. Concurrent lists share
//! these requests.
//!
//! Two changes are not detected until the next change of the document. One is a change of `spec.conversion`,
//! such as another conversion webhook, which the document does not contain. The other one happens between the
//! responses to the first list of an informer and to the request for the index, or reaches the API servers of
//! a cluster at different times.
//!
//! # Lock order
//!
//! Each of the two locks is held until the response has arrived, so that concurrent callers share one
//! request. One task may hold both. This cannot deadlock, because neither request waits for the other lock.
//!
//! [index of OpenAPI documents]: https://kubernetes.io/docs/concepts/overview/kubernetes-api/#openapi-v3

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::ACCEPT;
use http::{HeaderValue, Request, StatusCode, Uri};
use informer_core::Gvr;
use informer_schema::Schema;
use serde::Deserialize;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

use crate::{Client, ResourceKind};

/// How long a response is reused. An upgrade of an API server takes longer than that, so a reused response
/// does not hide an upgrade. A change of a schema that a reused response hides is detected at the next list.
const FRESH_FOR: Duration = Duration::from_secs(1);

/// Timeout of each request. An informer sends them with each complete list, so the timeout also limits how
/// long a list is delayed by a server that does not respond to them.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum size of a response to `/version`. API servers send half a kilobyte.
const MAX_VERSION_BYTES: usize = 16 << 10;
/// Maximum size of the index of OpenAPI documents, which has about 200 bytes for each group and version.
const MAX_INDEX_BYTES: usize = 1 << 20;

/// A field that every API server includes in its response to `/version`. It distinguishes an API server from
/// other servers.
#[derive(Deserialize)]
struct VersionDocument {
    #[serde(rename = "gitVersion")]
    _git_version: String,
}

/// The response to `/openapi/v3`: the documents of all groups and versions, by paths such as
/// `apis/example.com/v1`. It is empty for a server that does not serve it to this client, or whose response
/// is invalid.
#[derive(Default, Deserialize)]
struct OpenApiIndex {
    paths: HashMap<String, OpenApiDocument>,
}

#[derive(Deserialize)]
struct OpenApiDocument {
    /// The URL of the document, which contains a hash of it.
    #[serde(rename = "serverRelativeURL")]
    url: String,
}

#[derive(Default)]
pub(super) struct Cached {
    version: Mutex<Option<CachedResponse<str>>>,
    open_api: Mutex<Option<CachedResponse<OpenApiIndex>>>,
}

struct CachedResponse<T: ?Sized> {
    at: Instant,
    response: Option<Arc<T>>,
}

/// Returns the cached response if it is fresh, or else that of a new request. If the request fails, or takes
/// longer than [`RESPONSE_TIMEOUT`], returns the last response; `None` if there was none.
async fn fresh<T: ?Sized>(
    cached: &Mutex<Option<CachedResponse<T>>>,
    request: impl Future<Output = Option<Arc<T>>>,
) -> Option<Arc<T>> {
    let mut cached = cached.lock().await;
    if let Some(last) = cached.as_ref().filter(|last| last.at.elapsed() < FRESH_FOR) {
        return last.response.clone();
    }
    let response = timeout(RESPONSE_TIMEOUT, request).await.ok().flatten();
    let response = response.or_else(|| cached.as_ref()?.response.clone());
    *cached = Some(CachedResponse { at: Instant::now(), response: response.clone() });
    response
}

impl Client {
    /// Returns a text that changes when the server may serialize the objects of a kind differently: the
    /// server's response to `/version`, and for a custom kind the URL of the OpenAPI document of its group
    /// and version. Returns `None` until the server has sent a valid response to `/version`.
    pub(crate) async fn server_version(&self, kind: &ResourceKind) -> Option<Arc<str>> {
        let cached = &self.inner.server_version;
        let version = fresh(&cached.version, self.request_version());
        let Gvr { group, version: group_version, .. } = kind.gvr();
        // The name of a CRD's group contains a dot, so a group without one is built in.
        if Schema::builtin().resource(&kind.gvr()).is_some() || !group.contains('.') {
            return version.await;
        }
        let index = fresh(&cached.open_api, self.request_open_api_index());
        let (version, index) = tokio::join!(version, index);
        let (version, index) = (version?, index.unwrap_or_default());
        let document = index.paths.get(&format!("apis/{group}/{group_version}"));
        Some(
            document
                .map_or_else(|| Arc::clone(&version), |document| format!("{version}{}", document.url).into()),
        )
    }

    async fn request_version(&self) -> Option<Arc<str>> {
        let (status, text) = self.get_json("/version", MAX_VERSION_BYTES).await?;
        if status != StatusCode::OK {
            return None;
        }
        // Parse the body to reject truncated responses, and responses of servers that are not API servers.
        let _: VersionDocument = serde_json::from_slice(&text).ok()?;
        String::from_utf8(text).ok().map(Into::into)
    }

    async fn request_open_api_index(&self) -> Option<Arc<OpenApiIndex>> {
        let (status, text) = self.get_json("/openapi/v3", MAX_INDEX_BYTES).await?;
        match status {
            StatusCode::OK => Some(Arc::new(serde_json::from_slice(&text).unwrap_or_default())),
            StatusCode::TOO_MANY_REQUESTS => None,
            status if status.is_server_error() => None,
            _ => Some(Arc::default()),
        }
    }

    async fn get_json(&self, path: &'static str, max_bytes: usize) -> Option<(StatusCode, Vec<u8>)> {
        let mut request = Request::new(Bytes::new());
        *request.uri_mut() = Uri::from_static(path);
        request.headers_mut().insert(ACCEPT, HeaderValue::from_static("application/json"));
        let response = self.request(request).await.ok()?;
        let status = response.status();
        Some((status, response.into_body().read_up_to(max_bytes).await))
    }
}

//! Requests of a client for one object or one collection: reads and writes.

mod error;
mod retry;

use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderValue, Method, Request};
use informer_cache::source::SourceErrorKind;
use informer_core::ObjectKey;

pub use error::CallError;
pub use retry::{CallRetries, MAX_CALL_RETRIES, MAX_CALL_RETRY_TIME, MIN_CALL_RETRY_DELAY};

use crate::list_watch::query::{self, Query};
use crate::list_watch::response::refusal;
use crate::{Client, ResourceKind};

/// Timeout for the response headers of a call. It exceeds 60 s, after which an API server itself ends a
/// request with an error, so that the client receives that error.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(75);

const BODY_IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// Maximum size of the response body of a call. An object has a few MB at most. Large collections should be
/// listed in pages, or watched.
const MAX_RESPONSE_BYTES: usize = 1 << 30;

/// A request for an object, a subresource or a collection. The namespace is ignored if the kind is known to
/// be cluster-scoped.
///
/// This is the lowest-level write API. It builds the HTTP request, does not interpret bodies, and returns the
/// response as bytes.
///
/// ```no_run
/// # async fn example(client: informer_client::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use informer_client::{Call, ResourceKind};
/// use k8s_openapi::api::core::v1::Pod;
///
/// let text = client.call(Call::get(&ResourceKind::of::<Pod>(), &"default/web-0".parse()?)).await?;
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
#[must_use = "a call does nothing until it is sent"]
pub struct Call {
    method: Method,
    verb: &'static str,
    kind: ResourceKind,
    namespace: Option<String>,
    name: Option<String>,
    subresource: Option<String>,
    query: Vec<(String, String)>,
    content_type: &'static str,
    accept: &'static str,
    body: RequestBody,
    retries: bool,
}

/// The body of a call's request. The `Debug` output of this type shows only the size, because a body may
/// contain secrets.
#[derive(Clone, Default)]
struct RequestBody(Bytes);

impl std::fmt::Debug for RequestBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

/// The format of the body of a PATCH request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PatchFormat {
    /// JSON merge patch (RFC 7386).
    Merge,
    /// JSON patch (RFC 6902).
    Json,
    /// Strategic merge patch: list elements are merged with the existing elements that have the same merge
    /// key. Servers support this format only for built-in kinds.
    Strategic,
    /// Server-side apply patch.
    Apply,
}

impl PatchFormat {
    fn content_type(self) -> &'static str {
        match self {
            Self::Merge => "application/merge-patch+json",
            Self::Json => "application/json-patch+json",
            Self::Strategic => "application/strategic-merge-patch+json",
            Self::Apply => "application/apply-patch+yaml",
        }
    }
}

impl Call {
    fn of(method: Method, verb: &'static str, kind: &ResourceKind) -> Self {
        Self {
            method,
            verb,
            kind: kind.clone(),
            namespace: None,
            name: None,
            subresource: None,
            query: Vec::new(),
            content_type: "application/json",
            accept: "application/json",
            body: RequestBody::default(),
            retries: true,
        }
    }

    fn object(method: Method, verb: &'static str, kind: &ResourceKind, key: &ObjectKey) -> Self {
        let call = Self::of(method, verb, kind);
        let namespace = kind.namespace_in_url(key.namespace()).map(str::to_owned);
        Self { namespace, name: Some(key.name().to_owned()), ..call }
    }

    fn collection(method: Method, verb: &'static str, kind: &ResourceKind, namespace: Option<&str>) -> Self {
        let namespace = kind.namespace_in_url(namespace).filter(|namespace| !namespace.is_empty());
        Self { namespace: namespace.map(str::to_owned), ..Self::of(method, verb, kind) }
    }

    /// Creates a call that reads an object.
    pub fn get(kind: &ResourceKind, key: &ObjectKey) -> Self {
        Self::object(Method::GET, "get", kind, key)
    }

    /// Creates a call that lists a collection, or the part of a collection that the query parameters select.
    pub fn list(kind: &ResourceKind, namespace: Option<&str>) -> Self {
        Self::collection(Method::GET, "list", kind, namespace)
    }

    /// Creates a call that creates an object. The name of the object is in the request body.
    pub fn create(kind: &ResourceKind, namespace: Option<&str>) -> Self {
        Self::collection(Method::POST, "create", kind, namespace)
    }

    /// Creates a call that creates a subresource of an object, such as an eviction.
    /// [`subresource`](Self::subresource) sets the name of the subresource.
    pub fn create_under(kind: &ResourceKind, key: &ObjectKey) -> Self {
        Self::object(Method::POST, "create", kind, key)
    }

    /// Creates a call that replaces an object.
    pub fn replace(kind: &ResourceKind, key: &ObjectKey) -> Self {
        Self::object(Method::PUT, "replace", kind, key)
    }

    /// Creates a call that patches an object.
    pub fn patch(kind: &ResourceKind, key: &ObjectKey, format: PatchFormat) -> Self {
        let verb = if format == PatchFormat::Apply { "apply" } else { "patch" };
        Self { content_type: format.content_type(), ..Self::object(Method::PATCH, verb, kind, key) }
    }

    /// Creates a call that deletes an object.
    pub fn delete(kind: &ResourceKind, key: &ObjectKey) -> Self {
        Self::object(Method::DELETE, "delete", kind, key)
    }

    /// Creates a call that deletes the objects of a collection that the query parameters select.
    pub fn delete_collection(kind: &ResourceKind, namespace: Option<&str>) -> Self {
        Self::collection(Method::DELETE, "delete collection", kind, namespace)
    }

    /// Addresses a subresource of the object of this call, such as `status`.
    pub fn subresource(mut self, name: impl Into<String>) -> Self {
        self.subresource = Some(name.into()).filter(|name| !name.is_empty());
        self
    }

    /// Adds a query parameter to the URL of this call.
    pub fn query(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.query.push((name.into(), value.into()));
        self
    }

    /// Sets the request body of this call.
    pub fn body(mut self, body: impl Into<Bytes>) -> Self {
        self.body = RequestBody(body.into());
        self
    }

    /// Requests only the metadata of objects: the response to a get, patch or delete is a
    /// `PartialObjectMetadata`, and the response to a list is a `PartialObjectMetadataList`.
    pub fn metadata_only(mut self) -> Self {
        let is_list = self.name.is_none() && self.method == Method::GET;
        self.accept = if is_list { query::METADATA_LIST.json } else { query::METADATA.json };
        self
    }

    /// Returns the error of a rejected call at once, instead of sending the call again as described at
    /// [`CallRetries`].
    pub fn without_retries(mut self) -> Self {
        self.retries = false;
        self
    }

    /// Returns true if the server may execute this call twice with the same result: a read, a replacement, a
    /// deletion, a merge patch or a server-side apply. Creations, JSON patches and strategic merge patches
    /// are not idempotent.
    pub fn is_idempotent(&self) -> bool {
        match self.method {
            Method::PATCH => [PatchFormat::Merge, PatchFormat::Apply]
                .iter()
                .any(|format| format.content_type() == self.content_type),
            _ => self.method != Method::POST,
        }
    }

    fn attempt(&self) -> String {
        let mut text = format!("{} {}", self.verb, self.kind.resource());
        if let Some(subresource) = &self.subresource {
            text.push('/');
            text.push_str(subresource);
        }
        match (&self.namespace, &self.name) {
            (Some(namespace), Some(name)) => text.push_str(&format!(" {namespace}/{name}")),
            (None, Some(name)) => text.push_str(&format!(" {name}")),
            (Some(namespace), None) => text.push_str(&format!(" in namespace {namespace}")),
            (None, None) => {}
        }
        text
    }

    fn address(&self) -> Result<http::Uri, String> {
        let mut path = query::path(&self.kind.gvr(), self.namespace.as_deref());
        for segment in [&self.name, &self.subresource].into_iter().flatten() {
            path.push('/');
            path.push_str(&query::escaped(segment));
        }
        let mut query = Query::default();
        self.query.iter().for_each(|(name, value)| query.add(name, Some(value)));
        query::address(&path, &query.finish())
    }

    fn into_request(self) -> Result<Request<Bytes>, String> {
        let uri = self.address()?;
        let mut request = Request::new(self.body.0);
        (*request.method_mut(), *request.uri_mut()) = (self.method, uri);
        let headers = request.headers_mut();
        headers.insert(ACCEPT, HeaderValue::from_static(self.accept));
        if !request.body().is_empty() {
            request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(self.content_type));
        }
        Ok(request)
    }
}

impl Client {
    /// Sends a call and returns the response body: an object, a list or a `Status` as JSON.
    ///
    /// An idempotent call that the server rejects with 429 or 5xx and `Retry-After` is sent again after that
    /// delay, within the limits of [`CallRetries`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future cancels the request. The server may have performed a write nevertheless.
    ///
    /// # Errors
    ///
    /// Returns an error if the server rejects the call, or if no complete response arrives in time. Without a
    /// complete response, the server may have performed a write.
    pub async fn call(&self, call: Call) -> Result<Bytes, CallError> {
        let attempt = call.attempt();
        let retried = call.retries && call.is_idempotent();
        let request = match call.into_request() {
            Ok(request) => request,
            Err(problem) => return Err(CallError::invalid_request(attempt, problem)),
        };
        let mut retries = CallRetries::default();
        loop {
            let result = self.call_once(&attempt, request.clone()).await;
            let delay =
                result.as_ref().err().filter(|_| retried).and_then(|error| retries.delay_after(error));
            let Some(delay) = delay else { return result };
            tracing::debug!(attempt, ?delay, "the server rejected the call; sending it again");
            tokio::time::sleep(delay).await;
        }
    }

    async fn call_once(&self, attempt: &str, request: Request<Bytes>) -> Result<Bytes, CallError> {
        let attempt = || attempt.to_owned();
        let result = tokio::time::timeout(RESPONSE_TIMEOUT, self.request(request)).await;
        let response = match result {
            Err(_) => return Err(CallError::timed_out(attempt(), RESPONSE_TIMEOUT)),
            Ok(Err(error)) => return Err(CallError::no_response(attempt(), error)),
            Ok(Ok(response)) if response.status().is_success() => response,
            Ok(Ok(response)) => return Err(CallError::refused(attempt(), refusal(response, None).await)),
        };
        let (mut body, mut text) = (response.into_body(), Vec::new());
        loop {
            match tokio::time::timeout(BODY_IDLE_TIMEOUT, body.next_frame()).await {
                Err(_) => return Err(CallError::timed_out(attempt(), BODY_IDLE_TIMEOUT)),
                Ok(Err(error)) => {
                    let cause = error.into_source_error(&attempt());
                    let (kind, problem) = (cause.kind(), "the response was cut off");
                    return Err(CallError::incomplete(attempt(), problem, kind, cause));
                }
                Ok(Ok(None)) => return Ok(text.into()),
                Ok(Ok(Some(frame))) => text.extend_from_slice(&frame),
            }
            if text.len() > MAX_RESPONSE_BYTES {
                let cause = format!("it is over {MAX_RESPONSE_BYTES} bytes; list in pages");
                let (kind, problem) = (SourceErrorKind::Protocol, "the response is too large");
                return Err(CallError::incomplete(attempt(), problem, kind, cause));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;

    #[test]
    fn patch_has_the_content_type_of_its_format() {
        let (kind, key) = (ResourceKind::of::<ConfigMap>(), "default/settings".parse().unwrap());
        for format in [PatchFormat::Json, PatchFormat::Merge, PatchFormat::Strategic, PatchFormat::Apply] {
            assert_eq!(Call::patch(&kind, &key, format).content_type, format.content_type());
        }
        assert_ne!(PatchFormat::Merge.content_type(), PatchFormat::Json.content_type());
    }

    #[test]
    fn creations_and_patches_that_add_elements_are_not_idempotent() {
        let (kind, key) = (ResourceKind::of::<ConfigMap>(), "default/settings".parse().unwrap());
        let patch = |format| Call::patch(&kind, &key, format);
        for call in [
            Call::get(&kind, &key),
            Call::list(&kind, None),
            Call::replace(&kind, &key),
            Call::delete(&kind, &key),
            Call::delete_collection(&kind, Some("default")),
            patch(PatchFormat::Merge),
            patch(PatchFormat::Apply),
        ] {
            assert!(call.is_idempotent(), "{call:?}");
        }
        for call in [
            Call::create(&kind, Some("default")),
            Call::create_under(&kind, &key).subresource("eviction"),
            patch(PatchFormat::Json),
            patch(PatchFormat::Strategic),
        ] {
            assert!(!call.is_idempotent(), "{call:?}");
        }
    }
}

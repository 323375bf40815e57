//! Requests of a client for one object or one collection: reads and writes.

mod error;

use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderValue, Method, Request};
use informer_cache::source::SourceErrorKind;
use informer_core::ObjectKey;

pub use error::CallError;

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
    body: Body,
}

/// The body of a call's request. The `Debug` output of this type shows only the size, because a body may
/// contain secrets.
#[derive(Clone, Default)]
struct Body(Bytes);

impl std::fmt::Debug for Body {
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
            body: Body::default(),
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
        self.body = Body(body.into());
        self
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
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        if !request.body().is_empty() {
            request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(self.content_type));
        }
        Ok(request)
    }
}

impl Client {
    /// Sends a call and returns the response body: an object, a list or a `Status` as JSON.
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
        let request = match call.into_request() {
            Ok(request) => request,
            Err(problem) => return Err(CallError::invalid_request(attempt, problem)),
        };
        let result = tokio::time::timeout(RESPONSE_TIMEOUT, self.request(request)).await;
        let response = match result {
            Err(_) => return Err(CallError::timed_out(attempt, RESPONSE_TIMEOUT)),
            Ok(Err(error)) => return Err(CallError::no_response(attempt, error)),
            Ok(Ok(response)) if response.status().is_success() => response,
            Ok(Ok(response)) => return Err(CallError::refused(attempt, refusal(response, None).await)),
        };
        let (mut body, mut text) = (response.into_body(), Vec::new());
        loop {
            match tokio::time::timeout(BODY_IDLE_TIMEOUT, body.next_frame()).await {
                Err(_) => return Err(CallError::timed_out(attempt, BODY_IDLE_TIMEOUT)),
                Ok(Err(error)) => {
                    let cause = error.into_source_error(&attempt);
                    let (kind, problem) = (cause.kind(), "the response was cut off");
                    return Err(CallError::incomplete(attempt, problem, kind, cause));
                }
                Ok(Ok(None)) => return Ok(text.into()),
                Ok(Ok(Some(frame))) => text.extend_from_slice(&frame),
            }
            if text.len() > MAX_RESPONSE_BYTES {
                let cause = format!("it is over {MAX_RESPONSE_BYTES} bytes; list in pages");
                let (kind, problem) = (SourceErrorKind::Protocol, "the response is too large");
                return Err(CallError::incomplete(attempt, problem, kind, cause));
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
}

//! Discovery: the kinds that a server serves, and their names.
//!
//! Discovery takes two requests if the server supports aggregated discovery (Kubernetes 1.26 and later), and
//! one request per group version otherwise.

mod documents;
mod groups;
mod mapper;

use std::time::Duration;

use bytes::Bytes;
use documents::{ApiGroupList, ApiResourceList, ApiVersions, GroupDiscoveryList};
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderValue, Request, StatusCode};
use informer_cache::source::{SourceError, SourceErrorKind};
use informer_core::Gvr;
use serde::de::DeserializeOwned;

use crate::list_watch::query::escaped;
use crate::list_watch::response::{protocol, refusal};
use crate::{Client, ResourceKind, ResourceScope};
pub use groups::{DiscoveredGroup, DiscoveredVersion, Discovery};
pub use mapper::{MAX_MAPPER_AGE, MIN_MAPPER_REFRESH, RestMapper};

/// Maximum size of a discovery document. A server with thousands of custom resources sends some MB.
const MAX_DOCUMENT_BYTES: usize = 64 << 20;

const DOCUMENT_TIMEOUT: Duration = Duration::from_secs(32);

const ACCEPT_AGGREGATED: &str =
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";

/// A kind that a server serves, as described by discovery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiscoveredKind {
    /// The discovered kind, with its scope.
    pub kind: ResourceKind,
    /// True if the objects of the kind have a namespace.
    pub namespaced: bool,
    /// The verbs that the collection of the kind supports, such as `list` and `watch`.
    pub verbs: Vec<String>,
    /// The singular name of the kind, such as `pod`.
    pub singular: String,
    /// The short names of the kind, such as `po`.
    pub short_names: Vec<String>,
}

impl From<DiscoveredKind> for ResourceKind {
    fn from(discovered: DiscoveredKind) -> Self {
        if discovered.namespaced { discovered.kind.namespaced() } else { discovered.kind.cluster_scoped() }
    }
}

impl DiscoveredKind {
    /// Returns true if the collection of the kind supports `list` and `watch`.
    pub fn is_watchable(&self) -> bool {
        ["list", "watch"].iter().all(|verb| self.verbs.iter().any(|known| known == verb))
    }

    fn matches(&self, query: &NameQuery<'_>) -> bool {
        let name = query.name;
        let names = [self.kind.plural(), self.kind.kind(), &self.singular];
        let short = self.short_names.iter().map(String::as_str);
        let named = names.into_iter().chain(short).any(|own| own.eq_ignore_ascii_case(name));
        let gvk = self.kind.gvk();
        named
            && query
                .qualifier
                .is_none_or(|qualifier| gvk.group == qualifier || version_and_group(gvk) == qualifier)
    }
}

/// Returns the qualifier of a kind in `kubectl` syntax: `v1.apps`, or `v1` in the core group.
fn version_and_group(gvk: &informer_core::Gvk) -> String {
    match gvk.group.as_str() {
        "" => gvk.version.clone(),
        group => format!("{}.{group}", gvk.version),
    }
}

/// A resource name as typed by a user, such as `deployments.v1.apps`, with an optional version and group.
struct NameQuery<'a> {
    name: &'a str,
    /// The qualifier after the resource name: `GROUP`, or `VERSION.GROUP`.
    qualifier: Option<&'a str>,
}

impl<'a> NameQuery<'a> {
    fn of(name: &'a str) -> Self {
        match name.split_once('.') {
            Some((name, qualifier)) => Self { name, qualifier: Some(qualifier) },
            None => Self { name, qualifier: None },
        }
    }
}

/// Returns the error for a kind that the server does not have.
fn no_such_kind(name: &str) -> SourceError {
    let text = format!(
        "find the kind {name:?}: the server has no such kind; check the spelling and that its \
         CustomResourceDefinition is established"
    );
    SourceError::new(SourceErrorKind::NotFound, text)
}

impl Client {
    /// Resolves the name of a kind as `kubectl` does: kind, plural, singular or short name, in upper or lower
    /// case. The name can be qualified by the group, or by version and group (`Deployment`, `deploy`,
    /// `deployments.apps`, `deployments.v1.apps`).
    ///
    /// The core group has precedence, then the other groups in the order in which the server lists them.
    /// Within a group, the preferred version has precedence.
    ///
    /// # Errors
    ///
    /// Returns an error of kind [`NotFound`](SourceErrorKind::NotFound) if the server has no such kind. Other
    /// errors are those of a list request. Requests are not retried.
    pub async fn resolve(&self, name: &str) -> Result<DiscoveredKind, SourceError> {
        let query = NameQuery::of(name);
        let found = match self.aggregated(&query).await? {
            Aggregated::Supported(found) => found,
            Aggregated::Unsupported => self.legacy(&query).await?,
        };
        found.ok_or_else(|| no_such_kind(name))
    }

    /// Looks up in discovery whether a collection is namespaced. Returns `None` if the server has no such
    /// collection.
    pub(crate) async fn scope_of(&self, gvr: &Gvr) -> Result<Option<ResourceScope>, SourceError> {
        let (group, version) = (escaped(&gvr.group), escaped(&gvr.version));
        let path = match group.as_str() {
            "" => format!("/api/{version}"),
            group => format!("/apis/{group}/{version}"),
        };
        let list: ApiResourceList = self.json(&path).await?;
        let mut kinds = list.kinds(&gvr.group, &gvr.version);
        Ok(kinds.find(|found| found.kind.plural() == gvr.resource).and_then(|found| found.kind.scope()))
    }

    async fn aggregated(&self, query: &NameQuery<'_>) -> Result<Aggregated, SourceError> {
        for path in ["/api", "/apis"] {
            let (content_type, text) = self.document(path, ACCEPT_AGGREGATED).await?;
            if !content_type.contains("g=apidiscovery.k8s.io") {
                return Ok(Aggregated::Unsupported);
            }
            let groups: GroupDiscoveryList = parse(path, &text)?;
            if let Some(found) = groups.kinds().find(|kind| kind.matches(query)) {
                return Ok(Aggregated::Supported(Some(found)));
            }
        }
        Ok(Aggregated::Supported(None))
    }

    async fn legacy(&self, query: &NameQuery<'_>) -> Result<Option<DiscoveredKind>, SourceError> {
        let core: ApiVersions = self.json("/api").await?;
        for version in core.versions {
            let found = self.in_version(&format!("/api/{version}"), "", &version, query).await?;
            if found.is_some() {
                return Ok(found);
            }
        }
        let groups: ApiGroupList = self.json("/apis").await?;
        let mut failure = None;
        for group in groups.groups {
            let in_group =
                |qualifier: &str| qualifier == group.name || qualifier.ends_with(&format!(".{}", group.name));
            if !query.qualifier.is_none_or(in_group) {
                continue;
            }
            for version in group.versions() {
                let path = format!("/apis/{}/{version}", group.name);
                match self.in_version(&path, &group.name, version, query).await {
                    Ok(None) => {}
                    Ok(found) => return Ok(found),
                    // An unavailable extension API server must not hide the kinds of other groups, so the
                    // error is returned only if no kind is found.
                    Err(error) => failure = Some(error),
                }
            }
        }
        failure.map_or(Ok(None), Err)
    }

    async fn in_version(
        &self,
        path: &str,
        group: &str,
        version: &str,
        query: &NameQuery<'_>,
    ) -> Result<Option<DiscoveredKind>, SourceError> {
        let list: ApiResourceList = self.json(path).await?;
        Ok(list.kinds(group, version).find(|kind| kind.matches(query)))
    }

    async fn json<T: DeserializeOwned>(&self, path: &str) -> Result<T, SourceError> {
        let (_, text) = self.document(path, "application/json").await?;
        parse(path, &text)
    }

    /// Requests one discovery document. Returns its content type and its body.
    async fn document(&self, path: &str, accept: &'static str) -> Result<(String, Vec<u8>), SourceError> {
        let reading = tokio::time::timeout(DOCUMENT_TIMEOUT, self.read_document(path, accept));
        reading.await.unwrap_or_else(|_| {
            let text = format!("{}: no response within {DOCUMENT_TIMEOUT:?}", attempt(path));
            Err(SourceError::new(SourceErrorKind::Timeout, text))
        })
    }

    async fn read_document(
        &self,
        path: &str,
        accept: &'static str,
    ) -> Result<(String, Vec<u8>), SourceError> {
        let mut request = Request::new(Bytes::new());
        *request.uri_mut() = path.parse().map_err(|error| protocol(&attempt(path), error))?;
        request.headers_mut().insert(ACCEPT, HeaderValue::from_static(accept));
        let response = self.request(request).await.map_err(|error| {
            SourceError::new(error.kind(), format!("{}: {error}", attempt(path))).with_cause(error)
        })?;
        if response.status() != StatusCode::OK {
            return Err(refusal(response, None).await.into_error(&attempt(path)));
        }
        let content_type = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let content_type = content_type.unwrap_or_default().to_owned();
        let mut text = Vec::new();
        let mut body = response.into_body();
        while let Some(frame) =
            body.next_frame().await.map_err(|error| error.into_source_error(&attempt(path)))?
        {
            text.extend_from_slice(&frame);
            if text.len() > MAX_DOCUMENT_BYTES {
                let text = format!("{}: the response is over {MAX_DOCUMENT_BYTES} bytes", attempt(path));
                return Err(SourceError::new(SourceErrorKind::Protocol, text));
            }
        }
        Ok((content_type, text))
    }
}

enum Aggregated {
    Supported(Option<DiscoveredKind>),
    Unsupported,
}

fn attempt(path: &str) -> String {
    format!("discover kinds at {path}")
}

fn parse<T: DeserializeOwned>(path: &str, text: &[u8]) -> Result<T, SourceError> {
    serde_json::from_slice(text).map_err(|error| protocol(&attempt(path), error))
}

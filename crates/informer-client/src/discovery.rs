//! Which kinds a server has, and what users call them.
//!
//! One request where the server aggregates its discovery (since Kubernetes 1.26), one for each group version otherwise.

mod documents;

use std::time::Duration;

use bytes::Bytes;
use documents::{ApiGroupList, ApiResourceList, ApiVersions, GroupDiscoveryList};
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderValue, Request, StatusCode};
use informer_cache::source::{SourceError, SourceErrorKind};
use informer_core::Gvr;
use serde::de::DeserializeOwned;

use crate::list_watch::query::escaped;
use crate::list_watch::reply::{protocol, refusal};
use crate::{Client, ResourceKind, ResourceScope};

/// The largest document of discovery that is read: a server with thousands of custom resources sends some MB.
const MAX_DOCUMENT_BYTES: usize = 64 << 20;

/// How long one document may take.
const DOCUMENT_TIMEOUT: Duration = Duration::from_secs(32);

const ACCEPT_AGGREGATED: &str =
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";

/// A collection that a server has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiscoveredKind {
    /// The kind.
    pub kind: ResourceKind,
    /// True if objects live in namespaces.
    pub namespaced: bool,
    /// What can be done with it, as `list` and `watch`.
    pub verbs: Vec<String>,
    /// The name of one object in words, as `pod`.
    pub singular: String,
    /// Abbreviations, as `po`.
    pub short_names: Vec<String>,
}

impl From<DiscoveredKind> for ResourceKind {
    /// Returns the kind with the discovered scope.
    fn from(discovered: DiscoveredKind) -> Self {
        match discovered.namespaced {
            true => discovered.kind.namespaced(),
            false => discovered.kind.cluster_scoped(),
        }
    }
}

impl DiscoveredKind {
    /// Returns true if the collection can be listed and watched.
    pub fn is_watchable(&self) -> bool {
        ["list", "watch"].iter().all(|verb| self.verbs.iter().any(|known| known == verb))
    }

    fn is_called(&self, wanted: &Wanted<'_>) -> bool {
        let name = wanted.name;
        let names = [self.kind.plural(), self.kind.kind(), &self.singular];
        let short = self.short_names.iter().map(String::as_str);
        let named = names.into_iter().chain(short).any(|own| own.eq_ignore_ascii_case(name));
        let gvk = self.kind.gvk();
        named && wanted.place.is_none_or(|place| gvk.group == place || gvk_place(gvk) == place)
    }
}

/// Version and group as they follow a name: `v1.apps`, or `v1` in the core group.
fn gvk_place(gvk: &informer_core::Gvk) -> String {
    match gvk.group.as_str() {
        "" => gvk.version.clone(),
        group => format!("{}.{group}", gvk.version),
    }
}

/// What a user wrote.
struct Wanted<'a> {
    name: &'a str,
    /// Group, or version and group.
    place: Option<&'a str>,
}

impl Client {
    /// Finds the kind that users call `name`: a kind, plural, singular or short name in any case, alone or
    /// followed by its group, or by version and group (`Deployment`, `deploy`, `deployments.apps`,
    /// `deployments.v1.apps`).
    ///
    /// The core group comes first, then the groups in the order of the server; within a group its preferred version.
    ///
    /// # Errors
    ///
    /// Of kind [`NotFound`](SourceErrorKind::NotFound) when the server has no such kind; otherwise as a list. Nothing
    /// is retried.
    pub async fn resolve(&self, name: &str) -> Result<DiscoveredKind, SourceError> {
        let wanted = match name.split_once('.') {
            Some((name, place)) => Wanted { name, place: Some(place) },
            None => Wanted { name, place: None },
        };
        let found = match self.aggregated(&wanted).await? {
            Aggregated::Answered(found) => found,
            Aggregated::Unknown => self.legacy(&wanted).await?,
        };
        found.ok_or_else(|| {
            let text = format!(
                "find the kind {name:?}: the server has none of that name; check the spelling and that its \
                 CustomResourceDefinition is established"
            );
            SourceError::new(SourceErrorKind::NotFound, text)
        })
    }

    /// Looks a scope up in discovery; `None` if the server has no such collection.
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

    async fn aggregated(&self, wanted: &Wanted<'_>) -> Result<Aggregated, SourceError> {
        for path in ["/api", "/apis"] {
            let (content_type, text) = self.document(path, ACCEPT_AGGREGATED).await?;
            if !content_type.contains("g=apidiscovery.k8s.io") {
                return Ok(Aggregated::Unknown);
            }
            let groups: GroupDiscoveryList = parse(path, &text)?;
            if let Some(found) = groups.kinds().find(|kind| kind.is_called(wanted)) {
                return Ok(Aggregated::Answered(Some(found)));
            }
        }
        Ok(Aggregated::Answered(None))
    }

    async fn legacy(&self, wanted: &Wanted<'_>) -> Result<Option<DiscoveredKind>, SourceError> {
        let core: ApiVersions = self.json("/api").await?;
        for version in core.versions {
            let found = self.in_version(&format!("/api/{version}"), "", &version, wanted).await?;
            if found.is_some() {
                return Ok(found);
            }
        }
        let groups: ApiGroupList = self.json("/apis").await?;
        let mut failure = None;
        for group in groups.groups {
            let in_group = |place: &str| place == group.name || place.ends_with(&format!(".{}", group.name));
            if !wanted.place.is_none_or(in_group) {
                continue;
            }
            for version in group.versions() {
                let path = format!("/apis/{}/{version}", group.name);
                match self.in_version(&path, &group.name, version, wanted).await {
                    Ok(None) => {}
                    Ok(found) => return Ok(found),
                    // One extension server that is down does not hide the kinds of the others.
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
        wanted: &Wanted<'_>,
    ) -> Result<Option<DiscoveredKind>, SourceError> {
        let list: ApiResourceList = self.json(path).await?;
        Ok(list.kinds(group, version).find(|kind| kind.is_called(wanted)))
    }

    async fn json<T: DeserializeOwned>(&self, path: &str) -> Result<T, SourceError> {
        let (_, text) = self.document(path, "application/json").await?;
        parse(path, &text)
    }

    /// Returns the type and the text of one document.
    async fn document(&self, path: &str, accept: &'static str) -> Result<(String, Vec<u8>), SourceError> {
        let reading = tokio::time::timeout(DOCUMENT_TIMEOUT, self.read_document(path, accept));
        reading.await.unwrap_or_else(|_| {
            let text = format!("{}: no answer within {DOCUMENT_TIMEOUT:?}", attempt(path));
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
                let text = format!("{}: the answer is over {MAX_DOCUMENT_BYTES} bytes", attempt(path));
                return Err(SourceError::new(SourceErrorKind::Protocol, text));
            }
        }
        Ok((content_type, text))
    }
}

enum Aggregated {
    /// The server answers in one document.
    Answered(Option<DiscoveredKind>),
    /// The server does not know that form.
    Unknown,
}

fn attempt(path: &str) -> String {
    format!("discover kinds at {path}")
}

fn parse<T: DeserializeOwned>(path: &str, text: &[u8]) -> Result<T, SourceError> {
    serde_json::from_slice(text).map_err(|error| protocol(&attempt(path), error))
}

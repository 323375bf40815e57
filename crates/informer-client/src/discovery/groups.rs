//! All groups, versions and kinds that a server serves.

use std::collections::HashSet;

use informer_cache::source::SourceError;
use informer_core::{Gvk, Gvr};

use super::documents::{ApiGroupList, ApiResourceList, ApiVersions, GroupDiscoveryList};
use super::{ACCEPT_AGGREGATED, DiscoveredKind, NameQuery, parse};
use crate::Client;

/// The groups, versions and kinds that a server serves, as discovery reported them at one time.
///
/// Upstream: `ServerGroupsAndResources` and `ServerPreferredResources` of
/// [`DiscoveryInterface`](https://pkg.go.dev/k8s.io/client-go/discovery#DiscoveryInterface).
#[derive(Debug, Default)]
pub struct Discovery {
    groups: Vec<DiscoveredGroup>,
    unavailable: Vec<(String, Option<SourceError>)>,
}

/// An API group that a server serves.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DiscoveredGroup {
    /// The name of the group, such as `apps`; empty for the core group.
    pub name: String,
    /// The versions of the group. The first is the preferred one; the others are in the order of the server.
    pub versions: Vec<DiscoveredVersion>,
}

/// A version of an API group that a server serves.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DiscoveredVersion {
    /// The name of the version, such as `v1`.
    pub version: String,
    /// The kinds of this version. Subresources are not included.
    pub kinds: Vec<DiscoveredKind>,
    /// True if the server cannot reach the API server of this version, and reports the kinds of an earlier
    /// time.
    pub is_stale: bool,
}

impl Discovery {
    /// Returns the groups in the order of the server; the core group is the first.
    pub fn groups(&self) -> &[DiscoveredGroup] {
        &self.groups
    }

    /// Returns a group by its name, such as `apps`; the core group has an empty name.
    pub fn group(&self, name: &str) -> Option<&DiscoveredGroup> {
        self.groups.iter().find(|group| group.name == name)
    }

    /// Returns the group versions whose kinds are missing or stale, such as `metrics.k8s.io/v1beta1`, because
    /// their API server is unavailable. Each has the error of its request, or `None` if the server itself
    /// reported the kinds as stale.
    pub fn unavailable(&self) -> impl Iterator<Item = (&str, Option<&SourceError>)> {
        self.unavailable.iter().map(|(version, error)| (version.as_str(), error.as_ref()))
    }

    /// Returns the kinds of all versions. Within a group, the preferred version is the first.
    pub fn kinds(&self) -> impl Iterator<Item = &DiscoveredKind> {
        self.groups.iter().flat_map(|group| &group.versions).flat_map(|version| &version.kinds)
    }

    /// Returns each resource once: in the preferred version of its group, or else in the first version that
    /// has it.
    pub fn preferred_kinds(&self) -> Vec<&DiscoveredKind> {
        let mut known = HashSet::new();
        self.kinds().filter(|kind| known.insert((&kind.kind.gvk().group, kind.kind.plural()))).collect()
    }

    /// Returns the kind with this group, version and kind.
    pub fn kind(&self, gvk: &Gvk) -> Option<&DiscoveredKind> {
        self.kinds().find(|kind| kind.kind.gvk() == gvk)
    }

    /// Returns the kind with this group, version and plural resource name.
    pub fn resource(&self, gvr: &Gvr) -> Option<&DiscoveredKind> {
        self.kinds().find(|kind| kind.kind.gvr() == *gvr)
    }

    /// Resolves the name of a kind like [`Client::resolve`], without a request.
    pub fn resolve(&self, name: &str) -> Option<&DiscoveredKind> {
        let query = NameQuery::of(name);
        self.kinds().find(|kind| kind.matches(&query))
    }

    fn add(&mut self, group: DiscoveredGroup) {
        let stale = group.versions.iter().filter(|version| version.is_stale);
        self.unavailable.extend(stale.map(|version| (group_version(&group.name, &version.version), None)));
        self.groups.push(group);
    }
}

impl DiscoveredGroup {
    /// Returns the preferred version of the group; `None` if the server reports no version.
    pub fn preferred(&self) -> Option<&DiscoveredVersion> {
        self.versions.first()
    }

    /// Returns a version of the group by its name, such as `v1`.
    pub fn version(&self, name: &str) -> Option<&DiscoveredVersion> {
        self.versions.iter().find(|version| version.version == name)
    }
}

impl Client {
    /// Discovers all groups, versions and kinds of the server. This takes two requests if the server supports
    /// aggregated discovery (Kubernetes 1.26 and later), and one request per group version otherwise.
    ///
    /// An unavailable extension API server does not fail the discovery; see [`Discovery::unavailable`].
    ///
    /// # Errors
    ///
    /// Returns an error if the list of groups cannot be read. Requests are not retried.
    pub async fn discover(&self) -> Result<Discovery, SourceError> {
        let mut discovery = Discovery::default();
        for path in ["/api", "/apis"] {
            let (content_type, text) = self.document(path, ACCEPT_AGGREGATED).await?;
            if !content_type.contains("g=apidiscovery.k8s.io") {
                return self.discover_legacy().await;
            }
            let groups: GroupDiscoveryList = parse(path, &text)?;
            groups.groups().for_each(|group| discovery.add(group));
        }
        Ok(discovery)
    }

    async fn discover_legacy(&self) -> Result<Discovery, SourceError> {
        let mut discovery = Discovery::default();
        let core: ApiVersions = self.json("/api").await?;
        let groups: ApiGroupList = self.json("/apis").await?;
        let named = groups.groups.iter().map(|group| (group.name.as_str(), group.versions().collect()));
        let core: (&str, Vec<&str>) = ("", core.versions.iter().map(String::as_str).collect());
        for (name, versions) in std::iter::once(core).chain(named) {
            let mut group = DiscoveredGroup { name: name.to_owned(), versions: Vec::new() };
            for version in versions {
                let gv = group_version(name, version);
                let path = if name.is_empty() { format!("/api/{gv}") } else { format!("/apis/{gv}") };
                match self.json::<ApiResourceList>(&path).await {
                    Ok(list) => group.versions.push(DiscoveredVersion {
                        version: version.to_owned(),
                        kinds: list.kinds(name, version).collect(),
                        is_stale: false,
                    }),
                    Err(error) => discovery.unavailable.push((gv, Some(error))),
                }
            }
            discovery.add(group);
        }
        Ok(discovery)
    }
}

/// Returns the name of a group version, such as `apps/v1`, or `v1` in the core group.
fn group_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

//! The JSON documents of discovery. Only the fields that the client uses are declared.

use serde::Deserialize;

use super::{DiscoveredGroup, DiscoveredKind, DiscoveredVersion};
use crate::ResourceKind;

#[derive(Deserialize)]
pub(super) struct GroupDiscoveryList {
    #[serde(default)]
    items: Vec<GroupDiscovery>,
}

#[derive(Deserialize)]
struct GroupDiscovery {
    #[serde(default)]
    metadata: Name,
    #[serde(default)]
    versions: Vec<VersionDiscovery>,
}

#[derive(Default, Deserialize)]
struct Name {
    #[serde(default)]
    name: String,
}

#[derive(Deserialize)]
struct VersionDiscovery {
    version: String,
    #[serde(default)]
    resources: Vec<ResourceDiscovery>,
    #[serde(default)]
    freshness: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ResourceDiscovery {
    resource: String,
    response_kind: Option<KindName>,
    #[serde(default)]
    scope: String,
    #[serde(default)]
    singular_resource: String,
    #[serde(default)]
    verbs: Vec<String>,
    #[serde(default)]
    short_names: Vec<String>,
}

#[derive(Deserialize)]
struct KindName {
    kind: String,
}

impl GroupDiscoveryList {
    /// Returns all kinds of the document, in the order in which the server lists them.
    pub(super) fn kinds(self) -> impl Iterator<Item = DiscoveredKind> {
        self.items.into_iter().flat_map(|group| {
            let name = group.metadata.name;
            group.versions.into_iter().flat_map(move |version| {
                let (group, name) = (name.clone(), version.version);
                version.resources.into_iter().filter_map(move |resource| resource.kind(&group, &name))
            })
        })
    }
}

impl GroupDiscoveryList {
    /// Returns the groups of the document, in the order in which the server lists them.
    pub(super) fn groups(self) -> impl Iterator<Item = DiscoveredGroup> {
        self.items.into_iter().map(|group| {
            let name = group.metadata.name;
            let versions = group.versions.into_iter().map(|version| DiscoveredVersion {
                is_stale: version.freshness == "Stale",
                kinds: {
                    let resources = version.resources.into_iter();
                    resources.filter_map(|resource| resource.kind(&name, &version.version)).collect()
                },
                version: version.version,
            });
            DiscoveredGroup { versions: versions.collect(), name }
        })
    }
}

impl ResourceDiscovery {
    fn kind(self, group: &str, version: &str) -> Option<DiscoveredKind> {
        let kind = self.response_kind?.kind;
        let namespaced = self.scope == "Namespaced";
        Some(DiscoveredKind {
            kind: scoped(ResourceKind::new(group, version, &kind, &self.resource), namespaced),
            namespaced,
            verbs: self.verbs,
            singular: self.singular_resource,
            short_names: self.short_names,
        })
    }
}

fn scoped(kind: ResourceKind, namespaced: bool) -> ResourceKind {
    if namespaced { kind.namespaced() } else { kind.cluster_scoped() }
}

#[derive(Deserialize)]
pub(super) struct ApiVersions {
    #[serde(default)]
    pub(super) versions: Vec<String>,
}

#[derive(Deserialize)]
pub(super) struct ApiGroupList {
    #[serde(default)]
    pub(super) groups: Vec<GroupVersions>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct GroupVersions {
    pub(super) name: String,
    #[serde(default)]
    versions: Vec<VersionName>,
    preferred_version: Option<VersionName>,
}

#[derive(Deserialize)]
struct VersionName {
    version: String,
}

impl GroupVersions {
    /// Returns the versions of the group, the preferred version first.
    pub(super) fn versions(&self) -> impl Iterator<Item = &str> {
        let preferred = self.preferred_version.as_ref().map(|version| version.version.as_str());
        let others = self.versions.iter().map(|version| version.version.as_str());
        preferred.into_iter().chain(others.filter(move |version| Some(*version) != preferred))
    }
}

#[derive(Deserialize)]
pub(super) struct ApiResourceList {
    #[serde(default)]
    resources: Vec<ApiResourceText>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ApiResourceText {
    name: String,
    kind: String,
    #[serde(default)]
    namespaced: bool,
    #[serde(default)]
    singular_name: String,
    #[serde(default)]
    verbs: Vec<String>,
    #[serde(default)]
    short_names: Vec<String>,
}

impl ApiResourceList {
    /// Returns the kinds of one group version. Subresources such as `pods/status` are omitted.
    pub(super) fn kinds(self, group: &str, version: &str) -> impl Iterator<Item = DiscoveredKind> {
        let resources = self.resources.into_iter().filter(|resource| !resource.name.contains('/'));
        resources.map(move |resource| DiscoveredKind {
            kind: scoped(
                ResourceKind::new(group, version, &resource.kind, &resource.name),
                resource.namespaced,
            ),
            namespaced: resource.namespaced,
            verbs: resource.verbs,
            singular: resource.singular_name,
            short_names: resource.short_names,
        })
    }
}

//! Kinds, as caches and clients use them.

use std::fmt;

use informer_client::{DiscoveredKind, ResourceKind};
use informer_core::{Gvk, ObjectKey};
use kube_core::{ApiResource, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A type whose kind is known at compile time: every type of `k8s-openapi` and every `kube::CustomResource`.
///
/// Implemented for all of them.
pub trait KubeKind: Resource<DynamicType = (), Scope: 'static> + Send + Sync + 'static {}

impl<K: Resource<DynamicType = (), Scope: 'static> + Send + Sync + 'static> KubeKind for K {}

/// A [`KubeKind`] that can be read and written.
pub trait KubeObject: KubeKind + Clone + Serialize + DeserializeOwned {}

impl<K: KubeKind + Clone + Serialize + DeserializeOwned> KubeObject for K {}

/// A kind, and whether its objects live in namespaces.
///
/// ```
/// use informer_runtime::ScopedKind;
/// use k8s_openapi::api::core::v1::Node;
///
/// assert!(ScopedKind::of::<Node>().is_cluster_scoped());
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ScopedKind {
    kind: ResourceKind,
    cluster_scoped: bool,
}

impl ScopedKind {
    /// The kind of a type.
    pub fn of<K: KubeKind>() -> Self {
        Self::from(ResourceKind::of::<K>())
    }

    /// The same kind, its objects without a namespace.
    pub fn cluster_scoped(self) -> Self {
        Self { kind: self.kind.cluster_scoped(), cluster_scoped: true }
    }

    /// True where objects have no namespace.
    pub fn is_cluster_scoped(&self) -> bool {
        self.cluster_scoped
    }

    /// The kind and its collection.
    pub fn kind(&self) -> &ResourceKind {
        &self.kind
    }

    /// Group, version and kind.
    pub fn gvk(&self) -> &Gvk {
        self.kind.gvk()
    }

    /// The key as the objects of this kind have it: a namespace that the kind does not know is dropped.
    pub(crate) fn key<'a>(&self, key: &'a str) -> &'a str {
        match self.cluster_scoped {
            true => key.rsplit_once('/').map_or(key, |(_, name)| name),
            false => key,
        }
    }

    /// The key of a namespace and a name, of which the namespace counts where the kind has one.
    pub(crate) fn key_of(&self, namespace: Option<&str>, name: &str) -> Option<ObjectKey> {
        let namespace = namespace.filter(|_| !self.cluster_scoped).unwrap_or_default();
        ObjectKey::new(namespace, name).ok()
    }
}

impl From<ResourceKind> for ScopedKind {
    /// Uses the scope of the kind. A kind of unknown scope counts as namespaced; call
    /// [`cluster_scoped`](Self::cluster_scoped) if it is not.
    fn from(kind: ResourceKind) -> Self {
        Self { cluster_scoped: kind.is_cluster_scoped(), kind }
    }
}

impl From<&ResourceKind> for ScopedKind {
    /// As from the kind itself.
    fn from(kind: &ResourceKind) -> Self {
        Self::from(kind.clone())
    }
}

impl From<ApiResource> for ScopedKind {
    /// As from [`ResourceKind`]: kube's type does not have the scope.
    fn from(resource: ApiResource) -> Self {
        Self::from(ResourceKind::from(resource))
    }
}

impl From<DiscoveredKind> for ScopedKind {
    fn from(discovered: DiscoveredKind) -> Self {
        let kind = Self::from(discovered.kind);
        if discovered.namespaced { kind } else { kind.cluster_scoped() }
    }
}

impl From<&ScopedKind> for ScopedKind {
    fn from(kind: &ScopedKind) -> Self {
        kind.clone()
    }
}

impl fmt::Display for ScopedKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.kind, f)
    }
}

//! The trait [`KubeObject`] for the types of objects that caches and clients use, and the keys of such
//! objects.

use informer_client::{ResourceKind, StaticKind, StaticResource};
use informer_core::ObjectKey;
use kube_core::Resource;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A type of objects that can be read and written, such as every type of `k8s-openapi` and every
/// `kube::CustomResource`.
///
/// The trait is implemented for every type that meets its bounds.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be read and written as a Kubernetes object",
    label = "not a Kubernetes kind, or a required trait is missing",
    note = "for a custom resource, use the kind `Website` that is derived from `WebsiteSpec`: \
            `#[derive(CustomResource, Clone, Debug, Serialize, Deserialize)]` \
            `#[kube(group = \"example.com\", version = \"v1\", kind = \"Website\", namespaced)]`",
    note = "a kind implements `Resource<DynamicType = ()>`, `Clone`, `Serialize`, `DeserializeOwned`, `Send` \
            and `Sync`; a generic function needs the bound `K: KubeObject`"
)]
pub trait KubeObject:
    StaticKind
    + StaticResource
    + Resource<Scope: 'static>
    + Clone
    + Serialize
    + DeserializeOwned
    + Send
    + Sync
    + 'static
{
}

impl<K> KubeObject for K where
    K: StaticResource
        + Resource<Scope: 'static>
        + Clone
        + Serialize
        + DeserializeOwned
        + Send
        + Sync
        + 'static
{
}

/// Removes the namespace from a key of a cluster-scoped kind, because the objects of such a kind have none.
pub(crate) fn scoped_key<'a>(kind: &ResourceKind, key: &'a str) -> &'a str {
    if kind.is_cluster_scoped() { key.rsplit_once('/').map_or(key, |(_, name)| name) } else { key }
}

/// Returns the key of the object with this name and namespace. The namespace is ignored for a cluster-scoped
/// kind.
///
/// The result is `None` if the name or the namespace is invalid.
pub(crate) fn object_key(kind: &ResourceKind, namespace: Option<&str>, name: &str) -> Option<ObjectKey> {
    let namespace = namespace.filter(|_| !kind.is_cluster_scoped()).unwrap_or_default();
    ObjectKey::new(namespace, name).ok()
}

/// Returns the name of a kind with its group: `Kind` in the core group, `Kind.group` in other groups.
pub(crate) fn group_kind(kind: &ResourceKind) -> String {
    let gvk = kind.gvk();
    match gvk.group.as_str() {
        "" => gvk.kind.clone(),
        group => format!("{}.{group}", gvk.kind),
    }
}

use std::fmt;

use informer_core::{Gvk, Gvr};
use kube_core::{ApiResource, Resource};

/// A kind of objects and its collection in URLs.
///
/// ```
/// use informer_client::ResourceKind;
///
/// let websites = ResourceKind::new("example.com", "v1", "Website", "websites");
/// assert_eq!(websites.gvr().path(Some("default")), "/apis/example.com/v1/namespaces/default/websites");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ResourceKind {
    gvk: Gvk,
    plural: String,
}

impl ResourceKind {
    /// A kind from its parts; the core group is the empty string.
    pub fn new(group: &str, version: &str, kind: &str, plural: &str) -> Self {
        Self { gvk: Gvk::new(group, version, kind), plural: plural.to_owned() }
    }

    /// The kind of a type of `k8s-openapi`, or one that derives `kube::CustomResource`.
    pub fn of<K: Resource<DynamicType = ()>>() -> Self {
        Self::new(&K::group(&()), &K::version(&()), &K::kind(&()), &K::plural(&()))
    }

    /// Group, version and kind.
    pub fn gvk(&self) -> &Gvk {
        &self.gvk
    }

    /// Group, version and resource.
    pub fn gvr(&self) -> Gvr {
        Gvr::new(&self.gvk.group, &self.gvk.version, &self.plural)
    }

    /// The kind, as `Pod`.
    pub fn kind(&self) -> &str {
        &self.gvk.kind
    }

    /// The name of the collection, as `pods`.
    pub fn plural(&self) -> &str {
        &self.plural
    }

    /// The collection with its group, as `deployments.apps`: what an error names.
    pub fn resource(&self) -> String {
        match self.gvk.group.as_str() {
            "" => self.plural.clone(),
            group => format!("{}.{group}", self.plural),
        }
    }
}

impl From<&ApiResource> for ResourceKind {
    fn from(resource: &ApiResource) -> Self {
        Self::new(&resource.group, &resource.version, &resource.kind, &resource.plural)
    }
}

impl From<ApiResource> for ResourceKind {
    fn from(resource: ApiResource) -> Self {
        Self::from(&resource)
    }
}

impl From<&ResourceKind> for ApiResource {
    fn from(kind: &ResourceKind) -> Self {
        let gvk = kube_core::GroupVersionKind::gvk(&kind.gvk.group, &kind.gvk.version, &kind.gvk.kind);
        Self::from_gvk_with_plural(&gvk, &kind.plural)
    }
}

impl fmt::Display for ResourceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.gvk, f)
    }
}

/// A representation whose kind is known from its type.
///
/// Implemented for [`Lazy`](crate::Lazy), [`Typed`](crate::Typed) and [`Metadata`](crate::Metadata) of every type of
/// `k8s-openapi` and every `kube::CustomResource`.
pub trait StaticKind {
    /// The kind.
    fn resource_kind() -> ResourceKind;
}

mod builtin;

use std::any::TypeId;
use std::fmt;
use std::hash::{Hash, Hasher};

use informer_core::{Gvk, Gvr};
use kube_core::{ApiResource, ClusterResourceScope, Resource};

/// A Kubernetes kind, and the plural name of its collection in URLs.
///
/// Two kinds are equal if their group, version, kind and plural are equal. The scope is not compared.
///
/// ```
/// use informer_client::ResourceKind;
///
/// let websites = ResourceKind::new("example.com", "v1", "Website", "websites");
/// assert_eq!(websites.gvr().path(Some("default")), "/apis/example.com/v1/namespaces/default/websites");
/// ```
#[derive(Debug, Clone)]
pub struct ResourceKind {
    gvk: Gvk,
    plural: String,
    scope: Option<ResourceScope>,
}

/// The scope of a kind: namespaced or cluster-scoped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ResourceScope {
    /// Each object of the kind has a namespace.
    Namespaced,
    /// The objects of the kind have no namespace, such as Nodes.
    Cluster,
}

impl ResourceKind {
    /// Creates a kind from its parts; the core group is the empty string. The scope is known only for
    /// built-in cluster-scoped kinds. Set the scope of any other kind with
    /// [`cluster_scoped`](Self::cluster_scoped) or [`namespaced`](Self::namespaced).
    pub fn new(group: &str, version: &str, kind: &str, plural: &str) -> Self {
        let scope = builtin::is_cluster_scoped(group, plural).then_some(ResourceScope::Cluster);
        Self { gvk: Gvk::new(group, version, kind), plural: plural.to_owned(), scope }
    }

    /// Returns the kind and scope of a type of `k8s-openapi`, or of a type that derives
    /// `kube::CustomResource`.
    pub fn of<K: Resource<DynamicType = ()> + 'static>() -> Self {
        let kind = Self::new(&K::group(&()), &K::version(&()), &K::kind(&()), &K::plural(&()));
        if TypeId::of::<K::Scope>() == TypeId::of::<ClusterResourceScope>() {
            kind.cluster_scoped()
        } else {
            kind.namespaced()
        }
    }

    /// Returns this kind with the scope set to cluster-scoped.
    #[must_use]
    pub fn cluster_scoped(self) -> Self {
        Self { scope: Some(ResourceScope::Cluster), ..self }
    }

    /// Returns this kind with the scope set to namespaced.
    #[must_use]
    pub fn namespaced(self) -> Self {
        Self { scope: Some(ResourceScope::Namespaced), ..self }
    }

    /// Returns the scope of this kind, if it is known.
    pub fn scope(&self) -> Option<ResourceScope> {
        self.scope
    }

    /// Returns true if the kind is known to be cluster-scoped. Requests for such a kind ignore the namespace.
    pub fn is_cluster_scoped(&self) -> bool {
        self.scope == Some(ResourceScope::Cluster)
    }

    /// Returns `namespace`, or `None` if the kind is cluster-scoped.
    pub(crate) fn namespace_in_url<'a>(&self, namespace: Option<&'a str>) -> Option<&'a str> {
        namespace.filter(|_| !self.is_cluster_scoped())
    }

    /// Returns the group, version and kind of this kind.
    pub fn gvk(&self) -> &Gvk {
        &self.gvk
    }

    /// Returns the group, version and resource of this kind.
    pub fn gvr(&self) -> Gvr {
        Gvr::new(&self.gvk.group, &self.gvk.version, &self.plural)
    }

    /// Returns the name of this kind, such as `Pod`.
    pub fn kind(&self) -> &str {
        &self.gvk.kind
    }

    /// Returns the plural name of this kind's collection, such as `pods`.
    pub fn plural(&self) -> &str {
        &self.plural
    }

    /// Returns the plural name of this kind with its group, such as `deployments.apps`, for error messages.
    pub fn resource(&self) -> String {
        match self.gvk.group.as_str() {
            "" => self.plural.clone(),
            group => format!("{}.{group}", self.plural),
        }
    }
}

impl PartialEq for ResourceKind {
    fn eq(&self, other: &Self) -> bool {
        (&self.gvk, &self.plural) == (&other.gvk, &other.plural)
    }
}

impl Eq for ResourceKind {}

impl Hash for ResourceKind {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.gvk, &self.plural).hash(state);
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

impl From<&ResourceKind> for ResourceKind {
    fn from(kind: &ResourceKind) -> Self {
        kind.clone()
    }
}

/// A type of objects whose kind is known at compile time: another name for `Resource<DynamicType = ()>`.
///
/// The trait is implemented for every type of `k8s-openapi` and every `kube::CustomResource`. Functions have
/// it as their bound, so that the compiler can explain a type that is not a kind.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a type of Kubernetes objects",
    label = "not a kind that is known at compile time",
    note = "for a custom resource, use the kind `Website` that is derived from `WebsiteSpec`: \
            `#[derive(CustomResource, Clone, Debug, Serialize, Deserialize)]` \
            `#[kube(group = \"example.com\", version = \"v1\", kind = \"Website\", namespaced)]`",
    note = "for a kind that is known only at run time, use `Dynamic` and a `ResourceKind`"
)]
pub trait StaticResource: Resource<DynamicType = ()> {}

#[diagnostic::do_not_recommend]
impl<K: Resource<DynamicType = ()>> StaticResource for K {}

/// A type whose kind is known at compile time.
///
/// The trait is implemented for every type of `k8s-openapi`, every `kube::CustomResource`, and for
/// [`Lazy`](crate::Lazy), [`Typed`](crate::Typed) and [`Metadata`](crate::Metadata) of such a type.
#[diagnostic::on_unimplemented(
    message = "the kind of `{Self}` is not known at compile time",
    label = "neither a type of Kubernetes objects nor a representation of one",
    note = "write a kind such as `Pod`, or a representation of it such as `Lazy<Pod>`",
    note = "for a kind that is known only at run time, pass a `ResourceKind`"
)]
pub trait StaticKind {
    /// Returns the kind of this type, with its scope.
    fn resource_kind() -> ResourceKind;
}

#[diagnostic::do_not_recommend]
impl<K: Resource<DynamicType = ()> + 'static> StaticKind for K {
    fn resource_kind() -> ResourceKind {
        ResourceKind::of::<K>()
    }
}

//! References of Events to objects. Caches create them, and must not depend on the recorder of Events.

use std::fmt;
use std::hash::{Hash, Hasher};

use informer_client::StaticKind;
use informer_core::{Gvk, Object};
use kube_core::{DynamicObject, ObjectMeta, Resource};

/// A reference to the object of an event.
///
/// `kubectl describe` shows the events whose reference has the uid of the object, so create references from
/// objects that were read:
///
/// | object | reference |
/// |---|---|
/// | a type of `k8s-openapi`, a `CustomResource`, [`Fetched`](crate::Fetched) | `EventSubject::from(&object)` |
/// | kube's `DynamicObject` | [`EventSubject::of_dynamic`] |
/// | `Lazy`, `Typed`, `Packed`, `Metadata` of such a type | [`EventSubject::of`] |
/// | `Dynamic`, `Metadata` of a kind that is known at run time only | [`EventSubject::of_kind`] |
/// | an object that was not read | [`EventSubject::new`] |
///
/// Two references that differ only in the resourceVersion are equal, because they refer to the same object.
#[derive(Debug, Clone)]
pub struct EventSubject {
    pub(crate) api_version: String,
    pub(crate) kind: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) uid: String,
    pub(crate) resource_version: String,
}

impl EventSubject {
    /// Creates a reference from the parts of an object's identity, without uid. `namespace` is empty for
    /// cluster-scoped kinds.
    pub fn new(api_version: &str, kind: &str, namespace: &str, name: &str) -> Self {
        Self {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            uid: String::new(),
            resource_version: String::new(),
        }
    }

    /// Creates a reference to an object of a cache, if the type of the object determines its kind.
    pub fn of<O: StaticKind + Object>(object: &O) -> Self {
        Self::of_kind(O::resource_kind().gvk(), object)
    }

    /// Creates a reference to an object of a cache whose kind `gvk` is known only at run time.
    pub fn of_kind(gvk: &Gvk, object: &impl Object) -> Self {
        let key = object.key();
        Self {
            api_version: gvk.api_version(),
            kind: gvk.kind.clone(),
            namespace: key.namespace().unwrap_or_default().to_owned(),
            name: key.name().to_owned(),
            uid: object.uid().to_owned(),
            resource_version: object.resource_version().to_string(),
        }
    }

    /// Creates a reference to an object of kube's dynamic type, which a
    /// [`DynamicClient`](crate::DynamicClient) returns.
    pub fn of_dynamic(object: &DynamicObject) -> Self {
        let types = object.types.as_ref();
        let (api_version, kind) = types.map_or(("", ""), |types| (&types.api_version, &types.kind));
        Self::of_meta(api_version, kind, &object.metadata)
    }

    fn of_meta(api_version: &str, kind: &str, meta: &ObjectMeta) -> Self {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        Self {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            namespace: text(&meta.namespace),
            name: text(&meta.name),
            uid: text(&meta.uid),
            resource_version: text(&meta.resource_version),
        }
    }

    /// Returns the API version of the object, such as `apps/v1`.
    pub fn api_version(&self) -> &str {
        &self.api_version
    }

    /// Returns the kind of the object, such as `Deployment`.
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// Returns the namespace of the object; empty for a cluster-scoped object.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Returns the name of the object.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the uid of the object; empty if the object was not read from the server.
    pub fn uid(&self) -> &str {
        &self.uid
    }

    fn identity(&self) -> [&str; 5] {
        [&self.api_version, &self.kind, &self.namespace, &self.name, &self.uid]
    }
}

/// Prints `KIND NAMESPACE/NAME`, or `KIND NAME` for a cluster-scoped object.
impl fmt::Display for EventSubject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.namespace {
            "" => write!(f, "{} {}", self.kind, self.name),
            namespace => write!(f, "{} {namespace}/{}", self.kind, self.name),
        }
    }
}

impl PartialEq for EventSubject {
    fn eq(&self, other: &Self) -> bool {
        self.identity() == other.identity()
    }
}

impl Eq for EventSubject {}

impl Hash for EventSubject {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.identity().hash(state);
    }
}

impl<K: Resource<DynamicType = ()>> From<&K> for EventSubject {
    fn from(object: &K) -> Self {
        Self::of_meta(&K::api_version(&()), &K::kind(&()), object.meta())
    }
}

use std::fmt;

use bytes::Bytes;
use informer_client::{Call, PatchFormat};
use informer_core::ObjectKey;
use serde_json::Value;

use super::WriteError;
use crate::ResourceKind;
use crate::kind::{object_key, scoped_key};

/// The verb of a client's operation, such as get or patch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OperationVerb {
    /// Reads one object, from the cache or the API server.
    Get,
    /// Lists the selected objects of a kind, from the cache or the API server.
    List,
    /// Creates an object, or a subresource such as an eviction.
    Create,
    /// Replaces an object by a complete one (HTTP PUT).
    Replace,
    /// Patches an object with a patch of this format.
    Patch(PatchFormat),
    /// Applies an object by server-side apply.
    Apply,
    /// Deletes one object by its name.
    Delete,
    /// Deletes all selected objects of a kind.
    DeleteCollection,
}

impl OperationVerb {
    /// Returns the verb as Kubernetes names it.
    #[cfg(feature = "console")]
    pub(crate) fn kubernetes_name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Create => "create",
            Self::Replace => "update",
            Self::Patch(_) => "patch",
            Self::Apply => "apply",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
        }
    }

    /// Returns true if the verb is a write, which means any verb except `Get` and `List`.
    pub fn is_write(&self) -> bool {
        !matches!(self, Self::Get | Self::List)
    }

    /// Returns true if an operation with this verb sets fields of an object. The request then names a field
    /// owner.
    pub(super) fn writes_fields(&self) -> bool {
        matches!(self, Self::Create | Self::Replace | Self::Patch(_) | Self::Apply)
    }

    /// Returns the name of the verb for errors and metrics, for example `get`.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Create => "create",
            Self::Replace => "replace",
            Self::Patch(_) => "patch",
            Self::Apply => "apply",
            Self::Delete => "delete",
            Self::DeleteCollection => "delete collection of",
        }
    }
}

/// One operation of a client. An [interceptor](super::Intercept) may inspect the operation, change it,
/// respond to it, or pass it on.
#[derive(Clone)]
#[non_exhaustive]
pub struct Operation {
    /// The verb of the operation, such as get or patch.
    pub verb: OperationVerb,
    /// The kind of the objects that the operation concerns.
    pub kind: ResourceKind,
    /// The namespace of the object or collection; `None` for all namespaces and for cluster-scoped kinds.
    pub namespace: Option<String>,
    /// The name of the object; `None` for collections, and for a created object with a generated name.
    pub name: Option<String>,
    /// The subresource that the operation concerns, for example `status`; `None` for the object itself.
    pub subresource: Option<String>,
    /// The body of the request as JSON; null if the request has none.
    pub body: Value,
    /// The query parameters of the request, as pairs of name and value.
    pub query: Vec<(String, String)>,
    /// True if only the metadata of objects is requested. The response then contains `PartialObjectMetadata`.
    pub metadata_only: bool,
}

impl Operation {
    pub(super) fn of(verb: OperationVerb, kind: &ResourceKind) -> Self {
        Self {
            verb,
            kind: kind.clone(),
            namespace: None,
            name: None,
            subresource: None,
            body: Value::Null,
            query: Vec::new(),
            metadata_only: false,
        }
    }

    pub(super) fn on(verb: OperationVerb, kind: &ResourceKind, key: &str) -> Self {
        let (namespace, name) = match scoped_key(kind, key).split_once('/') {
            Some((namespace, name)) => (Some(namespace), name),
            None => (None, scoped_key(kind, key)),
        };
        let namespace = namespace.map(str::to_owned);
        Self { namespace, name: Some(name.to_owned()), ..Self::of(verb, kind) }
    }

    pub(super) fn in_namespace(mut self, namespace: Option<&str>) -> Self {
        self.namespace = namespace.filter(|namespace| !namespace.is_empty()).map(str::to_owned);
        self
    }

    pub(super) fn under(mut self, subresource: Option<&str>) -> Self {
        self.subresource = subresource.map(str::to_owned);
        self
    }

    pub(super) fn sending(mut self, body: Value) -> Self {
        self.body = body;
        self
    }

    pub(super) fn asking(mut self, name: &str, value: impl Into<String>) -> Self {
        self.query.push((name.to_owned(), value.into()));
        self
    }

    pub(super) fn metadata_only(mut self, metadata_only: bool) -> Self {
        self.metadata_only = metadata_only;
        self
    }

    /// Returns the key of the object, which consists of namespace and name; `None` without a valid name.
    pub fn key(&self) -> Option<ObjectKey> {
        object_key(&self.kind, self.namespace.as_deref(), self.name.as_deref()?)
    }

    pub(super) fn call(&self) -> Result<Call, WriteError> {
        let kind = &self.kind;
        let key = || self.key().ok_or_else(|| WriteError::NoName { attempt: self.to_string() });
        let namespace = self.namespace.as_deref();
        let mut call = match self.verb {
            OperationVerb::Get => Call::get(kind, &key()?),
            OperationVerb::List => Call::list(kind, namespace),
            OperationVerb::Create if self.subresource.is_some() => Call::create_under(kind, &key()?),
            OperationVerb::Create => Call::create(kind, namespace),
            OperationVerb::Replace => Call::replace(kind, &key()?),
            OperationVerb::Patch(format) => Call::patch(kind, &key()?, format),
            OperationVerb::Apply => Call::patch(kind, &key()?, PatchFormat::Apply),
            OperationVerb::Delete => Call::delete(kind, &key()?),
            OperationVerb::DeleteCollection => Call::delete_collection(kind, namespace),
        };
        for (name, value) in &self.query {
            call = call.query(name, value);
        }
        if let Some(subresource) = &self.subresource {
            call = call.subresource(subresource);
        }
        if self.metadata_only {
            call = call.metadata_only();
        }
        if self.body.is_null() { Ok(call) } else { Ok(call.body(Bytes::from(self.body.to_string()))) }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.verb.as_str(), self.kind.resource())?;
        if let Some(subresource) = &self.subresource {
            write!(f, "/{subresource}")?;
        }
        match (self.key(), &self.namespace) {
            (Some(key), _) => write!(f, " {key}"),
            (None, Some(namespace)) => write!(f, " in namespace {namespace}"),
            (None, None) => Ok(()),
        }
    }
}

impl fmt::Debug for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Operation({self})")
    }
}

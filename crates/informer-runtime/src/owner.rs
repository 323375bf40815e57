#[cfg(test)]
mod tests;

use std::fmt;

use informer_core::ObjectKey;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference as Reference;
use kube_core::{DynamicObject, Resource};

use crate::{Fetched, KubeObject};

/// The identity of an owner, from which owner references are made and by which owned objects are found.
///
/// References to objects convert to it, so functions with an owner as argument are called with `&object`. The
/// object is of a type of `k8s-openapi`, a `CustomResource`, or [`Fetched`] of such a type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    api_version: String,
    kind: String,
    /// The namespace; `None` for a cluster-scoped owner.
    namespace: Option<String>,
    name: Option<String>,
    uid: Option<String>,
}

impl Owner {
    /// Returns the identity of an owner whose kind is known only at run time. An object without `apiVersion`
    /// and `kind` counts as not stored.
    ///
    /// ```
    /// use informer_runtime::{Owner, OwnerError, set_controller_reference};
    /// use kube_core::DynamicObject;
    ///
    /// # fn example(website: &DynamicObject, deployment: &mut DynamicObject) -> Result<(), OwnerError> {
    /// set_controller_reference(Owner::of_dynamic(website), deployment)
    /// # }
    /// ```
    pub fn of_dynamic(owner: &DynamicObject) -> Self {
        let types = owner.types.clone().unwrap_or_default();
        let present = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        Self {
            name: present(&owner.metadata.name).filter(|_| !types.api_version.is_empty()),
            api_version: types.api_version,
            kind: types.kind,
            namespace: present(&owner.metadata.namespace),
            uid: present(&owner.metadata.uid),
        }
    }

    /// Returns the namespace of the owner; `None` if the owner is cluster-scoped.
    pub fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    /// Returns the uid of the owner; `None` if the owner was not read from the server.
    pub fn uid(&self) -> Option<&str> {
        self.uid.as_deref()
    }

    fn reference(&self) -> Option<Reference> {
        Some(Reference {
            api_version: self.api_version.clone(),
            kind: self.kind.clone(),
            name: self.name.clone()?,
            uid: self.uid.clone()?,
            ..Reference::default()
        })
    }

    fn key(&self) -> String {
        key_of(self.namespace.as_deref(), self.name.as_deref())
    }
}

impl<O: Resource<DynamicType = ()>> From<&O> for Owner {
    fn from(owner: &O) -> Self {
        let meta = owner.meta();
        let present = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        Self {
            api_version: O::api_version(&()).into_owned(),
            kind: O::kind(&()).into_owned(),
            namespace: present(&meta.namespace),
            name: present(&meta.name),
            uid: present(&meta.uid),
        }
    }
}

impl<O: KubeObject> From<&Fetched<O>> for Owner {
    fn from(owner: &Fetched<O>) -> Self {
        Self::from(&**owner)
    }
}

/// Prints `KIND NAMESPACE/NAME`, or `KIND NAME` for a cluster-scoped owner.
impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name {
            Some(_) => write!(f, "{} {}", self.kind, self.key()),
            None => write!(f, "{} without a name", self.kind),
        }
    }
}

/// The error of setting or removing an owner reference.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OwnerError {
    /// The owner has no name or no uid, so it was not read from the server and was probably never created.
    #[error("set an owner: {kind} has no name and uid yet; create it first")]
    NotStored {
        /// The kind of the owner.
        kind: String,
    },
    /// The owner is namespaced, and the object is in another namespace or cluster-scoped.
    #[error(
        "set an owner: {kind} {owner} cannot own {object}, which is not in its namespace; an owner must be \
         in the same namespace or cluster-scoped"
    )]
    OtherNamespace {
        /// The kind of the owner.
        kind: String,
        /// The key of the owner, which consists of namespace and name.
        owner: String,
        /// The key of the object that the owner cannot own.
        object: String,
    },
    /// The object already has another controller.
    #[error("set the controller of {object}: {kind} {name} is already its controller")]
    AlreadyOwned {
        /// The key of the object that has a controller.
        object: String,
        /// The kind of the object's present controller.
        kind: String,
        /// The name of the object's present controller.
        name: String,
    },
    /// The object has no reference to this owner.
    #[error("remove the owner of {object}: {kind} {owner} does not own it")]
    NotOwned {
        /// The key of the object without the owner reference.
        object: String,
        /// The kind of the owner.
        kind: String,
        /// The key of the owner, which consists of namespace and name.
        owner: String,
    },
}

/// Makes `owner` the controller of `object`. An object has at most one controller, the owner that manages it.
/// When the owner is deleted, the object is deleted too; a foreground deletion of the owner waits for it. If
/// the reference exists, it is updated.
///
/// ```
/// use informer_runtime::set_controller_reference;
/// use k8s_openapi::api::apps::v1::Deployment;
/// use k8s_openapi::api::core::v1::ConfigMap;
///
/// let mut owner = Deployment::default();
/// owner.metadata.name = Some("web".to_owned());
/// owner.metadata.namespace = Some("default".to_owned());
/// owner.metadata.uid = Some("u-1".to_owned());
/// let mut map = ConfigMap::default();
/// map.metadata.namespace = Some("default".to_owned());
/// set_controller_reference(&owner, &mut map)?;
/// assert_eq!(map.metadata.owner_references.unwrap()[0].controller, Some(true));
/// # Ok::<(), informer_runtime::OwnerError>(())
/// ```
///
/// # Errors
///
/// Returns an error if the owner was never created or is in another namespace, or if the object has another
/// controller.
pub fn set_controller_reference<K: Resource>(
    owner: impl Into<Owner>,
    object: &mut K,
) -> Result<(), OwnerError> {
    let mut reference = reference(&owner.into(), object)?;
    (reference.controller, reference.block_owner_deletion) = (Some(true), Some(true));
    let owners = object.meta().owner_references.iter().flatten();
    let mut others = owners.filter(|held| is_controller(held) && !same(held, &reference));
    if let Some(held) = others.next() {
        let (kind, name) = (held.kind.clone(), held.name.clone());
        return Err(OwnerError::AlreadyOwned { object: name_of(object), kind, name });
    }
    upsert(object, reference);
    Ok(())
}

/// Adds `owner` to the owners of `object`. The garbage collector deletes the object when all its owners are
/// deleted. If the reference exists, it is updated.
///
/// # Errors
///
/// Returns an error if the owner was never created or is in another namespace.
pub fn set_owner_reference<K: Resource>(owner: impl Into<Owner>, object: &mut K) -> Result<(), OwnerError> {
    let reference = reference(&owner.into(), object)?;
    upsert(object, reference);
    Ok(())
}

/// Removes `owner` from the owners of `object`.
///
/// # Errors
///
/// Returns an error if `owner` is not an owner of `object`.
pub fn remove_owner_reference<K: Resource>(
    owner: impl Into<Owner>,
    object: &mut K,
) -> Result<(), OwnerError> {
    remove(&owner.into(), object, |_| true)
}

/// Removes the reference to `owner`, the controller of `object`.
///
/// # Errors
///
/// Returns an error if `owner` is not the controller of `object`.
pub fn remove_controller_reference<K: Resource>(
    owner: impl Into<Owner>,
    object: &mut K,
) -> Result<(), OwnerError> {
    remove(&owner.into(), object, |controls| controls)
}

/// Returns true if `owner` is one of the owners of `object`, whatever API version the reference contains.
pub fn has_owner_reference<K: Resource>(owner: impl Into<Owner>, object: &K) -> bool {
    let Some(reference) = owner.into().reference() else { return false };
    object.meta().owner_references.iter().flatten().any(|held| same(held, &reference))
}

/// Returns true if one of the owners of `object` is its controller.
pub fn has_controller_reference<K: Resource>(object: &K) -> bool {
    object.meta().owner_references.iter().flatten().any(is_controller)
}

fn reference<K: Resource>(owner: &Owner, object: &K) -> Result<Reference, OwnerError> {
    let kind = owner.kind.clone();
    let reference = owner.reference().ok_or_else(|| OwnerError::NotStored { kind: kind.clone() })?;
    if owner
        .namespace
        .as_deref()
        .is_none_or(|namespace| object.meta().namespace.as_deref() == Some(namespace))
    {
        Ok(reference)
    } else {
        Err(OwnerError::OtherNamespace { kind, owner: owner.key(), object: name_of(object) })
    }
}

fn is_controller(reference: &Reference) -> bool {
    reference.controller == Some(true)
}

/// Returns true if two owner references refer to the same owner. API versions may differ.
fn same(a: &Reference, b: &Reference) -> bool {
    fn group(reference: &Reference) -> &str {
        reference.api_version.split_once('/').map_or("", |(group, _)| group)
    }
    (group(a), &a.kind, &a.name) == (group(b), &b.kind, &b.name)
}

fn upsert<K: Resource>(object: &mut K, reference: Reference) {
    let owners = object.meta_mut().owner_references.get_or_insert_default();
    match owners.iter_mut().find(|held| same(held, &reference)) {
        Some(held) => *held = reference,
        None => owners.push(reference),
    }
}

fn remove<K: Resource>(owner: &Owner, object: &mut K, fits: impl Fn(bool) -> bool) -> Result<(), OwnerError> {
    let missing =
        OwnerError::NotOwned { object: name_of(object), kind: owner.kind.clone(), owner: owner.key() };
    let Some(reference) = owner.reference() else { return Err(missing) };
    let owners = object.meta_mut().owner_references.get_or_insert_default();
    match owners.iter().position(|held| same(held, &reference) && fits(is_controller(held))) {
        Some(at) => {
            owners.remove(at);
            Ok(())
        }
        None => Err(missing),
    }
}

fn name_of<K: Resource>(object: &K) -> String {
    let meta = object.meta();
    key_of(meta.namespace.as_deref(), meta.name.as_deref())
}

fn key_of(namespace: Option<&str>, name: Option<&str>) -> String {
    match ObjectKey::new(namespace.unwrap_or_default(), name.unwrap_or_default()) {
        Ok(key) => key.to_string(),
        Err(_) => "an object without a name".to_owned(),
    }
}

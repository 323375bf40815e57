use serde_json::{Value, json};

use super::operation::{Operation, OperationVerb};
use super::{CachedClient, WriteError};
use crate::{KubeObject, ListOptions, ResourceKind};

/// Options and preconditions of a deletion. If a precondition fails, the deletion returns a conflict.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeleteOptions {
    uid: Option<String>,
    version: Option<String>,
    grace_period: Option<u32>,
    propagation: Option<Propagation>,
}

/// The propagation policy of a deletion. It decides how the garbage collector treats dependents, the objects
/// that have the deleted object as an owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Propagation {
    /// The object is deleted first, and its dependents afterwards in the background.
    Background,
    /// The object is deleted after its dependents.
    Foreground,
    /// The object is deleted, and its dependents are kept without this owner.
    Orphan,
}

impl DeleteOptions {
    /// Returns options with the uid and the resourceVersion of `object` as preconditions, so that a changed
    /// or re-created object is not deleted.
    pub fn of<K: KubeObject>(object: &K) -> Self {
        let meta = object.meta();
        Self { uid: meta.uid.clone(), version: meta.resource_version.clone(), ..Self::default() }
    }

    /// Sets a precondition: the object must have this uid. A re-created object of the same name is then not
    /// deleted.
    pub fn uid(mut self, uid: impl Into<String>) -> Self {
        self.uid = Some(uid.into());
        self
    }

    /// Sets a precondition: the object must have this resourceVersion. An object that was changed is then not
    /// deleted.
    pub fn resource_version(mut self, version: impl Into<String>) -> Self {
        self.version = Some(version.into());
        self
    }

    /// Sets the time for a graceful deletion in seconds, for kinds that support it, such as Pods; 0 deletes
    /// the object immediately.
    pub fn grace_period_seconds(mut self, seconds: u32) -> Self {
        self.grace_period = Some(seconds);
        self
    }

    /// Sets the propagation policy, which decides whether dependents of the object are deleted.
    pub fn propagation(mut self, propagation: Propagation) -> Self {
        self.propagation = Some(propagation);
        self
    }

    fn body(&self) -> Value {
        let mut body = json!({"apiVersion": "v1", "kind": "DeleteOptions"});
        let mut conditions = json!({});
        let conditioned = [("uid", &self.uid), ("resourceVersion", &self.version)];
        for (name, value) in conditioned.into_iter().filter_map(|(name, value)| Some((name, value.as_ref()?)))
        {
            conditions[name] = json!(value);
        }
        if self.uid.is_some() || self.version.is_some() {
            body["preconditions"] = conditions;
        }
        if let Some(seconds) = self.grace_period {
            body["gracePeriodSeconds"] = json!(seconds);
        }
        if let Some(propagation) = self.propagation {
            body["propagationPolicy"] = json!(format!("{propagation:?}"));
        }
        body
    }
}

impl CachedClient {
    /// Deletes an object. An object with finalizers or a grace period is only marked, and the server deletes
    /// it later.
    ///
    /// # Errors
    ///
    /// Returns an error if the object does not exist ([`is_not_found`](WriteError::is_not_found)), or if the
    /// server rejects the deletion.
    pub async fn delete<K: KubeObject>(&self, key: &(impl AsRef<str> + ?Sized)) -> Result<(), WriteError> {
        self.delete_with::<K>(key, &DeleteOptions::default()).await
    }

    /// Deletes an object with options and preconditions.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`delete`](Self::delete). If a precondition fails, the error is a conflict.
    pub async fn delete_with<K: KubeObject>(
        &self,
        key: &(impl AsRef<str> + ?Sized),
        options: &DeleteOptions,
    ) -> Result<(), WriteError> {
        self.delete_kind(&ResourceKind::of::<K>(), key.as_ref(), options).await
    }

    /// Deletes all selected objects of a kind; a limit in `selected` is ignored. Later reads do not wait
    /// until the cache shows these deletions.
    ///
    /// # Errors
    ///
    /// Returns an error if the server rejects the request. Some objects may have been deleted.
    pub async fn delete_all<K: KubeObject>(
        &self,
        selected: &ListOptions,
        options: &DeleteOptions,
    ) -> Result<(), WriteError> {
        self.delete_all_kind(&ResourceKind::of::<K>(), selected, options).await
    }

    pub(super) async fn delete_kind(
        &self,
        kind: &ResourceKind,
        key: &str,
        options: &DeleteOptions,
    ) -> Result<(), WriteError> {
        let operation = Operation::on(OperationVerb::Delete, kind, key).sending(options.body());
        self.execute(operation).await.map(drop)
    }

    pub(super) async fn delete_all_kind(
        &self,
        kind: &ResourceKind,
        selected: &ListOptions,
        options: &DeleteOptions,
    ) -> Result<(), WriteError> {
        let operation = Operation::of(OperationVerb::DeleteCollection, kind).selecting(selected);
        self.execute(operation.sending(options.body())).await.map(drop)
    }
}

impl Operation {
    pub(super) fn selecting(self, options: &ListOptions) -> Self {
        let mut operation = self.in_namespace(options.namespace.as_deref());
        if !options.labels.is_everything() {
            operation = operation.asking("labelSelector", options.labels.to_string());
        }
        if !options.fields.is_everything() {
            operation = operation.asking("fieldSelector", options.fields.to_string());
        }
        operation
    }
}

use serde_json::{Value, json};

use super::operation::{Operation, OperationVerb};
use super::{CachedClient, WriteError};
use crate::{KubeKind, KubeObject, ListOptions, ScopedKind};

/// How objects are deleted, and which: a deletion whose conditions do not hold is a conflict.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeleteOptions {
    uid: Option<String>,
    version: Option<String>,
    grace_period: Option<u32>,
    propagation: Option<Propagation>,
}

/// What becomes of the objects that an object owns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Propagation {
    /// They are deleted after it.
    Background,
    /// They are deleted before it.
    Foreground,
    /// They stay.
    Orphan,
}

impl DeleteOptions {
    /// Only the very object that was read, and only if it did not change since.
    pub fn of<K: KubeObject>(object: &K) -> Self {
        let meta = object.meta();
        Self { uid: meta.uid.clone(), version: meta.resource_version.clone(), ..Self::default() }
    }

    /// Only the object of this uid.
    pub fn uid(mut self, uid: impl Into<String>) -> Self {
        self.uid = Some(uid.into());
        self
    }

    /// Only in this version.
    pub fn resource_version(mut self, version: impl Into<String>) -> Self {
        self.version = Some(version.into());
        self
    }

    /// How many seconds the object has to end, where its kind knows that; 0 is at once.
    pub fn grace_period_seconds(mut self, seconds: u32) -> Self {
        self.grace_period = Some(seconds);
        self
    }

    /// What becomes of the objects that it owns.
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
    /// Deletes an object. One with finalizers, or with a grace period, is marked and goes later.
    ///
    /// # Errors
    ///
    /// When it does not exist ([`is_not_found`](WriteError::is_not_found)), or the server refuses.
    pub async fn delete<K: KubeKind>(&self, key: &(impl AsRef<str> + ?Sized)) -> Result<(), WriteError> {
        self.delete_with::<K>(key, &DeleteOptions::default()).await
    }

    /// As [`delete`](Self::delete), with conditions and options.
    ///
    /// # Errors
    ///
    /// As [`delete`](Self::delete); a conflict where a condition does not hold.
    pub async fn delete_with<K: KubeKind>(
        &self,
        key: &(impl AsRef<str> + ?Sized),
        options: &DeleteOptions,
    ) -> Result<(), WriteError> {
        self.delete_kind(&ScopedKind::of::<K>(), key.as_ref(), options).await
    }

    /// Deletes all objects of a kind that are selected; a limit says nothing here. Own writes are not awaited by it, and it is
    /// not awaited by later reads.
    ///
    /// # Errors
    ///
    /// When the server refuses. Some may be gone then.
    pub async fn delete_all<K: KubeKind>(
        &self,
        selected: &ListOptions,
        options: &DeleteOptions,
    ) -> Result<(), WriteError> {
        self.delete_all_kind(&ScopedKind::of::<K>(), selected, options).await
    }

    pub(super) async fn delete_kind(
        &self,
        kind: &ScopedKind,
        key: &str,
        options: &DeleteOptions,
    ) -> Result<(), WriteError> {
        let operation = Operation::on(OperationVerb::Delete, kind, key).sending(options.body());
        self.execute(operation).await.map(drop)
    }

    pub(super) async fn delete_all_kind(
        &self,
        kind: &ScopedKind,
        selected: &ListOptions,
        options: &DeleteOptions,
    ) -> Result<(), WriteError> {
        let operation = Operation::of(OperationVerb::DeleteCollection, kind).selecting(selected);
        self.execute(operation.sending(options.body())).await.map(drop)
    }
}

impl Operation {
    /// The namespace and the selectors of a list.
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

//! Updates of objects whose kind is known only at run time, and their subresources.

use std::fmt;

use informer_client::PatchFormat;
use kube_core::DynamicObject;
use serde_json::{Value, json};

use super::DynamicClient;
use crate::client::conflict::edit_until_stored;
use crate::client::difference::merge_patch;
use crate::client::error::read_failed;
use crate::client::operation::{Operation, OperationVerb};
use crate::client::write::{decoded, encode, same_object};
use crate::client::{Patch, WriteError};
use crate::{ReadError, ResourceKind};

impl DynamicClient {
    /// Updates an object that was read. Sends a JSON merge patch of the difference between `original`, as it
    /// was read, and `edited`, with the uid and the resourceVersion of `original` as preconditions. For kinds
    /// with a status subresource, write the status with [`status`](Self::status).
    ///
    /// If nothing differs, no request is sent, and the result is `original`.
    ///
    /// ```no_run
    /// # async fn example(websites: informer_runtime::DynamicClient) -> Result<(), Box<dyn std::error::Error>> {
    /// if let Some(original) = websites.get("default/shop").await? {
    ///     let mut edited = original.clone();
    ///     edited.data["spec"]["image"] = "shop:2".into();
    ///     websites.update(&original, &edited).await?;
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns a [conflict](WriteError::is_conflict) if the object has changed since it was read, or was
    /// deleted and re-created; otherwise the error of the API server.
    pub async fn update(
        &self,
        original: &DynamicObject,
        edited: &DynamicObject,
    ) -> Result<DynamicObject, WriteError> {
        self.update_under(original, edited, None).await
    }

    /// Changes an object: reads it, calls `change` with a copy, and [updates](Self::update) the object with
    /// the difference. Returns the object as the server stored it, or `None` if it does not exist.
    ///
    /// Conflicts are handled like those of [`CachedClient::edit`](crate::CachedClient::edit): the object is
    /// read from the API server, and `change` is called again.
    ///
    /// # Errors
    ///
    /// The same errors as [`CachedClient::edit`](crate::CachedClient::edit).
    pub async fn edit(
        &self,
        key: &(impl AsRef<str> + ?Sized),
        change: impl FnMut(&mut DynamicObject),
    ) -> Result<Option<DynamicObject>, WriteError> {
        self.edit_under(key.as_ref(), None, change).await
    }

    /// Changes the status of an object, as [`edit`](Self::edit) changes the object.
    ///
    /// # Errors
    ///
    /// The same errors as [`CachedClient::edit_status`](crate::CachedClient::edit_status).
    pub async fn edit_status(
        &self,
        key: &(impl AsRef<str> + ?Sized),
        change: impl FnMut(&mut DynamicObject),
    ) -> Result<Option<DynamicObject>, WriteError> {
        self.edit_under(key.as_ref(), Some("status"), change).await
    }

    /// Returns the status subresource of the kind.
    pub fn status(&self) -> DynamicSubresource {
        self.subresource("status")
    }

    /// Returns a subresource of the kind by its name, for example `scale`.
    pub fn subresource(&self, name: impl Into<String>) -> DynamicSubresource {
        DynamicSubresource { objects: self.clone(), name: name.into() }
    }

    async fn edit_under(
        &self,
        key: &str,
        subresource: Option<&str>,
        mut change: impl FnMut(&mut DynamicObject),
    ) -> Result<Option<DynamicObject>, WriteError> {
        let get = Operation::on(OperationVerb::Get, &self.kind, key);
        let read = self.get(key).await.map_err(|cause| match cause {
            ReadError::Live(error) => error,
            cause => read_failed(&get, cause),
        })?;
        let update = |original: DynamicObject| {
            let mut edited = original.clone();
            change(&mut edited);
            async move { self.update_under(&original, &edited, subresource).await }
        };
        let reread = || async {
            let value = self.client.get_value(get.clone()).await?;
            value.map(|value| decoded(&get.to_string(), value)).transpose()
        };
        edit_until_stored(read, subresource.is_some(), update, reread).await
    }

    async fn update_under(
        &self,
        original: &DynamicObject,
        edited: &DynamicObject,
        subresource: Option<&str>,
    ) -> Result<DynamicObject, WriteError> {
        let operation = self.on(OperationVerb::Patch(PatchFormat::Merge), original).under(subresource);
        if operation.key().is_none() {
            return Err(WriteError::NoName { attempt: operation.to_string() });
        }
        same_object(&operation, &original.metadata, &edited.metadata)?;
        let value = |object: &DynamicObject| {
            let mut value = serde_json::to_value(object).map_err(|cause| encode(&operation, cause))?;
            if subresource == Some("status") {
                value = json!({"status": value["status"].take()});
            }
            Ok::<_, WriteError>(value)
        };
        let Some(mut patch) = merge_patch(&value(original)?, &value(edited)?) else {
            return Ok(original.clone());
        };
        let meta = &original.metadata;
        for (name, value) in [("uid", &meta.uid), ("resourceVersion", &meta.resource_version)] {
            if let Some(value) = value {
                patch["metadata"][name] = json!(value);
            }
        }
        self.execute(operation.sending(patch)).await
    }
}

/// Reads and writes one subresource of objects whose kind is known only at run time; see
/// [`DynamicClient::subresource`].
#[derive(Clone)]
pub struct DynamicSubresource {
    objects: DynamicClient,
    name: String,
}

impl DynamicSubresource {
    /// Writes the difference of the subresource between an object that was read and an edited copy, as
    /// [`DynamicClient::update`] does for the object. For `status`, changes of other fields are not sent.
    ///
    /// # Errors
    ///
    /// The same errors as [`DynamicClient::update`]. The error is a 404 (`NotFound`) if the kind does not
    /// have this subresource.
    pub async fn update(
        &self,
        original: &DynamicObject,
        edited: &DynamicObject,
    ) -> Result<DynamicObject, WriteError> {
        self.objects.update_under(original, edited, Some(&self.name)).await
    }

    /// Applies the subresource by server-side apply, as [`DynamicClient::apply`] does for the object.
    ///
    /// # Errors
    ///
    /// The same errors as [`DynamicClient::apply`].
    pub async fn apply(&self, object: &DynamicObject) -> Result<DynamicObject, WriteError> {
        self.objects.apply_under(object, Some(&self.name)).await
    }

    /// Patches an object through this subresource; see [`DynamicClient::patch`].
    ///
    /// # Errors
    ///
    /// Returns the error of the API server.
    pub async fn patch(
        &self,
        key: &(impl AsRef<str> + ?Sized),
        patch: &Patch,
    ) -> Result<DynamicObject, WriteError> {
        let operation = self.on(OperationVerb::Patch(patch.format), key.as_ref());
        self.objects.execute(operation.sending(patch.body.clone())).await
    }

    /// Reads the subresource as JSON, for example a `Scale`, from the API server.
    ///
    /// # Errors
    ///
    /// Returns the error of the API server, also if the object does not exist.
    pub async fn read(&self, key: &(impl AsRef<str> + ?Sized)) -> Result<Value, WriteError> {
        self.objects.client.execute(self.on(OperationVerb::Get, key.as_ref())).await
    }

    /// Replaces the subresource by this JSON.
    ///
    /// # Errors
    ///
    /// Returns the error of the API server.
    pub async fn replace(
        &self,
        key: &(impl AsRef<str> + ?Sized),
        subresource: Value,
    ) -> Result<Value, WriteError> {
        let operation = self.on(OperationVerb::Replace, key.as_ref());
        self.objects.client.execute(operation.sending(subresource)).await
    }

    /// Creates the subresource from JSON, for example an `Eviction`. Returns the response, which is an object
    /// or a Status.
    ///
    /// # Errors
    ///
    /// Returns the error of the API server.
    pub async fn create(
        &self,
        key: &(impl AsRef<str> + ?Sized),
        subresource: Value,
    ) -> Result<Value, WriteError> {
        let operation = self.on(OperationVerb::Create, key.as_ref());
        self.objects.client.execute(operation.sending(subresource)).await
    }

    fn on(&self, verb: OperationVerb, key: &str) -> Operation {
        let kind: &ResourceKind = &self.objects.kind;
        Operation::on(verb, kind, key).under(Some(&self.name))
    }
}

impl fmt::Debug for DynamicSubresource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DynamicSubresource")
            .field("kind", &self.objects.kind)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

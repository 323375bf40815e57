//! Reads and writes subresources of objects, such as status, scale, eviction and token.

use std::fmt;

use informer_client::PatchFormat;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::operation::{Operation, OperationVerb};
use super::write::{decoded, encode, fetched};
use super::{CachedClient, Edited, Fetched, Patch, WriteError};
use crate::{KubeObject, ResourceKind};

/// Reads and writes one subresource of objects; see [`CachedClient::subresource`].
#[derive(Clone)]
pub struct Subresource {
    client: CachedClient,
    name: String,
}

impl CachedClient {
    /// Returns the status subresource, through which the server accepts changes of the status.
    ///
    /// ```no_run
    /// # async fn example(client: informer_runtime::CachedClient) -> Result<(), Box<dyn std::error::Error>> {
    /// use k8s_openapi::api::apps::v1::Deployment;
    ///
    /// if let Some(web) = client.get::<Deployment>("default/web").await? {
    ///     let mut edited = web.edit();
    ///     edited.status.get_or_insert_default().observed_generation = edited.metadata.generation;
    ///     client.status().update(&edited).await?;
    /// }
    /// # Ok(()) }
    /// ```
    pub fn status(&self) -> Subresource {
        self.subresource("status")
    }

    /// Returns a subresource by name, for example `scale`, `eviction`, `token` or `binding`.
    pub fn subresource(&self, name: impl Into<String>) -> Subresource {
        Subresource { client: self.clone(), name: name.into() }
    }
}

impl Subresource {
    /// Writes the difference of the subresource between the original and the edited copy, as
    /// [`CachedClient::update`] does for the object. For `status`, changes of other fields are not sent.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`CachedClient::update`]. The error is a 404 (`NotFound`) if the kind does
    /// not have this subresource.
    pub async fn update<K: KubeObject>(&self, edited: &Edited<K>) -> Result<Fetched<K>, WriteError> {
        self.client.update_under(edited, Some(&self.name)).await
    }

    /// Applies the subresource by server-side apply, as [`CachedClient::apply`] does for the object.
    ///
    /// # Errors
    ///
    /// The same errors as [`CachedClient::apply`].
    pub async fn apply<K: KubeObject>(&self, object: &K) -> Result<Fetched<K>, WriteError> {
        self.client.apply_under(object, Some(&self.name)).await
    }

    /// Patches an object through this subresource; see [`CachedClient::patch`].
    ///
    /// # Errors
    ///
    /// Returns the error of the API server.
    pub async fn patch<K: KubeObject>(
        &self,
        key: &(impl AsRef<str> + ?Sized),
        patch: &Patch,
    ) -> Result<Fetched<K>, WriteError> {
        let operation = self.on::<K>(OperationVerb::Patch(patch.format), key.as_ref());
        let response = self.client.execute(operation.clone().sending(patch.body.clone())).await?;
        fetched(&operation.to_string(), response)
    }

    /// Reads a subresource whose type differs from that of the object, for example `Scale`, from the API
    /// server.
    ///
    /// # Errors
    ///
    /// Returns the error of the API server, also if the object does not exist.
    pub async fn read<K: KubeObject, S: DeserializeOwned>(
        &self,
        key: &(impl AsRef<str> + ?Sized),
    ) -> Result<S, WriteError> {
        let operation = self.on::<K>(OperationVerb::Get, key.as_ref());
        decoded(&operation.to_string(), self.client.execute(operation.clone()).await?)
    }

    /// Replaces a subresource whose type differs from that of the object, for example `Scale`.
    ///
    /// # Errors
    ///
    /// Returns the error of the API server.
    pub async fn replace<K: KubeObject, S: Serialize + DeserializeOwned>(
        &self,
        key: &(impl AsRef<str> + ?Sized),
        subresource: &S,
    ) -> Result<S, WriteError> {
        let operation = self.on::<K>(OperationVerb::Replace, key.as_ref());
        let body = serde_json::to_value(subresource).map_err(|cause| encode(&operation, cause))?;
        decoded(&operation.to_string(), self.client.execute(operation.clone().sending(body)).await?)
    }

    /// Patches a subresource whose type differs from that of the object by a JSON merge patch.
    ///
    /// # Errors
    ///
    /// Returns the error of the API server.
    pub async fn merge<K: KubeObject, S: DeserializeOwned>(
        &self,
        key: &(impl AsRef<str> + ?Sized),
        patch: Value,
    ) -> Result<S, WriteError> {
        let operation = self.on::<K>(OperationVerb::Patch(PatchFormat::Merge), key.as_ref());
        decoded(&operation.to_string(), self.client.execute(operation.clone().sending(patch)).await?)
    }

    /// Creates a subresource, for example an `Eviction` or a `TokenRequest`, and returns the response, which
    /// is an object or a Status.
    ///
    /// # Errors
    ///
    /// Returns the error of the API server. If a PodDisruptionBudget forbids an eviction, the error is a 429.
    pub async fn create<K: KubeObject, R: DeserializeOwned>(
        &self,
        key: &(impl AsRef<str> + ?Sized),
        body: &impl Serialize,
    ) -> Result<R, WriteError> {
        let operation = self.on::<K>(OperationVerb::Create, key.as_ref());
        let body = serde_json::to_value(body).map_err(|cause| encode(&operation, cause))?;
        decoded(&operation.to_string(), self.client.execute(operation.clone().sending(body)).await?)
    }

    fn on<K: KubeObject>(&self, verb: OperationVerb, key: &str) -> Operation {
        Operation::on(verb, &ResourceKind::of::<K>(), key).under(Some(&self.name))
    }
}

impl fmt::Debug for Subresource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subresource").field("name", &self.name).finish_non_exhaustive()
    }
}

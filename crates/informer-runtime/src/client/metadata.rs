//! A client for the metadata of objects, without their bodies.

use std::fmt;

use kube_core::DynamicObject;
use kube_core::metadata::PartialObjectMeta;

use super::operation::{Operation, OperationVerb};
use super::pager::ObjectStream;
use super::write::decoded;
use super::{CachedClient, DeleteOptions, GetOptions, Page, Patch, WriteError};
use crate::{ListOptions, ResourceKind};

/// Reads, patches and deletes objects of one kind of which it receives only the metadata
/// (`PartialObjectMetadata`), without a cache. A Secret of a megabyte is transferred as some hundred bytes.
///
/// Upstream: [`metadata.Interface`](https://pkg.go.dev/k8s.io/client-go/metadata#Interface).
#[derive(Clone)]
pub struct MetadataClient {
    client: CachedClient,
    kind: ResourceKind,
}

impl CachedClient {
    /// Returns a client for the metadata of objects of a kind. It reads from the API server;
    /// [`metadata`](Self::metadata) reads from the cache.
    ///
    /// ```no_run
    /// # async fn example(client: informer_runtime::CachedClient) -> Result<(), informer_runtime::WriteError> {
    /// use informer_runtime::{ListOptions, ResourceKind};
    /// use k8s_openapi::api::core::v1::Secret;
    ///
    /// let secrets = client.live_metadata(ResourceKind::of::<Secret>());
    /// for secret in secrets.list(&ListOptions::default().namespace("default")).await? {
    ///     println!("{:?}", secret.metadata.labels);
    /// }
    /// # Ok(()) }
    /// ```
    pub fn live_metadata(&self, kind: impl Into<ResourceKind>) -> MetadataClient {
        MetadataClient { client: self.clone(), kind: kind.into() }
    }
}

impl MetadataClient {
    /// Returns the kind of the objects.
    pub fn kind(&self) -> &ResourceKind {
        &self.kind
    }

    /// Returns the metadata of one object; `None` if it does not exist.
    ///
    /// # Errors
    ///
    /// Returns the error of the API server.
    pub async fn get(
        &self,
        key: &(impl AsRef<str> + ?Sized),
    ) -> Result<Option<PartialObjectMeta<DynamicObject>>, WriteError> {
        self.get_with(key, &GetOptions::default()).await
    }

    /// Returns the metadata of one object, with options; `None` if it does not exist.
    ///
    /// # Errors
    ///
    /// Returns the error of the API server.
    pub async fn get_with(
        &self,
        key: &(impl AsRef<str> + ?Sized),
        options: &GetOptions,
    ) -> Result<Option<PartialObjectMeta<DynamicObject>>, WriteError> {
        let operation = self.on(OperationVerb::Get, key.as_ref()).reading(options);
        let attempt = operation.to_string();
        let value = self.client.get_value(operation).await?;
        value.map(|value| decoded(&attempt, value)).transpose()
    }

    /// Returns the metadata of the selected objects. They are requested page by page unless there is a limit.
    ///
    /// # Errors
    ///
    /// Returns the error of the API server.
    pub async fn list(
        &self,
        options: &ListOptions,
    ) -> Result<Vec<PartialObjectMeta<DynamicObject>>, WriteError> {
        let values = self.client.list_values_as(&self.kind, options, true).await?;
        let attempt = self.list_attempt();
        values.into_iter().map(|value| decoded(&attempt, value)).collect()
    }

    /// Returns one page of the metadata of the selected objects, as
    /// [`LiveReader::page`](super::LiveReader::page) does for whole objects.
    ///
    /// # Errors
    ///
    /// Returns the error of the API server, which rejects an expired token with 410.
    pub async fn page(
        &self,
        options: &ListOptions,
        continue_token: Option<&str>,
    ) -> Result<Page<PartialObjectMeta<DynamicObject>>, WriteError> {
        let page = self.client.page_values(&self.kind, options, continue_token, true).await?;
        let attempt = self.list_attempt();
        page.try_map(|value| decoded(&attempt, value))
    }

    /// Returns the metadata of the selected objects as a stream, as
    /// [`LiveReader::stream`](super::LiveReader::stream) does for whole objects.
    pub fn stream(&self, options: &ListOptions) -> ObjectStream<PartialObjectMeta<DynamicObject>> {
        let attempt = self.list_attempt();
        let values = self.client.stream_values(&self.kind, options, true);
        ObjectStream::new(values, move |value| decoded(&attempt, value))
    }

    /// Patches an object, for example its labels, and returns its metadata.
    ///
    /// # Errors
    ///
    /// Returns the error of the API server.
    pub async fn patch(
        &self,
        key: &(impl AsRef<str> + ?Sized),
        patch: &Patch,
    ) -> Result<PartialObjectMeta<DynamicObject>, WriteError> {
        let operation = self.on(OperationVerb::Patch(patch.format), key.as_ref());
        let attempt = operation.to_string();
        decoded(&attempt, self.client.execute(operation.sending(patch.body.clone())).await?)
    }

    /// Deletes an object; see [`CachedClient::delete_with`].
    ///
    /// # Errors
    ///
    /// The same errors as [`CachedClient::delete_with`].
    pub async fn delete(
        &self,
        key: &(impl AsRef<str> + ?Sized),
        options: &DeleteOptions,
    ) -> Result<(), WriteError> {
        self.client.delete_kind(&self.kind, key.as_ref(), options).await
    }

    /// Deletes all selected objects; see [`CachedClient::delete_all`].
    ///
    /// # Errors
    ///
    /// The same errors as [`CachedClient::delete_all`].
    pub async fn delete_all(
        &self,
        selected: &ListOptions,
        options: &DeleteOptions,
    ) -> Result<(), WriteError> {
        self.client.delete_all_kind(&self.kind, selected, options).await
    }

    fn on(&self, verb: OperationVerb, key: &str) -> Operation {
        Operation::on(verb, &self.kind, key).metadata_only(true)
    }

    fn list_attempt(&self) -> String {
        format!("list {}", self.kind.plural())
    }
}

impl fmt::Debug for MetadataClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MetadataClient").field("kind", &self.kind).finish_non_exhaustive()
    }
}

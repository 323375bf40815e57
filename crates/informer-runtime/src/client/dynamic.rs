//! Clients for objects of kinds that are known only at run time.

mod edit;

use std::fmt;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use informer_client::{DecodeError, Dynamic};
use kube_core::{DynamicObject, TypeMeta};
use serde_json::Value;

use super::error::{not_found, read_failed};
use super::operation::{Operation, OperationVerb};
use super::read::items_of;
use super::write::{decoded, encode};
use super::{CachedClient, DeleteOptions, Patch, WriteError};
use crate::{ListOptions, ReadError, ResourceKind};
pub use edit::DynamicSubresource;

/// Reads and writes objects of one kind without a static type.
///
/// Updates, subresources and server-side apply work like those of [`CachedClient`], without a type.
/// [`set_controller_reference`](crate::set_controller_reference), [`add_finalizer`](crate::add_finalizer) and
/// related functions accept dynamic objects.
///
/// Reads are sent to the API server unless the builder [configures
/// otherwise](super::ClientBuilder::cache_dynamic).
#[derive(Clone)]
pub struct DynamicClient {
    client: CachedClient,
    kind: ResourceKind,
}

impl CachedClient {
    /// Returns a client for a kind that is known only at run time. [`informer_client::Client::resolve`] finds
    /// kinds by name.
    pub fn dynamic(&self, kind: impl Into<ResourceKind>) -> DynamicClient {
        DynamicClient { client: self.clone(), kind: kind.into() }
    }
}

impl DynamicClient {
    /// Returns the kind of the objects that this client reads and writes.
    pub fn kind(&self) -> &ResourceKind {
        &self.kind
    }

    fn reads_cache(&self) -> bool {
        let shared = &self.client.shared;
        shared.cache_dynamic && !shared.uncached.contains(self.kind.gvk())
    }

    /// Returns one object of the kind; `None` if it does not exist.
    ///
    /// # Errors
    ///
    /// Returns the error of the cache or of the API server.
    pub async fn get(&self, key: &(impl AsRef<str> + ?Sized)) -> Result<Option<DynamicObject>, ReadError> {
        let operation = Operation::on(OperationVerb::Get, &self.kind, key.as_ref());
        let settings = &self.client.settings;
        let namespace = settings.namespace_of(&operation, operation.namespace.as_deref())?;
        let operation = operation.in_namespace(namespace.as_deref());
        if self.reads_cache() && !self.client.is_intercepted() {
            let object = self.client.cached::<Dynamic>(&operation).await?;
            return Ok(object.map(|object| object.to_dynamic_object()).transpose()?);
        }
        let attempt = operation.to_string();
        let value = if self.reads_cache() {
            self.intercepted_get(operation).await?
        } else {
            self.client.get_value(operation).await?
        };
        Ok(value.map(|value| decoded(&attempt, value)).transpose()?)
    }

    /// Reads one object from the cache, for a client with interceptors, which receive the object as JSON.
    async fn intercepted_get(&self, operation: Operation) -> Result<Option<Value>, ReadError> {
        let client = self.client.clone();
        let last = move |operation: Operation| -> BoxFuture<'static, _> {
            let client = client.clone();
            Box::pin(async move {
                let object = client.cached::<Dynamic>(&operation).await;
                let object = object.map_err(|cause| read_failed(&operation, cause))?;
                let object = object.ok_or_else(|| not_found(&operation))?;
                Ok(json(&object)?)
            })
        };
        self.client.intercepted(operation, last).await
    }

    async fn intercepted_list(
        &self,
        operation: Operation,
        options: &ListOptions,
    ) -> Result<Vec<Value>, ReadError> {
        let (client, options) = (self.client.clone(), options.clone());
        let last = move |operation: Operation| -> BoxFuture<'static, _> {
            let (client, options) = (client.clone(), options.clone());
            Box::pin(async move {
                let objects = client.cached_list::<Dynamic>(&operation.kind, &options).await;
                let objects = objects.map_err(|cause| read_failed(&operation, cause))?;
                let items = objects.iter().map(|object| json(object));
                Ok(serde_json::json!({"items": items.collect::<Result<Vec<_>, _>>()?}))
            })
        };
        Ok(items_of(self.client.intercepted(operation, last).await?))
    }

    /// Returns the objects that the options select.
    ///
    /// # Errors
    ///
    /// Returns the error of the cache or of the API server.
    pub async fn list(&self, options: &ListOptions) -> Result<Vec<DynamicObject>, ReadError> {
        let operation = Operation::of(OperationVerb::List, &self.kind).selecting(options);
        let mut options = options.clone();
        options.namespace = self.client.settings.namespace_of(&operation, options.namespace.as_deref())?;
        if self.reads_cache() && !self.client.is_intercepted() {
            let objects = self.client.cached_list::<Dynamic>(&self.kind, &options).await?;
            return Ok(objects.iter().map(|object| object.to_dynamic_object()).collect::<Result<_, _>>()?);
        }
        let attempt = operation.to_string();
        let values = if self.reads_cache() {
            self.intercepted_list(operation, &options).await?
        } else {
            self.client.list_values(&self.kind, &options).await?
        };
        let gvk = self.kind.gvk();
        let object = |value| {
            let mut object: DynamicObject = decoded(&attempt, value)?;
            // The server sends items in lists of built-in kinds without `apiVersion` and `kind`, so these
            // fields are added.
            object
                .types
                .get_or_insert_with(|| TypeMeta { api_version: gvk.api_version(), kind: gvk.kind.clone() });
            Ok::<_, WriteError>(object)
        };
        Ok(values.into_iter().map(object).collect::<Result<_, _>>()?)
    }

    /// Creates an object; see [`CachedClient::create`].
    ///
    /// # Errors
    ///
    /// The same errors as [`CachedClient::create`].
    pub async fn create(&self, object: &DynamicObject) -> Result<DynamicObject, WriteError> {
        self.write(self.on(OperationVerb::Create, object), object).await
    }

    /// Applies an object; see [`CachedClient::apply`].
    ///
    /// # Errors
    ///
    /// The same errors as [`CachedClient::apply`].
    pub async fn apply(&self, object: &DynamicObject) -> Result<DynamicObject, WriteError> {
        self.apply_under(object, None).await
    }

    async fn apply_under(
        &self,
        object: &DynamicObject,
        subresource: Option<&str>,
    ) -> Result<DynamicObject, WriteError> {
        let mut object = object.clone();
        object.metadata.managed_fields = None;
        let operation = self.on(OperationVerb::Apply, &object).under(subresource);
        self.write(operation, &object).await
    }

    /// Replaces an object by this complete object.
    ///
    /// # Errors
    ///
    /// Returns [`WriteError::View`] for an object read from a cache, which has pruned `managedFields` and may
    /// have pruned more fields: use [`patch`](Self::patch) or [`apply`](Self::apply). Otherwise returns the
    /// error of the API server.
    pub async fn replace(&self, object: &DynamicObject) -> Result<DynamicObject, WriteError> {
        let meta = &object.metadata;
        let was_read = meta.uid.is_some() || meta.resource_version.is_some();
        let operation = self.on(OperationVerb::Replace, object);
        if was_read && meta.managed_fields.is_none() {
            return Err(WriteError::View { attempt: operation.to_string() });
        }
        self.write(operation, object).await
    }

    /// Patches an object; see [`CachedClient::patch`].
    ///
    /// # Errors
    ///
    /// Returns the error of the API server.
    pub async fn patch(
        &self,
        key: &(impl AsRef<str> + ?Sized),
        patch: &Patch,
    ) -> Result<DynamicObject, WriteError> {
        let operation = Operation::on(OperationVerb::Patch(patch.format), &self.kind, key.as_ref());
        self.execute(operation.sending(patch.body.clone())).await
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

    fn on(&self, verb: OperationVerb, object: &DynamicObject) -> Operation {
        let namespace = object.metadata.namespace.as_deref();
        let mut operation = Operation::of(verb, &self.kind).in_namespace(namespace);
        operation.name = object.metadata.name.clone();
        operation
    }

    async fn write(&self, operation: Operation, object: &DynamicObject) -> Result<DynamicObject, WriteError> {
        let mut body = serde_json::to_value(object).map_err(|cause| encode(&operation, cause))?;
        let gvk = self.kind.gvk();
        body["apiVersion"] = Value::from(gvk.api_version());
        body["kind"] = Value::from(gvk.kind.clone());
        self.execute(operation.sending(body)).await
    }

    async fn execute(&self, operation: Operation) -> Result<DynamicObject, WriteError> {
        let attempt = operation.to_string();
        decoded(&attempt, self.client.execute(operation).await?)
    }
}

fn json(object: &Dynamic) -> Result<Value, DecodeError> {
    object.value().map(Arc::unwrap_or_clone)
}

impl fmt::Debug for DynamicClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DynamicClient").field("kind", &self.kind).finish_non_exhaustive()
    }
}

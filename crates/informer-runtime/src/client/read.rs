//! Reads from the cache, or from the API server for uncached kinds.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
#[cfg(feature = "packed")]
use informer_client::Packed;
use informer_client::{DecodeError, Lazy, Metadata, Representation, Typed};
use informer_core::Object;
use parking_lot::Mutex;
use serde_json::Value;

use super::operation::{Operation, OperationVerb};
use super::write::{fetched, wrong_type};
use super::{CachedClient, Fetched, WriteError};
use crate::cache::own_writes::Scope;
use crate::{KubeObject, ListOptions, ReadError, ResourceKind};

impl CachedClient {
    /// Returns one object; `None` if it does not exist. The lazy representation is read, unless the cache is
    /// [pinned](crate::CacheBuilder::pin_representation) to the typed or packed one.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`Cache::get`](crate::Cache::get), and an error if the object cannot be
    /// decoded as its type. For uncached kinds, returns the error of the API server.
    pub async fn get<K: KubeObject>(
        &self,
        key: &(impl AsRef<str> + ?Sized),
    ) -> Result<Option<Fetched<K>>, ReadError> {
        let kind = ResourceKind::of::<K>();
        let mut operation = Operation::on(OperationVerb::Get, &kind, key.as_ref());
        operation.namespace = self.settings.namespace_of(&operation, operation.namespace.as_deref())?;
        if self.reads_live(&kind) {
            let attempt = operation.to_string();
            let value = self.get_value(operation).await?;
            return Ok(value.map(|value| fetched(&attempt, value)).transpose()?);
        }
        if self.is_intercepted() {
            self.intercepted_get(operation).await
        } else {
            self.cached_object(&operation).await
        }
    }

    async fn cached_object<K: KubeObject>(
        &self,
        operation: &Operation,
    ) -> Result<Option<Fetched<K>>, ReadError> {
        let (cache, gvk) = (&self.shared.cache, operation.kind.gvk());
        if cache.is_pinned_to::<Typed<K>>(gvk) {
            let object = self.cached::<Typed<K>>(operation).await?;
            return Ok(object.map(Fetched::of_typed).transpose()?);
        }
        #[cfg(feature = "packed")]
        if cache.is_pinned_to::<Packed<K>>(gvk) {
            let object = self.cached::<Packed<K>>(operation).await?;
            return self.complete(operation, object.map(Fetched::of_packed)).await;
        }
        let object = if cache.is_referenced(gvk) {
            self.referenced_object(operation).await?
        } else {
            self.cached::<Lazy<K>>(operation).await?
        };
        self.complete(operation, object.map(Fetched::of_lazy)).await
    }

    /// Returns one object of a [referenced](crate::Cache::referenced) kind, as [`get`](Self::get)
    /// does.
    pub(crate) async fn get_referenced<K: KubeObject>(
        &self,
        kind: &ResourceKind,
        key: &str,
    ) -> Result<Option<Fetched<K>>, ReadError> {
        let operation = Operation::on(OperationVerb::Get, kind, key);
        let object = self.referenced_object::<K>(&operation).await?;
        self.complete(&operation, object.map(Fetched::of_lazy)).await
    }

    /// Returns a complete object of a kind of which the cache holds the metadata of all objects, after the
    /// metadata contains the program's own writes of the object.
    async fn referenced_object<K: KubeObject>(
        &self,
        operation: &Operation,
    ) -> Result<Option<Arc<Lazy<K>>>, ReadError> {
        let key = operation.key().ok_or_else(|| WriteError::NoName { attempt: operation.to_string() })?;
        self.caught_up::<Metadata<K>>(&operation.kind, Scope::Key(key.clone())).await?;
        self.shared.cache.referenced::<K>()?.get(&key).await
    }

    /// Completes the read of a cached object. If the program needs the object's complete JSON and the cache
    /// does not have it, the object is read from the API server.
    async fn complete<K: KubeObject>(
        &self,
        operation: &Operation,
        object: Option<Result<Fetched<K>, DecodeError>>,
    ) -> Result<Option<Fetched<K>>, ReadError> {
        match object.transpose() {
            Err(error) if error.is_json_needed() => match self.send(operation.clone()).await {
                Ok(value) => Ok(Some(fetched(&operation.to_string(), value)?)),
                Err(error) if error.is_not_found() => Ok(None),
                Err(error) => Err(error.into()),
            },
            object => Ok(object?),
        }
    }

    /// Returns one object in a chosen representation, after the cache contains the program's own writes of
    /// the object.
    pub(crate) async fn get_as<K: KubeObject, O: Representation>(
        &self,
        kind: &ResourceKind,
        key: &str,
        fetched: impl FnOnce(Arc<O>) -> Result<Fetched<K>, DecodeError>,
    ) -> Result<Option<Fetched<K>>, ReadError> {
        let operation = Operation::on(OperationVerb::Get, kind, key);
        let object = self.cached::<O>(&operation).await?;
        self.complete(&operation, object.map(fetched)).await
    }

    /// Returns the selected objects in a chosen representation, after the cache contains the program's own
    /// writes in the namespace or of the kind.
    pub(crate) async fn list_as<K: KubeObject, O: Representation>(
        &self,
        kind: &ResourceKind,
        options: &ListOptions,
        fetched: impl Fn(Arc<O>) -> Result<Fetched<K>, DecodeError>,
    ) -> Result<Vec<Fetched<K>>, ReadError> {
        let objects = self.cached_list::<O>(kind, options).await?;
        self.complete_all(kind, objects, fetched).await
    }

    /// Returns the objects whose controller owner has this uid and namespace, in a chosen representation,
    /// after the cache contains the program's own writes in that namespace or, without one, of the kind.
    pub(crate) async fn owned_as<K: KubeObject, O: Representation>(
        &self,
        kind: &ResourceKind,
        (uid, namespace): (&str, Option<&str>),
        fetched: impl Fn(Arc<O>) -> Result<Fetched<K>, DecodeError>,
    ) -> Result<Vec<Fetched<K>>, ReadError> {
        let scope = list_scope(kind, namespace);
        let objects = self.caught_up::<O>(kind, scope).await?.controlled_by(uid, namespace)?;
        self.complete_all(kind, objects, fetched).await
    }

    /// Completes the read of cached objects, as [`complete`](Self::complete) does. Objects that the API
    /// server has deleted meanwhile are left out.
    async fn complete_all<K: KubeObject, O: Representation>(
        &self,
        kind: &ResourceKind,
        objects: Vec<Arc<O>>,
        fetched: impl Fn(Arc<O>) -> Result<Fetched<K>, DecodeError>,
    ) -> Result<Vec<Fetched<K>>, ReadError> {
        let mut complete = Vec::with_capacity(objects.len());
        for object in objects {
            let key = object.key().clone();
            match fetched(object) {
                Err(error) if error.is_json_needed() => {
                    let operation = Operation::on(OperationVerb::Get, kind, key.as_str());
                    complete.extend(self.complete(&operation, Some(Err(error))).await?);
                }
                result => complete.push(result?),
            }
        }
        Ok(complete)
    }

    /// Returns one cached object, after the cache contains the program's own writes of the object.
    pub(super) async fn cached<O: Representation>(
        &self,
        operation: &Operation,
    ) -> Result<Option<Arc<O>>, ReadError> {
        let key = operation.key().ok_or_else(|| WriteError::NoName { attempt: operation.to_string() })?;
        let informer = self.caught_up::<O>(&operation.kind, Scope::Key(key.clone())).await?;
        informer.get(&key)
    }

    /// Returns the selected cached objects, after the cache contains the program's own writes in the
    /// namespace of the list or, without a namespace, of the whole kind.
    pub(super) async fn cached_list<O: Representation>(
        &self,
        kind: &ResourceKind,
        options: &ListOptions,
    ) -> Result<Vec<Arc<O>>, ReadError> {
        let scope = list_scope(kind, options.namespace.as_deref());
        self.caught_up::<O>(kind, scope).await?.select(options)
    }

    /// Waits until the cache contains a written object or a later state of it. The wait also ends when the
    /// cache follows a restore of the server from a backup.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`get`](Self::get), and [`ReadError::Behind`] after `timeout`.
    pub async fn wait_until_cached<K: KubeObject>(
        &self,
        written: &Fetched<K>,
        timeout: Duration,
    ) -> Result<(), ReadError> {
        let operation = super::write::on_object(OperationVerb::Get, &**written)?;
        let (cache, gvk) = (&self.shared.cache, operation.kind.gvk());
        if cache.is_pinned_to::<Typed<K>>(gvk) {
            return self.shows::<Typed<K>, K>(&operation, written, timeout).await;
        }
        #[cfg(feature = "packed")]
        if cache.is_pinned_to::<Packed<K>>(gvk) {
            return self.shows::<Packed<K>, K>(&operation, written, timeout).await;
        }
        if cache.is_referenced(gvk) {
            return self.shows::<Metadata<K>, K>(&operation, written, timeout).await;
        }
        self.shows::<Lazy<K>, K>(&operation, written, timeout).await
    }

    async fn shows<O: Representation, K: KubeObject>(
        &self,
        operation: &Operation,
        written: &Fetched<K>,
        timeout: Duration,
    ) -> Result<(), ReadError> {
        let informer = self.shared.cache.ready::<O>(&operation.kind).await?;
        let object =
            serde_json::to_value(&**written).map_err(|cause| super::write::encode(operation, cause))?;
        match operation.own_write(&object, 0) {
            Some(write) => informer.wait_for_write(&write, timeout).await,
            None => Err(WriteError::NoName { attempt: operation.to_string() }.into()),
        }
    }

    /// Returns the selected objects in the lazy representation, unordered. Labels, owners and single fields
    /// are read without decoding; [`Lazy::get`] returns the typed object, and [`Fetched::of_lazy`] one that
    /// can be edited.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`Cache::list`](crate::Cache::list). For uncached kinds, returns the error
    /// of the API server.
    pub async fn list<K: KubeObject>(&self, options: &ListOptions) -> Result<Vec<Arc<Lazy<K>>>, ReadError> {
        let kind = ResourceKind::of::<K>();
        let operation = Operation::of(OperationVerb::List, &kind).selecting(options);
        let mut options = options.clone();
        options.namespace = self.settings.namespace_of(&operation, options.namespace.as_deref())?;
        if !self.reads_live(&kind) && !self.is_intercepted() {
            return self.cached_list::<Lazy<K>>(&kind, &options).await;
        }
        let values = self.list_as_json::<K>(operation, &options).await?;
        let items = values.into_iter().map(|value| lazy::<K>(&kind, &value));
        Ok(items.collect::<Result<_, _>>()?)
    }

    /// Returns the metadata of one object from the cache; `None` if it does not exist.
    ///
    /// # Errors
    ///
    /// The same errors as [`Cache::get`](crate::Cache::get).
    pub async fn metadata<K: KubeObject>(
        &self,
        key: &(impl AsRef<str> + ?Sized),
    ) -> Result<Option<Arc<Metadata<K>>>, ReadError> {
        let kind = ResourceKind::of::<K>();
        let operation = Operation::on(OperationVerb::Get, &kind, key.as_ref());
        let namespace = self.settings.namespace_of(&operation, operation.namespace.as_deref())?;
        let operation = operation.in_namespace(namespace.as_deref());
        self.cached::<Metadata<K>>(&operation).await
    }

    fn reads_live(&self, kind: &ResourceKind) -> bool {
        self.shared.uncached.contains(kind.gvk())
    }

    pub(super) fn is_intercepted(&self) -> bool {
        !self.settings.interceptors.is_empty()
    }
}

/// Returns the own writes for which a list waits: those in its namespace, or those of the kind.
fn list_scope(kind: &ResourceKind, namespace: Option<&str>) -> Scope {
    let namespace = namespace.filter(|_| !kind.is_cluster_scoped());
    namespace.map_or(Scope::Kind, |namespace| Scope::Namespace(namespace.to_owned()))
}

fn lazy<K: KubeObject>(kind: &ResourceKind, value: &Value) -> Result<Arc<Lazy<K>>, WriteError> {
    let object = Lazy::from_json(&value.to_string());
    object.map(Arc::new).map_err(|cause| WriteError::Response {
        attempt: format!("list {}", kind.resource()),
        expected: "list of objects".to_owned(),
        cause: Some(cause.into()),
    })
}

/// Reads of a client that has interceptors. The interceptors receive and return objects as JSON.
impl CachedClient {
    /// Reads one object from the cache through the interceptors of the client. If they do not change the
    /// object, the cached one is returned.
    async fn intercepted_get<K: KubeObject>(
        &self,
        operation: Operation,
    ) -> Result<Option<Fetched<K>>, ReadError> {
        let attempt = operation.to_string();
        let read = Arc::new(Mutex::new(None::<(Value, Fetched<K>)>));
        let (client, slot) = (self.clone(), Arc::clone(&read));
        let last = move |operation: Operation| -> BoxFuture<'static, _> {
            let (client, slot) = (client.clone(), Arc::clone(&slot));
            Box::pin(async move {
                let object = client.cached_object::<K>(&operation).await;
                let object = object.map_err(|cause| super::error::read_failed(&operation, cause))?;
                let object = object.ok_or_else(|| super::error::not_found(&operation))?;
                let value = object.json().map_err(|cause| super::write::encode(&operation, cause))?;
                *slot.lock() = Some((value.clone(), object));
                Ok(value)
            })
        };
        let Some(value) = self.intercepted(operation, last).await? else { return Ok(None) };
        let read = read.lock().take();
        match read {
            Some((passed, object)) if passed == value => Ok(Some(object)),
            // An interceptor has changed a view that may lack fields of the object on the server. The result
            // is marked as partial, so that it is not taken for the complete object.
            Some((_, object)) if object.whole().is_none() => {
                Ok(Some(Fetched::of_partial(value).map_err(|cause| wrong_type::<K>(&attempt, &cause))?))
            }
            _ => Ok(Some(fetched(&attempt, value)?)),
        }
    }

    async fn list_as_json<K: KubeObject>(
        &self,
        operation: Operation,
        options: &ListOptions,
    ) -> Result<Vec<Value>, ReadError> {
        if self.reads_live(&operation.kind) {
            return Ok(self.list_values(&operation.kind, options).await?);
        }
        let (client, options) = (self.clone(), options.clone());
        let last = move |operation: Operation| -> BoxFuture<'static, _> {
            let (client, options) = (client.clone(), options.clone());
            Box::pin(async move {
                let objects = client.cached_list::<Lazy<K>>(&operation.kind, &options).await;
                let objects = objects.map_err(|cause| super::error::read_failed(&operation, cause))?;
                let mut items = Vec::with_capacity(objects.len());
                for object in objects {
                    let get = Operation::on(OperationVerb::Get, &operation.kind, object.key().as_str());
                    match client.whole_value(get, &object).await {
                        // A cached object that lacks fields is read from the server. An object that does not
                        // exist there any more is left out of the list.
                        Err(error) if error.is_not_found() => {}
                        item => items.push(item?),
                    }
                }
                Ok(serde_json::json!({ "items": items }))
            })
        };
        Ok(items_of(self.intercepted(operation, last).await?))
    }

    /// Passes a read of the cache through the interceptors. Returns `None` if the cache or an interceptor
    /// responds that the object does not exist.
    pub(super) async fn intercepted(
        &self,
        operation: Operation,
        last: impl Fn(Operation) -> BoxFuture<'static, Result<Value, WriteError>> + Send + Sync + 'static,
    ) -> Result<Option<Value>, ReadError> {
        match super::Next::new(self, Arc::new(last)).run(operation).await {
            Ok(value) => Ok(Some(value)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(WriteError::Read { cause, .. }) => Err(*cause),
            Err(error) => Err(error.into()),
        }
    }
}

impl CachedClient {
    /// Returns the complete object as JSON: from the cache, or from the API server if the cached object may
    /// lack fields. `get` is the operation that reads this object.
    async fn whole_value<K: KubeObject>(
        &self,
        get: Operation,
        object: &Lazy<K>,
    ) -> Result<Value, WriteError> {
        // `json` is called even if the object is partial, which means that the cache may lack some of its
        // fields. The call makes the cache read the kind as JSON, with all fields, from then on.
        let json = object.json().map_err(<serde_json::Error as serde::de::Error>::custom);
        if object.is_partial() {
            return self.send(get).await;
        }
        json.and_then(|json| serde_json::from_str(&json)).map_err(|cause| super::write::encode(&get, cause))
    }
}

pub(super) fn items_of(list: Option<Value>) -> Vec<Value> {
    match list.map(|mut list| list["items"].take()) {
        Some(Value::Array(items)) => items,
        _ => Vec::new(),
    }
}

//! Reads that ask the cache, unless the client is told otherwise.

use std::sync::Arc;
use std::time::Duration;

#[cfg(feature = "packed")]
use informer_client::Packed;
use informer_client::{Lazy, Metadata, Representation, Typed};
use serde_json::Value;

use super::operation::{Operation, OperationVerb};
use super::own_writes::{Expected, Scope};
use super::write::fetched;
use super::{Client, Fetched, WriteError};
use crate::{CacheInformer, KubeKind, KubeObject, ListOptions, ReadError, ScopedKind};

impl Client {
    /// One object; `None` where it does not exist. The cache is asked for the lazy form, unless it holds the kind as typed or packed
    /// [alone](crate::CacheBuilder::only_form).
    ///
    /// # Errors
    ///
    /// As [`Cache::get`](crate::Cache::get), and when the object does not fit its type; of kinds that are not cached, what the
    /// server says.
    pub async fn get<K: KubeObject>(
        &self,
        key: &(impl AsRef<str> + ?Sized),
    ) -> Result<Option<Fetched<K>>, ReadError> {
        let kind = ScopedKind::of::<K>();
        let mut operation = Operation::on(OperationVerb::Get, &kind, key.as_ref());
        let attempt = operation.to_string();
        operation.namespace = self.settings.namespace_of(&operation, operation.namespace.as_deref())?;
        if self.reads_live(&kind) || self.is_intercepted() {
            let value = self.answer_get::<K>(operation).await?;
            return Ok(value.map(|value| fetched(&attempt, value)).transpose()?);
        }
        if self.shared.cache.is_pinned_to::<Typed<K>>(kind.gvk()) {
            let object = self.cached::<Typed<K>>(&operation).await?;
            return Ok(object.map(Fetched::of_typed).transpose()?);
        }
        #[cfg(feature = "packed")]
        if self.shared.cache.is_pinned_to::<Packed<K>>(kind.gvk()) {
            let object = self.cached::<Packed<K>>(&operation).await?;
            return Ok(object.map(Fetched::of_packed).transpose()?);
        }
        let object = self.cached::<Lazy<K>>(&operation).await?;
        Ok(object.map(Fetched::of_lazy).transpose()?)
    }

    /// One object of the cache, after own writes of it.
    pub(super) async fn cached<O: Representation>(
        &self,
        operation: &Operation,
    ) -> Result<Option<Arc<O>>, ReadError> {
        let key = operation.key().ok_or_else(|| WriteError::NoName { attempt: operation.to_string() })?;
        let informer = self.caught_up::<O>(&operation.kind, Scope::Key(key.clone())).await?;
        informer.get(&key)
    }

    /// The objects of the cache that are selected, after own writes of the kind.
    pub(super) async fn cached_list<O: Representation>(
        &self,
        kind: &ScopedKind,
        options: &ListOptions,
    ) -> Result<Vec<Arc<O>>, ReadError> {
        let namespace = options.namespace.clone().filter(|_| !kind.is_cluster_scoped());
        let scope = namespace.map_or(Scope::Kind, Scope::Namespace);
        self.caught_up::<O>(kind, scope).await?.select(options)
    }

    /// The informer of a kind, when it shows what was written before.
    async fn caught_up<O: Representation>(
        &self,
        kind: &ScopedKind,
        scope: Scope,
    ) -> Result<CacheInformer<O>, ReadError> {
        let informer = self.shared.cache.ready::<O>(kind).await?;
        if let Some(own_writes) = &self.shared.own_writes {
            own_writes.shown(&informer, &scope).await?;
        }
        Ok(informer)
    }

    /// Waits until the cache shows an object as it was written, or a later state of it.
    ///
    /// # Errors
    ///
    /// As [`get`](Self::get), and [`ReadError::Behind`] after `timeout`.
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
        self.shows::<Lazy<K>, K>(&operation, written, timeout).await
    }

    /// Waits until the informer of a form shows an object as it was written.
    async fn shows<O: Representation, K: KubeObject>(
        &self,
        operation: &Operation,
        written: &Fetched<K>,
        timeout: Duration,
    ) -> Result<(), ReadError> {
        let key = operation.key().ok_or_else(|| WriteError::NoName { attempt: operation.to_string() })?;
        let informer = self.shared.cache.ready::<O>(&operation.kind).await?;
        let meta = written.meta();
        let labels = meta.labels.iter().flatten().collect();
        let expected = Expected::written(meta.resource_version.as_deref().unwrap_or_default().into(), labels);
        expected.awaited(&informer, Some(&key), timeout).await.map(drop)
    }

    /// The objects that are selected, in no particular order, in the lazy form: labels, owners and single fields cost no decode,
    /// [`Lazy::get`] gives the typed object, and [`Fetched::of_lazy`] one to be changed.
    ///
    /// # Errors
    ///
    /// As [`Cache::list`](crate::Cache::list); of kinds that are not cached, what the server says.
    pub async fn list<K: KubeObject>(&self, options: &ListOptions) -> Result<Vec<Arc<Lazy<K>>>, ReadError> {
        let kind = ScopedKind::of::<K>();
        let operation = Operation::of(OperationVerb::List, &kind).selecting(options);
        let mut options = options.clone();
        options.namespace = self.settings.namespace_of(&operation, options.namespace.as_deref())?;
        if !self.reads_live(&kind) && !self.is_intercepted() {
            return self.cached_list::<Lazy<K>>(&kind, &options).await;
        }
        let values = self.answer_list::<K>(operation, &options).await?;
        let items = values.into_iter().map(|value| lazy::<K>(&kind, &value));
        Ok(items.collect::<Result<_, _>>()?)
    }

    /// The metadata of one object, from the cache; `None` where it does not exist.
    ///
    /// # Errors
    ///
    /// As [`Cache::get`](crate::Cache::get).
    pub async fn metadata<K: KubeKind>(
        &self,
        key: &(impl AsRef<str> + ?Sized),
    ) -> Result<Option<Arc<Metadata<K>>>, ReadError> {
        let kind = ScopedKind::of::<K>();
        let operation = Operation::on(OperationVerb::Get, &kind, key.as_ref());
        let namespace = self.settings.namespace_of(&operation, operation.namespace.as_deref())?;
        let operation = operation.in_namespace(namespace.as_deref());
        self.cached::<Metadata<K>>(&operation).await
    }

    fn reads_live(&self, kind: &ScopedKind) -> bool {
        self.shared.uncached.contains(kind.gvk())
    }

    fn is_intercepted(&self) -> bool {
        !self.settings.interceptors.is_empty()
    }
}

/// A value that a server, or an interceptor, answered as an object of a list.
fn lazy<K: KubeKind>(kind: &ScopedKind, value: &Value) -> Result<Arc<Lazy<K>>, WriteError> {
    let object = Lazy::from_json(&value.to_string());
    object.map(Arc::new).map_err(|cause| WriteError::Answer {
        attempt: format!("list {}", kind.kind().resource()),
        expected: "list of objects".to_owned(),
        cause: Some(cause.into()),
    })
}

/// Answers as JSON: of the server, or of the cache for those who look at every operation.
impl Client {
    async fn answer_get<K: KubeObject>(&self, operation: Operation) -> Result<Option<Value>, ReadError> {
        if self.reads_live(&operation.kind) {
            return Ok(self.get_value(operation).await?);
        }
        let client = self.clone();
        let last = move |operation: Operation| -> futures_util::future::BoxFuture<'static, _> {
            let client = client.clone();
            Box::pin(async move {
                match client.cached::<Lazy<K>>(&operation).await {
                    Ok(Some(object)) => typed_value(&operation, &object),
                    Ok(None) => Err(super::error::not_found(&operation)),
                    Err(cause) => Err(super::error::unread(&operation, cause)),
                }
            })
        };
        match super::Next::new(self, Arc::new(last)).run(operation).await {
            Ok(value) => Ok(Some(value)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(WriteError::Read { cause, .. }) => Err(*cause),
            Err(error) => Err(error.into()),
        }
    }

    async fn answer_list<K: KubeObject>(
        &self,
        operation: Operation,
        options: &ListOptions,
    ) -> Result<Vec<Value>, ReadError> {
        if self.reads_live(&operation.kind) {
            return Ok(self.list_values(&operation.kind, options).await?);
        }
        let (client, options) = (self.clone(), options.clone());
        let last = move |operation: Operation| -> futures_util::future::BoxFuture<'static, _> {
            let (client, options) = (client.clone(), options.clone());
            Box::pin(async move {
                let objects = client.cached_list::<Lazy<K>>(&operation.kind, &options).await;
                let objects = objects.map_err(|cause| super::error::unread(&operation, cause))?;
                let items = objects.iter().map(|object| typed_value(&operation, object));
                Ok(serde_json::json!({"items": items.collect::<Result<Vec<_>, _>>()?}))
            })
        };
        match super::Next::new(self, Arc::new(last)).run(operation).await {
            Ok(mut list) => match list["items"].take() {
                Value::Array(items) => Ok(items),
                _ => Ok(Vec::new()),
            },
            Err(WriteError::Read { cause, .. }) => Err(*cause),
            Err(error) => Err(error.into()),
        }
    }
}

fn typed_value<K: KubeObject>(operation: &Operation, object: &Lazy<K>) -> Result<Value, WriteError> {
    let json = object.json().map_err(<serde_json::Error as serde::de::Error>::custom);
    json.and_then(|json| serde_json::from_str(&json)).map_err(|cause| super::write::encode(operation, cause))
}

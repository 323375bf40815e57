//! Reads that ask the cache, unless the client is told otherwise.

use std::sync::Arc;

use informer_client::{Lazy, Metadata};
use serde_json::Value;

use super::operation::{Operation, OperationVerb};
use super::write::fetched;
use super::{Client, Fetched, WriteError};
use crate::{KubeKind, KubeObject, ListOptions, ReadError, ScopedKind};

impl Client {
    /// One object; `None` where it does not exist.
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
        match self.cached::<K>(&operation).await? {
            Some(object) => Ok(Some(Fetched::of_lazy(object)?)),
            None => Ok(None),
        }
    }

    async fn cached<K: KubeKind>(&self, operation: &Operation) -> Result<Option<Arc<Lazy<K>>>, ReadError> {
        let key = operation.key().ok_or_else(|| WriteError::NoName { attempt: operation.to_string() })?;
        self.shared.cache.get::<K>(&key).await
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
            return self.shared.cache.list::<K>(&options).await;
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
        let key = operation.key().ok_or_else(|| WriteError::NoName { attempt: operation.to_string() })?;
        self.shared.cache.get_of::<Metadata<K>>(kind, &key).await
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
                match client.cached::<K>(&operation).await {
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
                let objects = client.shared.cache.list::<K>(&options).await;
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
    serde_json::from_slice(object.raw_json()).map_err(|cause| super::write::encode(operation, cause))
}

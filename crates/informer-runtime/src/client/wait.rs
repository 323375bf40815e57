//! Waits until an object on the API server meets a condition.

use std::time::Duration;

use futures_util::StreamExt as _;
use informer_cache::Change;
use informer_client::{KubeListWatch, Lazy, WatchChanges};
use informer_core::{FieldSelector, Object as _};

use super::operation::{Operation, OperationVerb};
use super::{Fetched, LiveReader, WriteError};
use crate::wait::WaitCondition;
use crate::{KubeObject, ReadError, ResourceKind};

/// The error of a wait for an object.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WaitError {
    /// The object did not meet the condition in time.
    #[error("wait for {kind} {key}: the condition was not met within {after:?}; {state}")]
    TimedOut {
        /// The kind of the object.
        kind: String,
        /// The key of the object.
        key: String,
        /// The timeout of the wait.
        after: Duration,
        /// Whether the object exists, or the error of the last request.
        state: String,
    },
    /// The object cannot be read: its key is invalid, or it cannot be decoded.
    #[error(transparent)]
    Read(#[from] ReadError),
}

impl LiveReader {
    /// Waits until an object meets a condition, and returns the object, or `None` if the condition is met by
    /// a missing object. [`wait`](crate::wait) has conditions.
    ///
    /// The object is watched at the API server, without a cache. The program needs the permission to `list`
    /// and `watch` it. Failed requests are repeated until the timeout.
    ///
    /// ```no_run
    /// # async fn example(client: informer_runtime::CachedClient) -> Result<(), informer_runtime::WaitError> {
    /// use std::time::Duration;
    /// use informer_runtime::wait::is_pod_ready;
    ///
    /// client.live().wait_until("default/web-0", is_pod_ready, Duration::from_secs(60)).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns [`WaitError::TimedOut`] after `timeout`. Returns an error if the key is invalid, or if the
    /// object cannot be decoded.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future ends the watch.
    ///
    /// Upstream: [`await_condition`](https://docs.rs/kube-runtime/latest/kube_runtime/wait/fn.await_condition.html)
    /// and `kubectl wait`.
    pub async fn wait_until<K: KubeObject>(
        &self,
        key: &(impl AsRef<str> + ?Sized),
        condition: impl WaitCondition<K>,
        timeout: Duration,
    ) -> Result<Option<Fetched<K>>, WaitError> {
        let (kind, client) = (ResourceKind::of::<K>(), self.client());
        let operation = Operation::on(OperationVerb::Get, &kind, key.as_ref());
        let namespace = client.settings.namespace_of(&operation, operation.namespace.as_deref());
        let operation = operation.in_namespace(namespace.map_err(ReadError::from)?.as_deref());
        let no_name = || WriteError::NoName { attempt: operation.to_string() };
        let object_key = operation.key().ok_or_else(no_name).map_err(ReadError::from)?;
        let field = format!("metadata.name={}", object_key.name());
        let field: FieldSelector = field.parse().map_err(|_| no_name()).map_err(ReadError::from)?;
        let source = KubeListWatch::<Lazy<K>>::of(client.api(), &kind).fields(field);
        let source = source.namespace(operation.namespace.clone().unwrap_or_default());

        let mut changes = WatchChanges::new(source);
        let mut exists = false;
        let met = async {
            while let Some(change) = changes.next().await {
                let object = match change {
                    Change::Added(object) | Change::Updated(object) => Some(object),
                    Change::Replaced(list) => list
                        .items
                        .into_iter()
                        .map(|item| item.into_object())
                        .find(|object| *object.key() == object_key),
                    Change::Deleted(_) => None,
                    Change::Undecodable(_) | Change::Bookmark(_) | Change::Resync => continue,
                };
                let typed =
                    object.as_ref().map(|object| object.get()).transpose().map_err(ReadError::from)?;
                exists = typed.is_some();
                if condition.is_met(typed.as_deref()) {
                    let fetched = object.map(Fetched::of_lazy).transpose().map_err(ReadError::from)?;
                    return Ok(Some(fetched));
                }
            }
            Ok::<_, WaitError>(None)
        };
        let ended = tokio::time::timeout(timeout, met).await;
        match ended {
            Ok(Ok(Some(met))) => Ok(met),
            Ok(Err(error)) => Err(error),
            Ok(Ok(None)) | Err(_) => {
                let state = match changes.status().last_error {
                    Some(error) if !changes.status().synced => error.to_string(),
                    _ if exists => "the object exists".to_owned(),
                    _ => "the object does not exist".to_owned(),
                };
                let (kind, key) = (crate::kind::group_kind(&kind), object_key.to_string());
                Err(WaitError::TimedOut { kind, key, after: timeout, state })
            }
        }
    }
}

//! One finalizer of an object: added before the reconciler acts, and removed after the cleanup.

use std::fmt;

use super::Context;
use crate::controller::ReconcileError;
use crate::{BoxError, Fetched, KubeObject, add_finalizer, contains_finalizer, remove_finalizer};

/// The result of [`Context::finalize`], which tells the reconciler whether to continue.
#[must_use = "return from the reconcile if the object is being deleted"]
pub enum Finalization<K> {
    /// The object is not being deleted and has the finalizer. Reconcile this state of it, which is the one
    /// that was passed, or the one that the server returned when it added the finalizer.
    Active(Fetched<K>),
    /// The object is being deleted and does not have the finalizer any more, or it does not exist any more.
    /// Return from the reconcile, and write nothing for the object.
    Deleting,
}

impl<K: KubeObject> fmt::Debug for Finalization<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Active(object) => f.debug_tuple("Active").field(object).finish(),
            Self::Deleting => f.write_str("Deleting"),
        }
    }
}

/// The error of a failed cleanup of [`Context::finalize`]. The object still has the finalizer.
#[derive(Debug, thiserror::Error)]
#[error("finalize {kind} {key}: the cleanup of {finalizer} failed; the object keeps the finalizer")]
#[non_exhaustive]
pub struct CleanupError {
    /// The kind of the object.
    pub kind: String,
    /// The key of the object, which consists of namespace and name.
    pub key: String,
    /// The finalizer whose cleanup failed.
    pub finalizer: String,
    /// The error that the cleanup returned.
    #[source]
    pub cause: BoxError,
}

impl Context {
    /// Keeps an object from being deleted until `cleanup` has succeeded, by means of a finalizer.
    ///
    /// - While the object is not being deleted, this method adds the finalizer `name` if it is missing, with
    ///   one write, and returns [`Finalization::Active`].
    /// - While the object is being deleted and has the finalizer, this method calls `cleanup`. After its
    ///   success it removes the finalizer, so that the server can delete the object, and returns
    ///   [`Finalization::Deleting`].
    /// - While the object is being deleted and does not have the finalizer, for example because another one
    ///   remains, it does nothing and returns [`Finalization::Deleting`].
    ///
    /// Call it before the reconciler creates anything that `cleanup` removes. `name` is a qualified name such
    /// as `example.com/bucket`. For several finalizers, use [`Finalizers`](crate::Finalizers).
    ///
    /// # Contract
    ///
    /// - `cleanup` is never called before the deletion of the object was requested.
    /// - The finalizer is never removed before `cleanup` has succeeded for this state of the object. If
    ///   `cleanup` fails, the object keeps the finalizer.
    /// - Both writes have the uid and the resourceVersion of `object` as preconditions, so no finalizer of
    ///   another program is lost.
    /// - `cleanup` may be called again after it has succeeded: if the removal of the finalizer fails or
    ///   conflicts, or the process crashes before it. So it must be idempotent. The removal also conflicts if
    ///   `cleanup` itself has changed the object; write its status only if the status changes.
    /// - After a restart, a cache may be older than what the last process has seen. `cleanup` may therefore
    ///   also run for an object that no longer exists or was created again. If it finds its resource by name,
    ///   it must read the object with [`live`](crate::CachedClient::live) and compare the uid.
    /// - If `object` already has the finalizer, nothing is written, so [`Finalization::Active`] is only as
    ///   new as `object`. After a restart, a cache may be older than what the last process has seen, and
    ///   still contain an object that was deleted. Before the reconciler creates something that only
    ///   `cleanup` removes, it must read the object with [`live`](crate::CachedClient::live).
    ///
    /// ```
    /// use informer_runtime::{Context, Fetched, Finalization, Outcome, ReconcileError, Request};
    /// use k8s_openapi::api::core::v1::ConfigMap;
    ///
    /// # async fn delete_bucket(_: &str) -> Result<(), ReconcileError> { Ok(()) }
    /// async fn reconcile(request: Request, ctx: Context) -> Result<Outcome, ReconcileError> {
    ///     let Some(map) = ctx.get::<ConfigMap>(&request.key).await? else { return Ok(Outcome::Done) };
    ///     let cleanup = |map: Fetched<ConfigMap>| async move { delete_bucket(&bucket_of(&map)).await };
    ///     let Finalization::Active(map) = ctx.finalize(&map, "example.com/bucket", cleanup).await? else {
    ///         return Ok(Outcome::Done);
    ///     };
    ///     // Create the bucket of `map`.
    /// #   drop(map);
    ///     Ok(Outcome::Done)
    /// }
    /// # fn bucket_of(map: &ConfigMap) -> String { map.metadata.name.clone().unwrap_or_default() }
    /// ```
    ///
    /// # Errors
    ///
    /// - [`CleanupError`] if `cleanup` fails. It contains the error of `cleanup`, so that a
    ///   [terminal](ReconcileError::terminal) error stays terminal, and the priority of that error is kept.
    /// - [`WriteError`](crate::WriteError) if the finalizer cannot be written: a
    ///   [conflict](crate::WriteError::is_conflict) if the object has changed since it was read. If the
    ///   object does not exist any more, the result is [`Finalization::Deleting`] instead.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, `cleanup` may have run in part, and a write may or may not have happened.
    /// The next reconcile continues from the state on the server.
    pub async fn finalize<K, F, Fut>(
        &self,
        object: &Fetched<K>,
        name: &str,
        cleanup: F,
    ) -> Result<Finalization<K>, ReconcileError>
    where
        K: KubeObject,
        F: FnOnce(Fetched<K>) -> Fut,
        Fut: Future<Output = Result<(), ReconcileError>>,
    {
        let is_deleting = object.meta().deletion_timestamp.is_some();
        match (is_deleting, contains_finalizer(&**object, name)) {
            (false, true) => return Ok(Finalization::Active(object.clone())),
            (true, false) => return Ok(Finalization::Deleting),
            (false, false) => {}
            (true, true) => cleanup(object.clone()).await.map_err(|error| failed(object, name, error))?,
        }
        let mut edited = object.edit();
        if is_deleting {
            remove_finalizer(&mut *edited, name);
        } else {
            add_finalizer(&mut *edited, name);
        }
        match self.client.update(&edited).await {
            Ok(updated) if !is_deleting => Ok(Finalization::Active(updated)),
            Ok(_) => Ok(Finalization::Deleting),
            Err(error) if error.is_not_found() => Ok(Finalization::Deleting),
            Err(error) => Err(error.into()),
        }
    }
}

/// Returns the error of a failed cleanup with the object and the finalizer, and with the priority of `error`.
fn failed<K: KubeObject>(object: &Fetched<K>, finalizer: &str, error: ReconcileError) -> ReconcileError {
    let priority = error.priority();
    let failed = ReconcileError::from(CleanupError {
        kind: K::kind(&()).into_owned(),
        key: object.key().map(|key| key.to_string()).unwrap_or_default(),
        finalizer: finalizer.to_owned(),
        cause: error.into_cause(),
    });
    match priority {
        Some(priority) => failed.with_priority(priority),
        None => failed,
    }
}

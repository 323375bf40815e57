//! Read-modify-write of an object by key, repeated after conflicts.

use super::conflict::edit_until_stored;
use super::operation::{Operation, OperationVerb};
use super::{CachedClient, Fetched, WriteError};
use crate::{KubeObject, ReadError, ResourceKind};

impl CachedClient {
    /// Changes an object: reads it, calls `change` with a copy, and [updates](Self::update) the object with
    /// the difference. Returns the object as the server stored it, or `None` if it does not exist.
    ///
    /// The first read is that of [`get`](Self::get), usually from the cache. If the update conflicts with
    /// another write, the object is read from the API server, and `change` is called again with a copy of
    /// that state, after a random delay of some milliseconds that grows. At most 5 updates are sent. As with
    /// `update`, fields that the type does not know are kept, and changes of the status are ignored if the
    /// kind has a status subresource; see [`edit_status`](Self::edit_status). The program needs the
    /// permission to `patch` the object, and to `get` it after a conflict.
    ///
    /// If `change` changes nothing, no update is sent, and the result is the object as it was read. If the
    /// cache has not received the newest change of another program, that object is older than the one on the
    /// server. `change` should derive the new state from its argument, because it may be called several
    /// times, also with a new object of the same name.
    ///
    /// ```no_run
    /// # async fn example(client: informer_runtime::CachedClient) -> Result<(), Box<dyn std::error::Error>> {
    /// use k8s_openapi::api::apps::v1::Deployment;
    ///
    /// let scaled = client.edit("default/web", |web: &mut Deployment| web.spec.replicas = Some(3)).await?;
    /// println!("{}", if scaled.is_some() { "scaled" } else { "it does not exist" });
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// - [`WriteError::Read`] if the cache cannot be read.
    /// - A [conflict](WriteError::is_conflict) if the last update conflicts, too.
    /// - [`WriteError::OtherObject`] if `change` modifies the name, the namespace or the uid.
    /// - Otherwise the error of the API server.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the object may or may not have been updated.
    pub async fn edit<K: KubeObject>(
        &self,
        key: &(impl AsRef<str> + ?Sized),
        change: impl FnMut(&mut K),
    ) -> Result<Option<Fetched<K>>, WriteError> {
        self.edit_under(key.as_ref(), None, change).await
    }

    /// Changes the status of an object, as [`edit`](Self::edit) changes the object: through the status
    /// subresource, so that changes of other fields are not sent.
    ///
    /// ```no_run
    /// # async fn example(client: informer_runtime::CachedClient) -> Result<(), Box<dyn std::error::Error>> {
    /// use k8s_openapi::api::apps::v1::Deployment;
    ///
    /// let observed = |web: &mut Deployment| {
    ///     let generation = web.metadata.generation;
    ///     web.status.get_or_insert_default().observed_generation = generation;
    /// };
    /// client.edit_status("default/web", observed).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// The same errors as [`edit`](Self::edit). The error is a 404 (`NotFound`) if the object exists and its
    /// kind has no status subresource.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the status may or may not have been updated.
    pub async fn edit_status<K: KubeObject>(
        &self,
        key: &(impl AsRef<str> + ?Sized),
        change: impl FnMut(&mut K),
    ) -> Result<Option<Fetched<K>>, WriteError> {
        self.edit_under(key.as_ref(), Some("status"), change).await
    }

    async fn edit_under<K: KubeObject>(
        &self,
        key: &str,
        subresource: Option<&str>,
        mut change: impl FnMut(&mut K),
    ) -> Result<Option<Fetched<K>>, WriteError> {
        let read = self.get::<K>(key).await.map_err(|cause| read_failed::<K>(key, cause))?;
        let update = |object: Fetched<K>| {
            let mut edited = object.edit();
            change(&mut edited);
            async move { self.update_under(&edited, subresource).await }
        };
        let live = self.live();
        edit_until_stored(read, subresource.is_some(), update, || live.get(key)).await
    }
}

fn read_failed<K: KubeObject>(key: &str, cause: ReadError) -> WriteError {
    match cause {
        ReadError::Live(error) => error,
        cause => {
            let operation = Operation::on(OperationVerb::Get, &ResourceKind::of::<K>(), key);
            super::error::read_failed(&operation, cause)
        }
    }
}

//! Read-modify-write of an object by key, repeated after conflicts.

use std::time::Duration;

use super::operation::{Operation, OperationVerb};
use super::{CachedClient, Fetched, WriteError};
use crate::random::jitter;
use crate::{KubeObject, ReadError, ResourceKind};

/// The maximum number of updates of one edit, as in client-go's `retry.DefaultRetry`. An object that others
/// write more often than this should be changed with a patch or by server-side apply.
const MAX_EDIT_ATTEMPTS: u32 = 5;

/// The delay before the second update of an edit. It doubles with each conflict, and is multiplied by a
/// random factor from 0.5 to 1.5, so that clients with a conflict do not meet again.
const FIRST_DELAY: Duration = Duration::from_millis(10);

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
        let mut read = self.get::<K>(key).await.map_err(|cause| read_failed::<K>(key, cause))?;
        let mut attempt = 1;
        while let Some(object) = read {
            let mut edited = object.edit();
            change(&mut edited);
            match self.update_under(&edited, subresource).await {
                Ok(updated) => return Ok(Some(updated)),
                Err(error) if error.is_conflict() && attempt < MAX_EDIT_ATTEMPTS => {
                    tokio::time::sleep(delay_after(attempt)).await;
                    attempt += 1;
                    read = self.live().get(key).await?;
                }
                Err(error) if error.is_not_found() => {
                    // The object was deleted since it was read, and possibly created again. If it exists and
                    // the update is one of a subresource, its kind does not have that subresource.
                    read = self.live().get(key).await?;
                    let is_retried = subresource.is_none() && attempt < MAX_EDIT_ATTEMPTS;
                    if read.is_some() && !is_retried {
                        return Err(error);
                    }
                    attempt += 1;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }
}

/// Returns the delay after the conflict of an attempt, which is counted from 1.
fn delay_after(attempt: u32) -> Duration {
    (FIRST_DELAY * 2_u32.pow(attempt - 1)).mul_f64(0.5 + jitter())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_and_vary_by_half() {
        for (attempt, milliseconds) in [(1, 10), (2, 20), (3, 40), (4, 80)] {
            let middle = Duration::from_millis(milliseconds);
            let delay = delay_after(attempt);
            assert!((middle.mul_f64(0.5)..=middle.mul_f64(1.5)).contains(&delay), "{delay:?}");
        }
    }
}

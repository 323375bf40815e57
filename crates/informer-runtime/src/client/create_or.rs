//! Methods of the client that create an object, or update it if it exists.

use informer_client::PatchFormat;
use serde_json::json;

use super::operation::{Operation, OperationVerb};
use super::write::{fetched, on_object};
use super::{CachedClient, Edited, Fetched, WriteError};
use crate::{BoxError, KubeObject};

/// The change that `create_or_update` or `create_or_patch` made to an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OperationResult {
    /// The object existed in the desired state, so nothing was written.
    Unchanged,
    /// The object did not exist and was created.
    Created,
    /// The object existed and was updated. Its status was not written.
    Updated,
    /// The object existed, and both the object and its status were updated.
    UpdatedStatus,
    /// The object existed, and only its status was updated.
    UpdatedStatusOnly,
}

impl CachedClient {
    /// Creates or updates an object. `change` sets the desired state; it is called with a copy of the cached
    /// object, or with `object` if there is none. The status is not written; see
    /// [`create_or_patch`](Self::create_or_patch).
    ///
    /// ```no_run
    /// # async fn example(client: informer_runtime::CachedClient) -> Result<(), Box<dyn std::error::Error>> {
    /// use k8s_openapi::api::core::v1::ConfigMap;
    ///
    /// let mut map = ConfigMap::default();
    /// map.metadata.name = Some("settings".to_owned());
    /// map.metadata.namespace = Some("default".to_owned());
    /// let (map, result) = client.create_or_update(map, |map| {
    ///     map.data.get_or_insert_default().insert("color".to_owned(), "blue".to_owned());
    ///     Ok(())
    /// }).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the error of `change`, an error if `change` modifies the name or the namespace, and the errors
    /// of reads and writes.
    pub async fn create_or_update<K: KubeObject>(
        &self,
        object: K,
        change: impl FnOnce(&mut K) -> Result<(), BoxError>,
    ) -> Result<(Fetched<K>, OperationResult), WriteError> {
        match self.created_or_edited(object, change).await? {
            CreatedOrEdited::Created(created) => Ok((created, OperationResult::Created)),
            CreatedOrEdited::Edited(edited) => {
                let updated = self.update(&edited).await?;
                let result = if version(&updated) == version(edited.original()) {
                    OperationResult::Unchanged
                } else {
                    OperationResult::Updated
                };
                Ok((updated, result))
            }
        }
    }

    /// Creates or updates an object, as [`create_or_update`](Self::create_or_update) does. If the object
    /// exists, a changed status is written by a second request.
    ///
    /// # Errors
    ///
    /// The same errors as [`create_or_update`](Self::create_or_update).
    pub async fn create_or_patch<K: KubeObject>(
        &self,
        object: K,
        change: impl FnOnce(&mut K) -> Result<(), BoxError>,
    ) -> Result<(Fetched<K>, OperationResult), WriteError> {
        let edited = match self.created_or_edited(object, change).await? {
            CreatedOrEdited::Created(created) => return Ok((created, OperationResult::Created)),
            CreatedOrEdited::Edited(edited) => edited,
        };
        let operation = on_object(OperationVerb::Patch(PatchFormat::Merge), &**edited.original())?;
        let operation = operation.under(Some("status"));
        // The difference of the status is computed before the object is updated. It may require reading the
        // complete object from the server, which still has the version of the edited copy only before the
        // update.
        let status = self.difference(&operation, &edited, Some("status")).await?;
        let updated = self.update(&edited).await?;
        let changed = version(&updated) != version(edited.original());
        let Some(mut patch) = status else {
            let result = if changed { OperationResult::Updated } else { OperationResult::Unchanged };
            return Ok((updated, result));
        };
        patch["metadata"] =
            json!({"uid": updated.meta().uid, "resourceVersion": updated.meta().resource_version});
        let response = self.execute(operation.clone().sending(patch)).await?;
        let result =
            if changed { OperationResult::UpdatedStatus } else { OperationResult::UpdatedStatusOnly };
        Ok((fetched(&operation.to_string(), response)?, result))
    }

    async fn created_or_edited<K: KubeObject>(
        &self,
        mut object: K,
        change: impl FnOnce(&mut K) -> Result<(), BoxError>,
    ) -> Result<CreatedOrEdited<K>, WriteError> {
        let operation = self.in_own_namespace(on_object(OperationVerb::Get, &object)?)?;
        let attempt = format!("create or update {}", operation.kind.resource());
        let key = operation.key().ok_or_else(|| WriteError::NoName { attempt: attempt.clone() })?;
        let held = self.get::<K>(&key).await.map_err(|cause| super::error::read_failed(&operation, cause))?;
        let Some(held) = held else {
            let before = identity(&object);
            change(&mut object).map_err(|cause| WriteError::Stopped { attempt: attempt.clone(), cause })?;
            same_identity(&attempt, &before, &identity(&object))?;
            return Ok(CreatedOrEdited::Created(self.create(&object).await?));
        };
        let mut edited = held.edit();
        let before = identity(&*edited);
        change(&mut edited).map_err(|cause| WriteError::Stopped { attempt: attempt.clone(), cause })?;
        same_identity(&attempt, &before, &identity(&*edited))?;
        Ok(CreatedOrEdited::Edited(edited))
    }

    fn in_own_namespace(&self, operation: Operation) -> Result<Operation, WriteError> {
        let namespace = self.settings.namespace_of(&operation, operation.namespace.as_deref())?;
        Ok(operation.in_namespace(namespace.as_deref()))
    }
}

enum CreatedOrEdited<K> {
    Created(Fetched<K>),
    Edited(Edited<K>),
}

fn version<K: KubeObject>(object: &Fetched<K>) -> Option<&str> {
    object.meta().resource_version.as_deref()
}

fn identity<K: KubeObject>(object: &K) -> (Option<String>, Option<String>) {
    (object.meta().namespace.clone(), object.meta().name.clone())
}

type Identity = (Option<String>, Option<String>);

fn same_identity(attempt: &str, before: &Identity, after: &Identity) -> Result<(), WriteError> {
    let field = match (before.0 == after.0, before.1 == after.1) {
        (true, true) => return Ok(()),
        (false, _) => "metadata.namespace",
        _ => "metadata.name",
    };
    Err(WriteError::OtherObject { attempt: attempt.to_owned(), field })
}

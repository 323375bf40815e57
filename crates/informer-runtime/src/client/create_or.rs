//! Making an object what it should be, whether it exists or not.

use informer_client::PatchFormat;
use serde_json::json;

use super::operation::{Operation, OperationVerb};
use super::write::{fetched, on_object};
use super::{CachedClient, Edited, Fetched, WriteError};
use crate::{BoxError, KubeObject};

/// What was done to an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OperationResult {
    /// Nothing: it is as it should be.
    Unchanged,
    /// It was created.
    Created,
    /// It was changed.
    Updated,
    /// It and its status were changed.
    UpdatedStatus,
    /// Its status alone was changed.
    UpdatedStatusOnly,
}

impl CachedClient {
    /// Creates an object, or changes the one that exists: `change` is given `object`, or a copy of what the cache holds, and makes
    /// of it what it should be. Status is not written; see [`create_or_patch`](Self::create_or_patch).
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
    /// What `change` fails with; when it changes the name or the namespace; otherwise as reads and writes.
    pub async fn create_or_update<K: KubeObject>(
        &self,
        object: K,
        change: impl FnOnce(&mut K) -> Result<(), BoxError>,
    ) -> Result<(Fetched<K>, OperationResult), WriteError> {
        match self.created_or_edited(object, change).await? {
            Found::Created(created) => Ok((created, OperationResult::Created)),
            Found::Edited(edited) => {
                let updated = self.update(&edited).await?;
                let result = match version(&updated) == version(edited.original()) {
                    true => OperationResult::Unchanged,
                    false => OperationResult::Updated,
                };
                Ok((updated, result))
            }
        }
    }

    /// As [`create_or_update`](Self::create_or_update), and writes a changed status too, by a request of its own, where the object
    /// exists.
    ///
    /// # Errors
    ///
    /// As [`create_or_update`](Self::create_or_update).
    pub async fn create_or_patch<K: KubeObject>(
        &self,
        object: K,
        change: impl FnOnce(&mut K) -> Result<(), BoxError>,
    ) -> Result<(Fetched<K>, OperationResult), WriteError> {
        let edited = match self.created_or_edited(object, change).await? {
            Found::Created(created) => return Ok((created, OperationResult::Created)),
            Found::Edited(edited) => edited,
        };
        let operation = on_object(OperationVerb::Patch(PatchFormat::Merge), &**edited.original())?;
        let operation = operation.under(Some("status"));
        // Computed before the update, since it may have to read the object at the version of the edited copy.
        let status = self.difference(&operation, &edited, Some("status")).await?;
        let updated = self.update(&edited).await?;
        let changed = version(&updated) != version(edited.original());
        let Some(mut patch) = status else {
            let result = if changed { OperationResult::Updated } else { OperationResult::Unchanged };
            return Ok((updated, result));
        };
        patch["metadata"] =
            json!({"uid": updated.meta().uid, "resourceVersion": updated.meta().resource_version});
        let answer = self.execute(operation.clone().sending(patch)).await?;
        let result =
            if changed { OperationResult::UpdatedStatus } else { OperationResult::UpdatedStatusOnly };
        Ok((fetched(&operation.to_string(), answer)?, result))
    }

    async fn created_or_edited<K: KubeObject>(
        &self,
        mut object: K,
        change: impl FnOnce(&mut K) -> Result<(), BoxError>,
    ) -> Result<Found<K>, WriteError> {
        let operation = self.in_own_namespace(on_object(OperationVerb::Get, &object)?)?;
        let attempt = format!("create or update {}", operation.kind.kind().resource());
        let key = operation.key().ok_or_else(|| WriteError::NoName { attempt: attempt.clone() })?;
        let held = self.get::<K>(&key).await.map_err(|cause| super::error::unread(&operation, cause))?;
        let Some(held) = held else {
            let before = identity(&object);
            change(&mut object).map_err(|cause| WriteError::Stopped { attempt: attempt.clone(), cause })?;
            same_identity(&attempt, &before, &identity(&object))?;
            return Ok(Found::Created(self.create(&object).await?));
        };
        let mut edited = held.edit();
        let before = identity(&*edited);
        change(&mut edited).map_err(|cause| WriteError::Stopped { attempt: attempt.clone(), cause })?;
        same_identity(&attempt, &before, &identity(&*edited))?;
        Ok(Found::Edited(edited))
    }

    fn in_own_namespace(&self, operation: Operation) -> Result<Operation, WriteError> {
        let namespace = self.settings.namespace_of(&operation, operation.namespace.as_deref())?;
        Ok(operation.in_namespace(namespace.as_deref()))
    }
}

enum Found<K> {
    Created(Fetched<K>),
    Edited(Edited<K>),
}

fn version<K: KubeObject>(object: &Fetched<K>) -> Option<&str> {
    object.meta().resource_version.as_deref()
}

/// Namespace and name.
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

//! Updates and patches of existing objects.

use std::sync::Arc;

use serde_json::Value;

use crate::admission::plugins::PendingWrite;
use crate::admission::{Phase, Scope};
use crate::model::cause::Cause;
use crate::model::error::ApiError;
use crate::model::json::Object;
use crate::model::json::parse;
use crate::model::kinds::{KindDefinition, Traits};
use crate::model::metadata;
use crate::model::object_meta;
use crate::model::object_meta::{metadata_of, metadata_of_mut};
use crate::model::write_options::{FieldValidation, WriteMode};
use crate::pipeline::merge::{merge_update, undecodable};
use crate::pipeline::patch::PatchType;
use crate::pipeline::retry::{OnConflict, WriteError, retry};
use crate::pipeline::scope::Drafted;
use crate::pipeline::{Pipeline, Written, grace_of, is_terminating_object, managed_fields, preconditions};
use crate::registry::storage::{Expect, Stored, draft};

impl Pipeline {
    pub(crate) async fn update(
        &self,
        scope: Scope<'_>,
        name: &str,
        object: Value,
        mode: WriteMode,
    ) -> Result<Written, ApiError> {
        let kind = scope.kind();
        let mut object = metadata::checked(&self.schema, kind, scope.namespace, object)?;
        let warnings = self.decode(scope, &mut object, mode)?;
        match self.update_decoded(scope, name, &object, mode).await {
            Ok(written) => Ok(written.warned(warnings)),
            Err(error) => Err(error.warned(warnings)),
        }
    }

    /// Updates an object with a new state that was already decoded and defaulted.
    async fn update_decoded(
        &self,
        scope: Scope<'_>,
        name: &str,
        object: &Object,
        mode: WriteMode,
    ) -> Result<Written, ApiError> {
        let kind = scope.kind();
        metadata::check_url_name(object, name)?;
        let given = metadata::version(object)?;
        retry(kind, name, OnConflict::for_request(given.is_some()), || async move {
            let Some(current) = self.find_if_exists(scope.resource, scope.namespace, name)? else {
                if !kind.traits.has(Traits::UPSERT) || mode == WriteMode::Status {
                    return Err(ApiError::not_found(kind, name).into());
                }
                let mut object = object.clone();
                metadata_of_mut(&mut object).remove("resourceVersion");
                return Ok(self.create(scope, Value::Object(object), mode).await?);
            };
            if given.is_some_and(|given| given != current.version) {
                return Err(scope.stale_version_error(self, object, name).into());
            }
            preconditions::check_precondition(kind, &current, object)?;
            let needs_version = kind.traits.has(Traits::NEEDS_VERSION) && !mode.is_of_program();
            if given.is_none() && needs_version {
                return Err(ApiError::version_missing(kind, name).into());
            }
            let old = self.read_stored(scope, current).await?;
            let mut new = object.clone();
            self.manage_updated(scope, &old.object, &mut new, mode).await;
            let written = self.replace_read(scope, &old, new, mode).await?;
            self.after_write(scope, name);
            Ok(written)
        })
        .await
    }

    /// Replaces the stored object `current`.
    pub(crate) async fn replace(
        &self,
        scope: Scope<'_>,
        current: Arc<Stored>,
        object: Object,
        mode: WriteMode,
    ) -> Result<Written, WriteError> {
        let old = self.read_stored(scope, current).await?;
        self.replace_read(scope, &old, object, mode).await
    }

    pub(crate) async fn read_stored(
        &self,
        scope: Scope<'_>,
        current: Arc<Stored>,
    ) -> Result<Existing, ApiError> {
        let shown = self.present(scope, &current).await?;
        let object = self.read_back(scope, &shown);
        Ok(Existing { stored: current, shown, object })
    }

    /// Parses a stored object for the comparison with one from a client. The result is normalized, because
    /// internal writes may store zero values that clients omit.
    fn read_back(&self, scope: Scope<'_>, shown: &Stored) -> Value {
        let mut value = parse(shown.as_slice());
        if let (Some(message), Value::Object(object)) = (self.message(scope.kind()), &mut value)
            && scope.validation != FieldValidation::Unchecked
        {
            crate::model::typed::form(message, object);
        }
        value
    }

    /// Replaces an object that [`read_stored`](Self::read_stored) has returned.
    async fn replace_read(
        &self,
        scope: Scope<'_>,
        existing: &Existing,
        mut object: Object,
        mode: WriteMode,
    ) -> Result<Written, WriteError> {
        let kind = scope.kind();
        let Existing { stored: current, shown, object: whole } = existing;
        let Value::Object(old) = whole else { return Err(ApiError::unknown_resource().into()) };
        let written = existing.written();
        let before = Some((old, current.version));
        if mode == WriteMode::Resize {
            self.run_resize_plugins(scope, old, &mut object);
        }
        self.admit(scope, Phase::Mutate, Some(&mut object), before).await?;
        scope.check_escalation(self, Some(old), &object)?;
        let (mut new, schema_warnings) = merge_update(kind, whole, object, mode, || self.now())?;
        scope.check_params(self, current.key.name(), Some(old), &new)?;
        let mut api_warnings = scope.api_warnings(&mut new, Some(whole), mode);
        api_warnings.splice(0..0, schema_warnings);
        let _allocation = match mode {
            WriteMode::Main | WriteMode::Whole => self.allocate(scope, &mut new, Some(old), mode)?,
            _ => None,
        };
        let quota_write = scope.quota_write(mode, Some(whole));
        let key = current.key.clone();
        let write = PendingWrite { scope, mode, name: key.name(), object: &new, old: Some(old) };
        let warnings = self.run_validating_plugins(write, api_warnings)?;
        let warned = |error: ApiError| error.warned(warnings.clone());
        self.admit(scope, Phase::Validate, Some(&mut new), before).await.map_err(warned)?;
        if can_be_removed(kind, &new) {
            let charged = self.charge(quota_write, &mut new).map_err(warned)?;
            // The update has removed the last finalizer of an object that is being deleted, so the object is
            // removed. The response has the old resourceVersion.
            let object = draft(kind, key, &new).preview(current.version);
            self.remove_charged(scope, current, charged)?;
            return Ok(Written { object, stored: None, created: false, warnings });
        }
        if is_same(written.as_ref().unwrap_or(old), &new) {
            self.check_quotas(quota_write, &mut new).map_err(warned)?;
            return Ok(Written::stored(Arc::clone(shown), false).warned(warnings));
        }
        if scope.converts() {
            self.check_quotas(quota_write, &mut new).map_err(warned)?;
        }
        let Drafted { draft, back } = self.drafted(scope, key, &mut new).await?;
        let charged = self.charge(quota_write, &mut new).map_err(warned)?;
        let stored = self.commit_charged(scope, draft, Expect::At(current.version), charged)?;
        Ok(Written::stored(scope.in_request_version(stored, back)?, false).warned(warnings))
    }

    /// Stores an object without validation and admission, unless another write has changed the stored object.
    pub(crate) fn put(
        &self,
        scope: Scope<'_>,
        current: &Stored,
        object: &Object,
    ) -> Result<Arc<Stored>, WriteError> {
        let draft = scope.draft(current.key.clone(), &mut object.clone());
        self.commit(scope, draft, Expect::At(current.version))
    }

    pub(crate) async fn patch(
        &self,
        scope: Scope<'_>,
        name: &str,
        patch: &PatchType,
        mode: WriteMode,
    ) -> Result<Written, ApiError> {
        retry(scope.kind(), name, OnConflict::for_request(patch.sets_version()), || async move {
            let current = self.find(scope.resource, scope.namespace, name)?;
            let old = self.read_stored(scope, current).await?;
            let (object, warnings) = self.apply_patch(scope, &old.object, patch)?;
            let written = self.put_patched(scope, &old, object, mode).await;
            let written = written.map_err(|error| error.warned(warnings.clone()))?;
            self.after_write(scope, name);
            Ok(written.warned(warnings))
        })
        .await
    }

    /// Applies a patch to an object and decodes the result. Also returns warnings about unknown fields.
    fn apply_patch(
        &self,
        scope: Scope<'_>,
        old: &Value,
        patch: &PatchType,
    ) -> Result<(Object, Vec<String>), ApiError> {
        let kind = scope.kind();
        let patched = || {
            let patched = patch.apply(&self.schema, kind, old.clone())?;
            self.check_patched_type(kind, patch, &patched)?;
            metadata::checked(&self.schema, kind, scope.namespace, patched)
        };
        let mut object = patched()?;
        let again = || patched().ok().map(Value::Object);
        let warnings = self.decode_typed(scope, &mut object, patch.origin(&again))?;
        Ok((object, warnings))
    }

    /// Checks that a patch keeps the type of an object.
    fn check_patched_type(
        &self,
        kind: &KindDefinition,
        patch: &PatchType,
        patched: &Value,
    ) -> Result<(), ApiError> {
        let mismatch = patched
            .as_object()
            .filter(|_| !kind.is_custom())
            .and_then(|patched| metadata::BodyType::of(kind).mismatch(&self.schema, patched));
        let again = || Some(patched.clone());
        mismatch.map_or(Ok(()), |why| Err(undecodable(kind, patch.origin(&again), &why)))
    }

    /// Replaces the stored object by a patched one that was already decoded and defaulted.
    async fn put_patched(
        &self,
        scope: Scope<'_>,
        old: &Existing,
        mut object: Object,
        mode: WriteMode,
    ) -> Result<Written, WriteError> {
        let name = old.stored.key.name();
        metadata::check_url_name(&object, name)?;
        if metadata::version(&object)?.is_some_and(|version| version != old.stored.version) {
            return Err(scope.stale_version_error(self, &object, name).into());
        }
        self.manage_updated(scope, &old.object, &mut object, mode).await;
        self.replace_read(scope, old, object, mode).await
    }
}

pub(crate) struct Existing {
    pub(crate) stored: Arc<Stored>,
    /// The stored object in the version of the request.
    pub(crate) shown: Arc<Stored>,
    /// `shown`, parsed.
    pub(crate) object: Value,
}

impl Existing {
    /// Returns the object as it was written, if reads return it with other fields. An update that writes
    /// these fields is stored.
    fn written(&self) -> Option<Object> {
        let written = self.stored.written().filter(|_| Arc::ptr_eq(&self.stored, &self.shown))?;
        match parse(written) {
            Value::Object(object) => Some(object),
            _ => None,
        }
    }
}

/// Returns true if an object is being deleted and has neither finalizers nor a grace period left.
fn can_be_removed(kind: &KindDefinition, object: &Object) -> bool {
    let has_finalizers = !object_meta::finalizers(object).is_empty()
        || kind.is("", "Namespace") && !crate::model::kinds::core::namespace::finalizers(object).is_empty();
    is_terminating_object(object) && grace_of(object) == 0 && !has_finalizers
}

/// Returns true if two objects differ only in the resourceVersion and in the times of `managedFields`. Such
/// an update is not stored.
fn is_same(old: &Object, new: &Object) -> bool {
    let (Some(before), Some(after)) = (metadata_of(old), metadata_of(new)) else { return old == new };
    // The object that a client sends may lack `kind` and `apiVersion`.
    are_same_except(old, new, &["kind", "apiVersion"], "metadata")
        && are_same_except(before, after, &["resourceVersion"], object_meta::FIELDS)
        && managed_fields::are_same(before.get(object_meta::FIELDS), after.get(object_meta::FIELDS))
}

/// Returns true if two objects are equal, apart from the member `but` and the values of the members `taken`.
/// The new object may omit a member of `taken`, but it must not have one that the old object lacks.
fn are_same_except(old: &Object, new: &Object, taken: &[&str], but: &str) -> bool {
    let is_compared = |name: &String| name != but && !taken.contains(&name.as_str());
    let [before, after] = [old, new].map(|object| object.iter().filter(move |(name, _)| is_compared(name)));
    taken.iter().all(|name| old.contains_key(*name) || !new.contains_key(*name)) && before.eq(after)
}

impl ApiError {
    fn version_missing(kind: &KindDefinition, name: &str) -> Self {
        let cause = Cause::invalid("metadata.resourceVersion", "0", "must be specified for an update");
        let mut error = Self::invalid(kind, name, cause);
        // For this error kube-apiserver names the resource instead of the kind.
        error.message = format!(
            "{} \"{name}\" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an update",
            kind.qualified_resource()
        );
        if let Some(details) = &mut error.details {
            details.kind.clone_from(&kind.gvr.resource);
        }
        error
    }
}

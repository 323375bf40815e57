//! Converts the object of a write between the version of the request and the storage version.

use std::sync::Arc;

use informer_core::ObjectKey;
use serde_json::Value;

use crate::admission::quota::QuotaWrite;
use crate::admission::{Phase, Scope};
use crate::auth::Requester;
use crate::model::error::ApiError;
use crate::model::json::Object;
use crate::model::metadata;
use crate::model::object_meta::metadata_of_mut;
use crate::model::rules::{as_value, with_value};
use crate::model::write_options::{FieldValidation, WriteMode};
use crate::pipeline::Pipeline;
use crate::registry::conversion::Converted;
use crate::registry::storage::{Draft, EventType, Stored, draft, draft_managed, draft_stored};

pub(crate) struct Drafted {
    pub(crate) draft: Draft,
    /// The stored object converted back to the version of the request, if the conversion webhook was called.
    pub(crate) back: Option<Result<Object, ApiError>>,
}

impl<'a> Scope<'a> {
    /// Returns true if this write must call the conversion webhook of the CRD.
    pub(crate) fn converts(&self) -> bool {
        self.conversion && self.resource.converter.is_some()
    }

    /// Returns a stored object in the version of the resource. If only a conversion webhook could convert it,
    /// the object stays in its stored version.
    pub(crate) fn present_without_webhook(&self, stored: &Arc<Stored>) -> Arc<Stored> {
        self.resource.present(stored, EventType::Modified).unwrap_or_else(|| Arc::clone(stored))
    }

    /// Returns true if no code reads the managed fields of a new object before it is stored. The managed
    /// fields are then generated as text, which is faster.
    pub(crate) fn stores_managers_as_text(&self) -> bool {
        let plain = self.resource.stored_as.is_none() && self.resource.converter.is_none();
        plain && !self.kind().is_custom() && !self.kind().expires() && self.admission.is_none()
    }

    /// Returns the object in the form in which it is stored, with the defaults of the storage version. Does
    /// not call the conversion webhook of a CRD; [`Pipeline::drafted`] does.
    pub(crate) fn draft(&self, key: ObjectKey, object: &mut Object) -> Draft {
        if self.resource.stored_as.is_none() {
            self.prune(object);
        }
        if self.resource.converter.is_none() {
            let kind = self.resource.storage_kind();
            return match self.resource.to_stored(object) {
                Some(object) => draft_stored(kind, key, &object),
                None => draft_stored(kind, key, object),
            };
        }
        let mut kind = self.kind().clone();
        if let Some(version) = object.get("apiVersion").and_then(Value::as_str) {
            version.clone_into(&mut kind.api_version);
        }
        draft(&kind, key, object)
    }

    /// Prunes fields that admission webhooks have added to a custom resource and that its schema does not
    /// contain.
    fn prune(&self, object: &mut Object) {
        if let (Some(_), Some(schema)) = (self.admission, &self.kind().schema) {
            schema.prune(object);
        }
    }

    /// Returns a newly stored object, converted to the version of the request.
    pub(crate) fn in_request_version(
        &self,
        stored: Arc<Stored>,
        back: Option<Result<Object, ApiError>>,
    ) -> Result<Arc<Stored>, ApiError> {
        match (back, &self.resource.converter) {
            (Some(back), _) if self.dry_run => {
                let shown = draft(self.kind(), stored.key.clone(), &back?);
                Ok(Arc::new(shown.seal_unstored(stored.version, EventType::Modified)))
            }
            (Some(back), Some(converter)) => Ok(converter.keep(self.kind(), &stored, &back?)),
            _ => Ok(self.resource.present(&stored, EventType::Modified).unwrap_or(stored)),
        }
    }

    /// Records the user who creates an object, in kinds that contain this user.
    pub(crate) fn record_requester(&self, object: &mut Object) {
        let set_requester = self.kind().descriptor.hooks.set_requester;
        if let (Some(set_requester), Some(Requester { user, .. })) = (set_requester, self.requester) {
            with_value(object, |object| set_requester(object, user));
        }
    }

    pub(crate) fn check_escalation(
        &self,
        shared: &Pipeline,
        old: Option<&Object>,
        new: &Object,
    ) -> Result<(), ApiError> {
        shared.check_escalation(self.requester, (self.kind(), self.namespace), (old, new))
    }

    pub(crate) fn check_params(
        &self,
        shared: &Pipeline,
        name: &str,
        old: Option<&Object>,
        new: &Object,
    ) -> Result<(), ApiError> {
        shared.check_params(self.requester, (self.kind(), name), (old, new))
    }

    /// Returns the conflict error for a stale resourceVersion, or the error of the RBAC escalation check,
    /// which takes precedence.
    pub(crate) fn stale_version_error(&self, shared: &Pipeline, object: &Object, name: &str) -> ApiError {
        let refused = self.check_escalation(shared, None, object).err();
        refused.unwrap_or_else(|| ApiError::modified(self.kind(), name))
    }

    /// Returns the write in the form that quota and LimitRange checks need. Returns `None` for internal
    /// writes, which are not limited.
    pub(crate) fn quota_write(&self, mode: WriteMode, old: Option<&'a Value>) -> Option<QuotaWrite<'a>> {
        let bounded = self.validation != FieldValidation::Unchecked && !mode.is_of_program();
        let namespace = self.namespace.filter(|_| bounded)?;
        Some(QuotaWrite { kind: &self.resource.kind, namespace, mode, old, dry_run: self.dry_run })
    }

    /// Returns the API warnings for a valid object; none for internal writes.
    pub(crate) fn api_warnings(
        &self,
        object: &mut Object,
        old: Option<&Value>,
        mode: WriteMode,
    ) -> Vec<String> {
        match self.validation {
            FieldValidation::Unchecked => Vec::new(),
            _ => as_value(object, |object| self.kind().warnings(object, old, mode)),
        }
    }

    pub(crate) fn key(&self, name: &str) -> Result<ObjectKey, ApiError> {
        let namespace = self.namespace.unwrap_or_default();
        ObjectKey::new(namespace, name).map_err(|error| ApiError::bad_request(error.to_string()))
    }
}

impl Pipeline {
    pub(crate) async fn present(
        &self,
        scope: Scope<'_>,
        stored: &Arc<Stored>,
    ) -> Result<Arc<Stored>, ApiError> {
        match scope.resource.present(stored, EventType::Modified) {
            Some(shown) => Ok(shown),
            None if scope.converts() => self.present_from_webhook(scope.resource, stored).await,
            None => Ok(Arc::clone(stored)),
        }
    }

    /// Returns a stored object like [`present`](Self::present), but without cached conversions, because a
    /// deletion in kube-apiserver reads the stored object.
    pub(crate) async fn present_uncached(
        &self,
        scope: Scope<'_>,
        stored: &Arc<Stored>,
    ) -> Result<Arc<Stored>, ApiError> {
        if scope.converts() && !scope.resource.is_shown(stored) {
            self.present_from_webhook(scope.resource, stored).await
        } else {
            self.present(scope, stored).await
        }
    }

    /// Returns a new object in the form in which it is stored. `managers` is the JSON text of its managed
    /// fields if the object [does not contain them](Scope::stores_managers_as_text).
    pub(crate) async fn drafted_new(
        &self,
        scope: Scope<'_>,
        key: ObjectKey,
        object: &mut Object,
        managers: Option<&str>,
    ) -> Result<Drafted, ApiError> {
        match managers {
            Some(managers) => {
                Ok(Drafted { draft: draft_managed(scope.kind(), key, object, managers), back: None })
            }
            None => self.drafted(scope, key, object).await,
        }
    }

    /// Returns the object in the form in which it is stored. If its CRD has a conversion webhook, the webhook
    /// converts the object, and `object` is replaced by the one that the webhook received.
    pub(crate) async fn drafted(
        &self,
        scope: Scope<'_>,
        key: ObjectKey,
        object: &mut Object,
    ) -> Result<Drafted, ApiError> {
        let resource = scope.resource;
        if !scope.converts() {
            return Ok(Drafted { draft: scope.draft(key, object), back: None });
        }
        if resource.stored_as.is_none() {
            scope.prune(object);
            return Ok(Drafted { draft: draft_stored(scope.kind(), key, object), back: None });
        }
        let Converted { object: sent, stored, back } =
            self.convert_to_store(resource, std::mem::take(object)).await?;
        *object = sent;
        Ok(Drafted { draft: draft_stored(resource.storage_kind(), key, &stored), back: Some(back) })
    }

    /// Runs one admission phase of a write. `old` is the stored object with its resourceVersion. Without
    /// `object` the operation is DELETE.
    pub(crate) async fn admit(
        &self,
        scope: Scope<'_>,
        phase: Phase,
        mut object: Option<&mut Object>,
        old: Option<(&Object, u64)>,
    ) -> Result<(), ApiError> {
        let Some(request) = scope.admission else { return Ok(()) };
        if let (Phase::Validate, Some(object), Some((_, version))) = (phase, &mut object, old) {
            metadata_of_mut(object).insert("resourceVersion".into(), version.to_string().into());
        }
        let sent = object.as_deref_mut().map(std::mem::take);
        let admitted = self.run_admission(request, phase, sent, old.map(|(old, _)| old)).await?;
        let (Some(object), Some(admitted)) = (object, admitted) else { return Ok(()) };
        *object = admitted;
        metadata::check_namespace(scope.namespace, object)
    }
}

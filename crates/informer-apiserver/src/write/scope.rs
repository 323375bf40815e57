//! Where a write goes, and what that makes of the object.

use std::sync::Arc;

use informer_core::ObjectKey;
use serde_json::Value;

use super::metadata::{self, metadata_of_mut};
use super::{Object, Twice, Validation, WriteMode};
use crate::admission::{Attempt, Occasion, Operation, Phase};
use crate::auth::Requester;
use crate::consumption::Taking;
use crate::convert::Converted;
use crate::error::ApiError;
use crate::kinds::{Kind, Resource};
use crate::rules::{advice, as_value};
use crate::server::Shared;
use crate::storage::{Draft, EventType, Stored, draft, draft_managed};

/// Where a write goes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scope<'a> {
    pub(crate) resource: &'a Arc<Resource>,
    pub(crate) namespace: Option<&'a str>,
    /// Decide everything and write nothing.
    pub(crate) dry_run: bool,
    /// What happens to fields that are not known.
    pub(crate) validation: Validation,
    /// Webhooks are asked, where there are any.
    pub(crate) admission: Option<&'a Attempt>,
    /// Objects are converted by a webhook, where one does that. Writes of this process leave objects in the version that they
    /// are stored in.
    pub(crate) conversion: Option<&'a Attempt>,
    /// Who comes to manage what is written. Writes of this process leave the managers of an object alone.
    pub(crate) manager: Option<&'a str>,
    /// Who has to be allowed to give away what roles and bindings say, and to create what is missing, where the request was
    /// another than to create. Writes of this process may.
    pub(crate) requester: Option<Requester<'a>>,
    /// What a strict reader finds in the body, where members are in it twice: what was read has only the last of each.
    pub(crate) twice: Option<&'a Twice>,
    /// The object is changed by way of its scale: plugins look at what is written itself.
    pub(crate) scales: bool,
}

/// An object that is ready to be stored.
pub(super) struct Drafted {
    pub(super) draft: Draft,
    /// What it is in the version of the request, where a webhook said so.
    pub(super) back: Option<Result<Object, ApiError>>,
}

impl<'a> Scope<'a> {
    /// A write that is really done.
    pub(crate) fn new(resource: &'a Arc<Resource>, namespace: Option<&'a str>) -> Self {
        let validation = Validation::Unchecked;
        Self {
            resource,
            namespace,
            dry_run: false,
            validation,
            admission: None,
            conversion: None,
            manager: None,
            requester: None,
            twice: None,
            scales: false,
        }
    }

    /// A write of the embedding program: decoded, defaulted and validated, unless it is raw.
    pub(crate) fn of_program(
        resource: &'a Arc<Resource>,
        namespace: Option<&'a str>,
        mode: WriteMode,
    ) -> Self {
        let validation = if mode == WriteMode::Raw { Validation::Unchecked } else { Validation::Ignore };
        Self { validation, ..Self::new(resource, namespace) }
    }

    /// A stored object in the version of the resource.
    pub(crate) fn present(&self, stored: &Arc<Stored>) -> Result<Arc<Stored>, ApiError> {
        match (self.resource.present(stored, EventType::Modified), self.conversion) {
            (Some(shown), _) => Ok(shown),
            (None, Some(attempt)) => attempt.show(self.resource, stored),
            (None, None) => Ok(Arc::clone(stored)),
        }
    }

    /// What is done about members that are not known, by their paths, and those that are there twice: warnings, or why the object is
    /// refused.
    pub(crate) fn judge(&self, unknown: Vec<String>) -> Result<Vec<String>, String> {
        let unknown = unknown.into_iter().map(|path| format!("unknown field {path:?}")).collect();
        self.validation.judge(match self.twice {
            Some(twice) => twice.told(unknown),
            None => unknown,
        })
    }

    /// Ends a write that waits for a webhook.
    pub(crate) fn asked(&self) -> Result<(), ApiError> {
        match self.conversion {
            Some(attempt) if attempt.has_question() => {
                Err(ApiError::internal("the conversion webhook has not been asked"))
            }
            _ => Ok(()),
        }
    }

    /// The same, whatever was said of it before: deletions look at what is stored.
    pub(crate) fn present_anew(&self, stored: &Arc<Stored>) -> Result<Arc<Stored>, ApiError> {
        match (&self.resource.converter, self.conversion) {
            (Some(_), Some(attempt)) if !self.resource.is_shown(stored) => {
                attempt.show(self.resource, stored)
            }
            _ => self.present(stored),
        }
    }

    /// Whether the managers of a new object are of no interest to anybody before it is stored as it is.
    pub(super) fn leaves_managers(&self) -> bool {
        let plain = self.resource.stored_as.is_none() && self.resource.converter.is_none();
        plain && !self.kind().is_custom() && !self.kind().expires() && self.admission.is_none()
    }

    /// A new object as it is stored. The managers that are told beside it are those of one that
    /// [leaves them alone](Self::leaves_managers).
    pub(super) fn draft_new(
        &self,
        key: ObjectKey,
        object: &mut Object,
        managers: Option<&str>,
    ) -> Result<Drafted, ApiError> {
        match managers {
            Some(managers) => {
                Ok(Drafted { draft: draft_managed(self.kind(), key, object, managers), back: None })
            }
            None => self.draft(key, object, 0),
        }
    }

    /// The object as it is stored, in the place of one of this version (0 for none): with the defaults of the version that
    /// it is stored in. Where a webhook converts it, the object becomes what the webhook was shown.
    pub(super) fn draft(
        &self,
        key: ObjectKey,
        object: &mut Object,
        version: u64,
    ) -> Result<Drafted, ApiError> {
        let kind = self.resource.storage_kind();
        let plain = |draft: Draft| Drafted { draft, back: None };
        if self.resource.stored_as.is_none() {
            self.prune(object);
        }
        if self.resource.converter.is_none() {
            return Ok(plain(match self.resource.to_stored(object) {
                Some(object) => draft(kind, key, &object),
                None => draft(kind, key, object),
            }));
        }
        match (self.conversion, &self.resource.stored_as) {
            (Some(attempt), Some(_)) => {
                let Converted { object: shown, stored, back } =
                    attempt.store(self.resource, object, version)?;
                *object = shown;
                Ok(Drafted { draft: draft(kind, key, &stored), back: Some(back) })
            }
            (Some(_), _) => Ok(plain(draft(self.kind(), key, object))),
            (None, _) => {
                // It stays in the version that it has.
                let mut kind = self.kind().clone();
                if let Some(version) = object.get("apiVersion").and_then(Value::as_str) {
                    version.clone_into(&mut kind.api_version);
                }
                Ok(plain(draft(&kind, key, object)))
            }
        }
    }

    /// Takes out what webhooks have put into an object and its kind does not know.
    fn prune(&self, object: &mut Object) {
        if let (Some(_), Some(schema)) = (self.admission, &self.kind().schema) {
            schema.prune(object);
        }
    }

    /// What was written, in the version of the resource.
    pub(super) fn shown(
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

    /// Refuses a role or a binding that gives away more than what its writer has.
    pub(super) fn check_escalation(
        &self,
        shared: &Shared,
        old: Option<&Object>,
        new: &Object,
    ) -> Result<(), ApiError> {
        shared.check_escalation(self.requester, (self.kind(), self.namespace), (old, new))
    }

    /// Refuses a policy or a binding whose writer cannot read its parameters.
    pub(super) fn check_params(
        &self,
        shared: &Shared,
        name: &str,
        old: Option<&Object>,
        new: &Object,
    ) -> Result<(), ApiError> {
        shared.check_params(self.requester, (self.kind(), name), (old, new))
    }

    /// The refusal of a change to another version than the stored one. Whether its writer may do it at all comes first.
    pub(super) fn outdated(&self, shared: &Shared, object: &Object, name: &str) -> ApiError {
        let refused = self.check_escalation(shared, None, object).err();
        refused.unwrap_or_else(|| ApiError::modified(self.kind(), name))
    }

    pub(super) fn kind(&self) -> &Kind {
        &self.resource.kind
    }

    /// The quota usage of a write that replaces `old`; `None` for writes of this process, which no quota limits.
    pub(super) fn taking(&self, mode: WriteMode, old: Option<&'a Value>) -> Option<Taking<'a>> {
        let bounded = self.validation != Validation::Unchecked && !mode.is_of_program();
        let namespace = self.namespace.filter(|_| bounded)?;
        Some(Taking { kind: &self.resource.kind, namespace, mode, old, dry_run: self.dry_run })
    }

    /// Asks webhooks about an object that is to be new, or to come after `old` of this version, or to go (then there is none).
    pub(crate) fn admit(
        &self,
        phase: Phase,
        object: Option<&mut Object>,
        old: Option<(&Object, u64)>,
    ) -> Result<(), ApiError> {
        let Some(attempt) = self.admission else { return Ok(()) };
        let operation = match (&object, old) {
            (None, _) => Operation::Delete,
            (Some(_), None) => Operation::Create,
            (Some(_), Some(_)) => Operation::Update,
        };
        let version = old.map_or(0, |(_, version)| version);
        let mut object = object;
        if let (Phase::Validate, Operation::Update, Some(object)) = (phase, operation, &mut object) {
            metadata_of_mut(object).insert("resourceVersion".into(), version.to_string().into());
        }
        let occasion = Occasion { phase, operation, version };
        attempt.review(occasion, object.as_deref_mut(), old.map(|(old, _)| old))?;
        match object {
            Some(object) => metadata::check_namespace(self.namespace, object),
            None => Ok(()),
        }
    }

    /// What a client is told of an object that is valid; writes of this process are told nothing.
    pub(super) fn advice(&self, object: &mut Object, old: Option<&Value>, mode: WriteMode) -> Vec<String> {
        match self.validation {
            Validation::Unchecked => Vec::new(),
            _ => as_value(object, |object| advice(self.kind(), object, old, mode)),
        }
    }

    pub(super) fn key(&self, name: &str) -> Result<ObjectKey, ApiError> {
        let namespace = self.namespace.unwrap_or_default();
        ObjectKey::new(namespace, name).map_err(|error| ApiError::bad_request(error.to_string()))
    }
}

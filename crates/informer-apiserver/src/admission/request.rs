//! The scope of a write, shared by admission and the write pipeline.

use std::sync::Arc;

use super::AdmissionRequest;
use crate::auth::Requester;
use crate::model::duplicates::DuplicateKeys;
use crate::model::kinds::KindDefinition;
use crate::model::write_options::{FieldValidation, WriteMode};
use crate::registry::Resource;

/// The target of a write, and the options of the request that admission and the write pipeline need.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scope<'a> {
    pub(crate) resource: &'a Arc<Resource>,
    pub(crate) namespace: Option<&'a str>,
    /// `dryRun` of the request: run all checks, but do not store the object.
    pub(crate) dry_run: bool,
    /// `fieldValidation` of the request: the handling of unknown and duplicate fields.
    pub(crate) validation: FieldValidation,
    /// The attributes for policies and webhooks. `None` for internal writes, which skip admission.
    pub(crate) admission: Option<&'a AdmissionRequest>,
    /// Convert objects with the conversion webhook of their CRD. Internal writes skip the conversion and use
    /// objects in their stored version.
    pub(crate) conversion: bool,
    /// The field manager of the write. `None` for internal writes, which leave `managedFields` unchanged.
    pub(crate) manager: Option<&'a str>,
    /// The user of the request, for two checks: RBAC escalation (`escalate`, `bind`), and the permission to
    /// create if an update or patch targets a missing object. `None` for internal writes, which skip both
    /// checks.
    pub(crate) requester: Option<Requester<'a>>,
    /// Duplicate keys in the request body. The decoded object contains only the last value of each key.
    pub(crate) twice: Option<&'a DuplicateKeys>,
    /// The write comes from the `scale` subresource of the object. The admission plugins for the object do
    /// not run, because the request contains a Scale.
    pub(crate) scales: bool,
}

impl<'a> Scope<'a> {
    /// Returns the scope of an internal write that is stored (no dry run), without validation and admission.
    pub(crate) fn new(resource: &'a Arc<Resource>, namespace: Option<&'a str>) -> Self {
        let validation = FieldValidation::Unchecked;
        Self {
            resource,
            namespace,
            dry_run: false,
            validation,
            admission: None,
            conversion: false,
            manager: None,
            requester: None,
            twice: None,
            scales: false,
        }
    }

    /// Returns the scope of a write by the embedding program. The object is decoded, defaulted and validated,
    /// unless `mode` is raw.
    pub(crate) fn of_program(
        resource: &'a Arc<Resource>,
        namespace: Option<&'a str>,
        mode: WriteMode,
    ) -> Self {
        let validation =
            if mode == WriteMode::Raw { FieldValidation::Unchecked } else { FieldValidation::Ignore };
        Self { validation, ..Self::new(resource, namespace) }
    }

    /// Conversion webhooks are called only if `admission` is present.
    pub(crate) fn admitted_by(self, admission: Option<&'a AdmissionRequest>) -> Self {
        Self { admission, conversion: admission.is_some(), ..self }
    }

    /// Handles unknown fields (given by their paths) and duplicate keys as `fieldValidation` says.
    ///
    /// Returns the warnings for the client, or the message with which the object is rejected.
    pub(crate) fn check_fields(&self, unknown: Vec<String>) -> Result<Vec<String>, String> {
        let unknown = unknown.into_iter().map(|path| format!("unknown field {path:?}")).collect();
        self.validation.enforce(match self.twice {
            Some(twice) => twice.with_unknown_fields(unknown),
            None => unknown,
        })
    }

    pub(crate) fn kind(&self) -> &KindDefinition {
        &self.resource.kind
    }
}

//! The scope of a write, shared by admission and the write pipeline.

use std::sync::Arc;

use super::AdmissionRequest;
use crate::auth::Requester;
use crate::model::duplicates::DuplicateKeys;
use crate::model::kinds::Kind;
use crate::model::write_options::{Validation, WriteMode};
use crate::registry::Resource;

/// The target of a write and the options of its request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scope<'a> {
    pub(crate) resource: &'a Arc<Resource>,
    pub(crate) namespace: Option<&'a str>,
    /// Run all checks, but do not store the result.
    pub(crate) dry_run: bool,
    /// Validation of unknown and duplicate fields.
    pub(crate) validation: Validation,
    /// Attributes for policies and webhooks. `None` for internal writes, which are not admitted.
    pub(crate) admission: Option<&'a AdmissionRequest>,
    /// Call the conversion webhook of a CRD. Internal writes keep objects in their stored version.
    pub(crate) conversion: bool,
    /// The field manager. Internal writes leave `managedFields` unchanged.
    pub(crate) manager: Option<&'a str>,
    /// The user for the RBAC escalation check (`escalate`, `bind`), and for the authorization of a create
    /// when an update or patch targets a missing object. `None` for internal writes, which skip both checks.
    pub(crate) requester: Option<Requester<'a>>,
    /// Duplicate keys in the request body. The decoded object has only the last value of each.
    pub(crate) twice: Option<&'a DuplicateKeys>,
    /// The object is modified through its `scale` subresource. Plugins check the written resource itself.
    pub(crate) scales: bool,
}

impl<'a> Scope<'a> {
    /// A write that is stored (no dry run), without validation and admission.
    pub(crate) fn new(resource: &'a Arc<Resource>, namespace: Option<&'a str>) -> Self {
        let validation = Validation::Unchecked;
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

    /// A write of the embedding program. It is decoded, defaulted and validated, unless `mode` is raw.
    pub(crate) fn of_program(
        resource: &'a Arc<Resource>,
        namespace: Option<&'a str>,
        mode: WriteMode,
    ) -> Self {
        let validation = if mode == WriteMode::Raw { Validation::Unchecked } else { Validation::Ignore };
        Self { validation, ..Self::new(resource, namespace) }
    }

    /// The same write with admission attributes. Conversion webhooks are called if `admission` is present.
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

    pub(crate) fn kind(&self) -> &Kind {
        &self.resource.kind
    }
}

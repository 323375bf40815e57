//! The request of a write, as admission and the write pipeline see it.

use std::sync::Arc;

use super::AdmissionRequest;
use crate::auth::Requester;
use crate::model::duplicates::Twice;
use crate::model::kinds::Kind;
use crate::model::write_options::{Validation, WriteMode};
use crate::registry::Resource;

/// Where a write goes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scope<'a> {
    pub(crate) resource: &'a Arc<Resource>,
    pub(crate) namespace: Option<&'a str>,
    /// Decide everything and write nothing.
    pub(crate) dry_run: bool,
    /// What happens to fields that are not known.
    pub(crate) validation: Validation,
    /// Policies and webhooks admit the write. `None` for writes of this process.
    pub(crate) admission: Option<&'a AdmissionRequest>,
    /// The conversion webhook of a CRD is called. Writes of this process leave objects in the version in which they are stored.
    pub(crate) conversion: bool,
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
            conversion: false,
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

    /// The same write, admitted with these attributes; then the conversion webhook of a CRD is called, too.
    pub(crate) fn admitted_by(self, admission: Option<&'a AdmissionRequest>) -> Self {
        Self { admission, conversion: admission.is_some(), ..self }
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

    pub(crate) fn kind(&self) -> &Kind {
        &self.resource.kind
    }
}

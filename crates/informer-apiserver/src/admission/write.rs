//! The write that admission checks, and the version in which a webhook or policy receives it.

use std::sync::Arc;

use informer_core::Gvr;
use serde_json::Value;

use super::attributes::{ReviewKind, resource_json};
use super::{AdmissionAttributes, AdmissionRequest, Object, Operation, Phase};
use crate::registry::Resource;

/// The new and the old object of a write.
pub(super) type Pair<'a> = (Option<&'a Object>, Option<&'a Object>);

pub(super) struct Write<'a> {
    pub(super) attributes: &'a AdmissionAttributes,
    pub(super) operation: Operation,
    pub(super) object: Option<&'a Object>,
    pub(super) old: Option<&'a Object>,
}

impl Write<'_> {
    /// Returns the name of the written object. A CREATE with `generateName` has no name in its path, so the
    /// name comes from the object.
    pub(super) fn name(&self) -> &str {
        let generated = || self.object.and_then(|object| object.get("metadata")?.get("name")?.as_str());
        match self.attributes.name.as_str() {
            "" if self.operation == Operation::Create => generated().unwrap_or_default(),
            name => name,
        }
    }
}

/// The version in which a webhook or policy receives a write, as resource and kind. With `matchPolicy:
/// Equivalent` it can differ from the version of the request.
#[derive(Debug, Clone)]
pub(super) struct Invocation {
    pub(super) gvr: Gvr,
    pub(super) kind: ReviewKind,
    /// The resource and version to which the objects are converted; `None` if the webhook or policy receives
    /// them in the version of the request.
    pub(super) converted: Option<Arc<Resource>>,
}

impl Invocation {
    pub(super) fn of_request(attributes: &AdmissionAttributes) -> Self {
        Self { gvr: attributes.gvr.clone(), kind: attributes.kind.clone(), converted: None }
    }
}

/// One admission phase of a request.
pub(super) struct PhaseContext<'a> {
    pub(super) request: &'a AdmissionRequest,
    pub(super) resource: Arc<Resource>,
    pub(super) phase: Phase,
    pub(super) operation: Operation,
}

impl PhaseContext<'_> {
    pub(super) fn write<'b>(&'b self, (object, old): Pair<'b>) -> Write<'b> {
        Write { attributes: &self.request.attributes, operation: self.operation, object, old }
    }
}

pub(super) fn invocation_json(invocation: &Invocation) -> (Value, Value) {
    (invocation.kind.json(), resource_json(&invocation.gvr))
}

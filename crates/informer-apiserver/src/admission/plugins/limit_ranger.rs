//! The `LimitRanger` plugin: applies and enforces the LimitRanges of a namespace.

use serde_json::Value;

use super::{AdmissionPlugin, NewObject, PendingWrite, part};
use crate::admission::Admission;
use crate::admission::quota::limits;
use crate::model::error::ApiError;
use crate::model::object_meta::display_name;
use crate::model::rules::with_value;

pub(super) struct LimitRanger;

impl AdmissionPlugin for LimitRanger {
    fn name(&self) -> &'static str {
        "LimitRanger"
    }

    fn mutate(&self, admission: &Admission, write: &mut NewObject<'_>) -> Result<(), ApiError> {
        if write.kind.is("", "Pod") {
            for range in admission.in_namespace("limitranges", write.namespace.unwrap_or_default()) {
                with_value(write.object, |pod| limits::fill(&range, pod));
            }
        }
        Ok(())
    }

    /// Validates new pods, and new or updated PVCs that are not being deleted, against the LimitRanges of the
    /// namespace.
    fn validate(&self, admission: &Admission, write: PendingWrite<'_>) -> Result<Vec<String>, ApiError> {
        let validate = match &*write.kind().kind {
            "Pod" if write.old.is_none() => limits::pod_problems,
            "PersistentVolumeClaim" => limits::claim_problems,
            _ => return Ok(Vec::new()),
        };
        let deleted = write.old.is_some_and(|old| part(old, "metadata")["deletionTimestamp"].is_string());
        let Some(namespace) = write.scope.namespace.filter(|_| write.kind().gvr.group.is_empty() && !deleted)
        else {
            return Ok(Vec::new());
        };
        for range in admission.in_namespace("limitranges", namespace) {
            let problems = validate(&range, &Value::Object(write.object.clone()));
            if !problems.is_empty() {
                let why = limits::join_errors(&problems);
                return Err(ApiError::forbidden(write.kind(), display_name(write.object), &why));
            }
        }
        Ok(Vec::new())
    }
}

//! The `LimitRanger` plugin: applies and enforces the LimitRanges of a namespace.

use serde_json::Value;

use super::{AdmissionPlugin, NewObject, PendingWrite, is_terminating};
use crate::admission::Admission;
use crate::admission::quota::limits;
use crate::model::error::ApiError;
use crate::model::object_meta::display_name;
use crate::model::rules::with_value;
use crate::model::write_options::WriteMode;

pub(super) struct LimitRanger;

impl AdmissionPlugin for LimitRanger {
    fn name(&self) -> &'static str {
        "LimitRanger"
    }

    fn mutate(&self, admission: &Admission, write: &mut NewObject<'_>) -> Result<(), ApiError> {
        if write.kind.is("", "Pod") {
            fill(admission, write);
        }
        Ok(())
    }

    fn mutate_resize(&self, admission: &Admission, write: &mut NewObject<'_>) {
        fill(admission, write);
    }

    fn validates(&self, mode: WriteMode) -> bool {
        matches!(mode, WriteMode::Main | WriteMode::Resize)
    }

    /// Validates new and resized pods, and new or updated PVCs that are not being deleted, against the
    /// LimitRanges of the namespace.
    fn validate(&self, admission: &Admission, write: PendingWrite<'_>) -> Result<Vec<String>, ApiError> {
        let validate = match &*write.kind().kind {
            "Pod" if write.old.is_none() || write.mode == WriteMode::Resize => limits::pod_problems,
            "PersistentVolumeClaim" => limits::claim_problems,
            _ => return Ok(Vec::new()),
        };
        let deleted = write.old.is_some_and(is_terminating);
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

/// Applies the default requests and limits of the namespace to the containers of a pod.
fn fill(admission: &Admission, write: &mut NewObject<'_>) {
    for range in admission.in_namespace("limitranges", write.namespace.unwrap_or_default()) {
        with_value(write.object, |pod| limits::fill(&range, pod));
    }
}

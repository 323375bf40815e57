//! Applies the patch produced by a MutatingAdmissionPolicy.

use serde_json::Value;

use super::mutating::PatchValue;
use super::patches;
use crate::admission::write::Invocation;
use crate::admission::{Admission, Object};
use crate::model::error::ApiError;
use crate::model::kinds::KindDefinition;
use crate::model::managed_fields::{Type, atomics, merge_unmanaged, validate};
use crate::registry::Resource;

pub(super) enum ApplyError {
    /// The patch cannot be computed or applied. The policy's `failurePolicy` decides whether the write is
    /// rejected.
    Denied(String),
    /// The write is rejected, whatever the policy's `failurePolicy` is.
    Refused(ApiError),
}

pub(super) struct PatchTarget<'a> {
    pub(super) resource: &'a Resource,
    /// The object has the kind of the resource (main resource or `status`), and not the kind of another
    /// subresource such as `Scale`.
    pub(super) whole: bool,
    pub(super) invocation: &'a Invocation,
}

impl Admission {
    pub(super) fn changed(
        &self,
        target: &PatchTarget<'_>,
        object: &Object,
        patch: PatchValue,
    ) -> Result<Object, ApplyError> {
        match patch {
            PatchValue::Object(patch) => {
                self.apply_configuration(target, object, patch).map_err(ApplyError::Denied)
            }
            PatchValue::Operations(patch) => self.apply_json_patch(target, object, patch),
        }
    }

    fn apply_configuration(
        &self,
        target: &PatchTarget<'_>,
        object: &Object,
        patch: Value,
    ) -> Result<Object, String> {
        let mut patch = patches::object(patch)?;
        for name in ["apiVersion", "kind"] {
            patch[name] = object.get(name).cloned().unwrap_or_default();
        }
        let failed = |why: &str| format!("error applying patch: {why}");
        let of = self.target_type(target);
        if let Some(why) = validate(of, &patch, false) {
            return Err(failed(&format!(
                "failed to convert patch object to typed object: {}",
                with_go_value(&why)
            )));
        }
        let whole = atomics(of, &patch);
        if !whole.is_empty() {
            return Err(failed(&format!(
                "invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: {}",
                whole.join(", ")
            )));
        }
        let live = Value::Object(object.clone());
        if let Some(why) = validate(of, &live, true) {
            return Err(failed(&format!(
                "failed to convert original object to typed object: {}",
                with_go_value(&why)
            )));
        }
        let merged = merge_unmanaged(of, &live, &patch)
            .map_err(|why| failed(&format!("failed to merge patch: {why}")))?;
        if let Some(why) = crate::model::json_patch::too_deep(&merged) {
            return Err(failed(&why));
        }
        match (target.whole, merged) {
            (true, merged) => self.decode_patched(target.resource, merged),
            (false, Value::Object(merged)) => Ok(merged),
            (false, _) => Err(failed("the merged object is none")),
        }
    }

    /// Applies a JSON patch. If a `test` operation fails, the object stays unchanged and there is no error.
    fn apply_json_patch(
        &self,
        target: &PatchTarget<'_>,
        object: &Object,
        patch: Value,
    ) -> Result<Object, ApplyError> {
        let patch = patches::operations(patch).map_err(ApplyError::Denied)?;
        let patched = match patch.apply(Value::Object(object.clone())) {
            Ok(patched) => patched,
            Err(why) if crate::model::json_patch::is_failed_test(&why) => return Ok(object.clone()),
            Err(why) => return Err(ApplyError::Denied(format!("JSON Patch: {why}"))),
        };
        let internal = |why: &str| ApplyError::Refused(ApiError::internal(why));
        let kind = &target.resource.kind;
        match patched {
            Value::Object(patched) if !target.whole => Ok(patched),
            patched if !kind.is_custom() && !is_of(kind, &patched) => {
                Err(internal(&conversion_message(kind, &patched)))
            }
            patched => self.decode_patched_strictly(target.resource, patched).map_err(|why| internal(&why)),
        }
    }

    fn target_type<'a>(&'a self, target: &PatchTarget<'a>) -> Type<'a> {
        let kind = &target.invocation.kind;
        let api_version = match kind.group.as_str() {
            "" => kind.version.clone(),
            group => format!("{group}/{}", kind.version),
        };
        match self.schema.kind_by_api_version(&api_version, &kind.kind) {
            Some(known) if !target.whole => Type::message(known.message()),
            _ => self.field_type(&target.resource.kind),
        }
    }
}

fn is_of(kind: &KindDefinition, object: &Value) -> bool {
    object["apiVersion"] == kind.api_version && object["kind"] == kind.kind
}

/// Returns kube-apiserver's message for a patch that changes `apiVersion` or `kind`.
fn conversion_message(kind: &KindDefinition, object: &Value) -> String {
    let text = |name: &str| object[name].as_str().unwrap_or_default();
    let version = text("apiVersion").rsplit('/').next().unwrap_or_default();
    let package = match kind.gvr.group.split('.').next() {
        None | Some("") => "core",
        Some(first) => first,
    };
    format!(
        "failed to convert object: converting ({version}.{}) to ({package}.{}): unknown conversion",
        text("kind"),
        kind.kind
    )
}

/// Formats the value in a type error as kube-apiserver does, which prints its Go type.
fn with_go_value(why: &str) -> String {
    let Some((before, value)) =
        why.split_once("got &{").and_then(|(before, rest)| Some((before, rest.strip_suffix('}')?)))
    else {
        return why.to_owned();
    };
    let bare = value.parse::<f64>().is_ok() || matches!(value, "true" | "false");
    let shown = if bare { value.to_owned() } else { format!("{value:?}") };
    format!("{before}got &value.valueUnstructured{{Value:{shown}}}")
}

//! Validation of write options.

use serde_json::Value;

use crate::model::cause::{Cause, Causes};
use crate::model::error::ApiError;
use crate::model::query::{Query, check_dry_run};
use crate::requests::Verb;

/// Maximum length of a field manager name; the same as in kube-apiserver.
pub(crate) const MAX_MANAGER_BYTES: usize = 128;
/// The `kind` that the body of a delete request must have, in any API version.
const DELETE_OPTIONS: &str = "DeleteOptions";

pub(crate) fn check_write(query: &Query, verb: Verb, content_type: &str) -> Result<(), ApiError> {
    let (kind, patch) = match verb {
        Verb::Create => ("CreateOptions", false),
        Verb::Update => ("UpdateOptions", false),
        _ => ("PatchOptions", true),
    };
    let mut causes = Causes::default();
    let apply = content_type.starts_with("application/apply-patch+");
    let manager = query.text("fieldManager");
    if patch && !apply && query.flag("force").is_some() {
        causes.push(Cause::forbidden("force", "may not be specified for non-apply patch"));
    }
    if patch && apply && manager.is_empty() {
        causes.push(Cause::required("fieldManager", "is required for apply patch"));
    }
    check_manager(manager, &mut causes);
    check_dry_run(&query.all("dryRun"), &mut causes);
    let validation = query.text("fieldValidation");
    if !matches!(validation, "" | "Ignore" | "Strict" | "Warn") {
        let supported = "\"\", \"Ignore\", \"Strict\", \"Warn\"";
        causes.push(Cause::not_supported("fieldValidation", &format!("{validation:?}"), supported));
    }
    if causes.is_empty() { Ok(()) } else { Err(ApiError::invalid_options(kind, causes.into_vec())) }
}

fn check_manager(manager: &str, causes: &mut Causes) {
    if manager.len() > MAX_MANAGER_BYTES {
        causes.push(Cause::too_long("fieldManager", MAX_MANAGER_BYTES));
    }
    if let Some((at, control)) = manager.char_indices().find(|(_, char)| char.is_control()) {
        let code = u32::from(control);
        let quoted: String = manager
            .chars()
            .map(
                |char| {
                    if char.is_control() { format!("\\x{:02x}", u32::from(char)) } else { char.to_string() }
                },
            )
            .collect();
        let why = format!("invalid character U+{code:04X} (at position {at})");
        causes.push(Cause::invalid("fieldManager", &format!("\"{quoted}\""), &why));
    }
}

pub(crate) fn delete_body(body: Value) -> Result<Value, ApiError> {
    let kind = body["kind"].as_str().unwrap_or_default();
    if !matches!(kind, "" | DELETE_OPTIONS) {
        let version = body["apiVersion"].as_str().unwrap_or_default();
        return Err(ApiError::bad_request(format!(
            "no kind {kind:?} is registered for version {version:?} in scheme \"pkg/runtime/scheme.go:111\""
        )));
    }
    let wrong = |value: &Value, field: &str, wanted: &str| {
        let found = crate::model::json::json_type(value);
        Err(ApiError::bad_request(format!(
            "json: cannot unmarshal {found} into Go struct field DeleteOptions.{field} of type {wanted}"
        )))
    };
    let given = |name: &str| body.get(name).filter(|value| !value.is_null());
    match (given("gracePeriodSeconds"), given("orphanDependents"), given("propagationPolicy")) {
        (Some(value), _, _) if !value.is_i64() => wrong(value, "gracePeriodSeconds", "int64"),
        (_, Some(value), _) if !value.is_boolean() => wrong(value, "orphanDependents", "bool"),
        (_, _, Some(value)) if !value.is_string() => {
            wrong(value, "propagationPolicy", "v1.DeletionPropagation")
        }
        _ => Ok(body),
    }
}

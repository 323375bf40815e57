//! Builds `AdmissionReview` requests for webhooks and reads their responses.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::attributes::resource_json;
use super::write::{Invocation, Write, invocation_json};
use crate::model::error::ApiError;

/// Builds the `request` of an `AdmissionReview`, without its UID and objects.
pub(super) fn request(write: &Write<'_>, invocation: &Invocation) -> Value {
    let attributes = write.attributes;
    let (kind, resource) = invocation_json(invocation);
    let mut request = json!({
        "kind": kind, "resource": resource,
        "requestKind": attributes.kind.json(), "requestResource": resource_json(&attributes.gvr),
        "operation": write.operation.name(), "userInfo": attributes.user.info(),
        "dryRun": attributes.dry_run, "options": attributes.options(write.operation),
    });
    for (member, text) in [
        ("subResource", attributes.subresource.as_str()),
        ("requestSubResource", attributes.subresource.as_str()),
        ("name", write.name()),
        ("namespace", attributes.namespace.as_str()),
    ] {
        if !text.is_empty() {
            request[member] = text.into();
        }
    }
    request
}

pub(super) fn review(version: &str, uid: &str, mut request: Value, object: Value, old: Value) -> Value {
    request["uid"] = uid.into();
    request["object"] = object;
    request["oldObject"] = old;
    json!({"kind": "AdmissionReview", "apiVersion": format!("admission.k8s.io/{version}"), "request": request})
}

#[derive(Debug)]
pub(super) struct ReviewResult {
    pub(super) allowed: bool,
    pub(super) result: Value,
    pub(super) warnings: Vec<String>,
    pub(super) patch: Option<Vec<u8>>,
}

/// Reads an `AdmissionReview` response. Error messages are the same as in kube-apiserver.
pub(super) fn read(body: &[u8], version: &str, uid: &str, mutating: bool) -> Result<ReviewResult, String> {
    let called = |why: String| format!("failed to call webhook: {why}");
    let review = crate::webhook::decode_response(body).map_err(called)?;
    check_type(&review, version).map_err(called)?;
    let verdict = check(&review, version, uid, mutating);
    let verdict = verdict.map_err(|why| format!("received invalid webhook response: {why}"))?;
    match review["response"]["patchType"].as_str() {
        Some(other) if other != "JSONPatch" => Err(format!("unsupported patch type {other:?}")),
        _ => Ok(verdict),
    }
}

fn check_type(review: &Value, version: &str) -> Result<(), String> {
    let text = |name: &str| review[name].as_str().unwrap_or_default();
    match (text("apiVersion"), text("kind")) {
        (_, "") => Err("Object 'Kind' is missing".to_owned()),
        ("admission.k8s.io/v1" | "admission.k8s.io/v1beta1", "AdmissionReview") => {
            let given = api_version_of(review);
            if given == version {
                Ok(())
            } else {
                Err(format!(
                    "converting ({given}.AdmissionReview) to ({version}.AdmissionReview): unknown conversion"
                ))
            }
        }
        (api_version, kind) => Err(format!(
            "no kind {kind:?} is registered for version {api_version:?} in scheme \"pkg/runtime/scheme.go:111\""
        )),
    }
}

fn api_version_of(review: &Value) -> &str {
    review["apiVersion"].as_str().and_then(|text| text.split_once('/')).map_or("", |(_, version)| version)
}

fn check(review: &Value, version: &str, uid: &str, mutating: bool) -> Result<ReviewResult, String> {
    let response = &review["response"];
    if !response.is_object() {
        return Err("webhook response was absent".to_owned());
    }
    let text = |name: &str| response[name].as_str().unwrap_or_default();
    if version == "v1" && text("uid") != uid {
        return Err(format!("expected response.uid={uid:?}, got {:?}", text("uid")));
    }
    let patch = STANDARD.decode(text("patch")).unwrap_or_default();
    let typed = response["patchType"].is_string();
    match (mutating, patch.is_empty(), typed) {
        (true, false, false) if version == "v1" => {
            return Err("webhook returned response.patch but not response.patchType".to_owned());
        }
        (true, true, true) => {
            return Err("webhook returned response.patchType but not response.patch".to_owned());
        }
        (false, false, _) => return Err("validating webhook may not return response.patch".to_owned()),
        (false, true, true) => return Err("validating webhook may not return response.patchType".to_owned()),
        _ => {}
    }
    let warnings = response["warnings"].as_array().into_iter().flatten();
    Ok(ReviewResult {
        allowed: response["allowed"] == true,
        result: response["status"].clone(),
        warnings: warnings.filter_map(|warning| warning.as_str().map(str::to_owned)).collect(),
        patch: Some(patch).filter(|patch| !patch.is_empty()),
    })
}

/// Builds the error for the client from the `status` with which a webhook denied the request.
pub(super) fn refusal(webhook: &str, result: &Value) -> ApiError {
    let denied = format!("admission webhook {webhook:?} denied the request");
    let text = |name: &str| result[name].as_str().unwrap_or_default().to_owned();
    let code = result["code"].as_u64().and_then(|code| u16::try_from(code).ok()).unwrap_or_default().max(400);
    let (message, reason) = (text("message"), text("reason"));
    let message = match (message.as_str(), reason.as_str()) {
        ("", "") => format!("{denied} without explanation"),
        ("", reason) => format!("{denied}: {reason}"),
        (message, _) => format!("{denied}: {message}"),
    };
    let mut error = ApiError::new(code, "", message);
    error.reason = reason.into();
    match result.get("details").filter(|details| details.is_object()) {
        Some(details) => error.with_details(details.clone()),
        None => error,
    }
}

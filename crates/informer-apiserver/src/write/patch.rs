//! Merge patches (RFC 7396) and JSON patches (RFC 6902).

mod json;
mod operation;
mod shown;

use informer_schema::Schema;
use serde_json::Value;

pub(crate) use self::json::JsonPatch;
use self::json::OPERATIONS_MAX;
pub(super) use self::shown::shown;

use super::Twice;
use super::merge::Origin;
use super::metadata::json_type;
use crate::error::ApiError;
use crate::http::read_json;
use crate::kinds::Kind;

/// A patch, read and ready to be applied again and again.
#[derive(Debug)]
pub(crate) enum PatchType {
    Merge(Value),
    Json(JsonPatch),
    /// Of built-in kinds: lists are merged as their fields say.
    Strategic(Value),
}

impl PatchType {
    /// Reads a patch by its content type.
    pub(crate) fn parse(content_type: &str, kind: &Kind, body: &[u8]) -> Result<Self, ApiError> {
        let undecodable = |why: String| ApiError::bad_request(format!("error decoding patch: {why}"));
        match content_type {
            "application/merge-patch+json" => {
                let patch = read_json(body).map_err(undecodable)?;
                match patch.is_object() || patch.is_null() {
                    true => Ok(Self::Merge(patch)),
                    false => Err(undecodable(format!(
                        "json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
                        json_type(&patch)
                    ))),
                }
            }
            "application/json-patch+json" => {
                let patch = read_json(body).map_err(undecodable)?;
                let Value::Array(operations) = patch else {
                    return Err(undecodable(format!(
                        "json: cannot unmarshal {} into Go value of type []handlers.jsonPatchOp",
                        json_type(&patch)
                    )));
                };
                if let Some(why) = operations.iter().find_map(json::mistyped) {
                    return Err(undecodable(why));
                }
                JsonPatch::of(operations).map(Self::Json).map_err(|count| {
                    let why = format!(
                        "The allowed maximum operations in a JSON patch is {OPERATIONS_MAX}, got {count}"
                    );
                    ApiError::new(413, "RequestEntityTooLarge", why)
                })
            }
            "application/strategic-merge-patch+json" if !kind.is_custom() => {
                match read_json(body).map_err(ApiError::bad_request)? {
                    patch @ (Value::Object(_) | Value::Null) => Ok(Self::Strategic(patch)),
                    other => Err(ApiError::bad_request(format!(
                        "json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
                        json_type(&other)
                    ))),
                }
            }
            "application/strategic-merge-patch+json" => Err(ApiError::new(
                415,
                "UnsupportedMediaType",
                "the body of the request was in an unknown format - accepted media types include: \
                 application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml",
            )),
            _ => Err(ApiError::unsupported_patch()),
        }
    }

    pub(super) fn apply(&self, schema: &Schema, mut object: Value) -> Result<Value, ApiError> {
        match self {
            Self::Strategic(patch) => return strategic(schema, object, patch),
            Self::Merge(patch) if patch.is_object() => json_patch::merge(&mut object, patch),
            Self::Merge(_) => {}
            Self::Json(patch) => return patch.apply(object).map_err(|_| ApiError::unprocessable_patch()),
        }
        Ok(object)
    }

    /// What a strict reader finds in the text of the patch.
    pub(crate) fn twice(&self, body: &[u8]) -> Option<Twice> {
        match self {
            Self::Merge(patch) | Self::Strategic(patch) => Twice::in_json(None, body, patch),
            Self::Json(_) => Twice::in_operations(body),
        }
    }

    pub(super) fn origin(&self) -> Origin<'_> {
        match self {
            Self::Strategic(patch) => Origin::Strategic(patch),
            Self::Merge(_) | Self::Json(_) => Origin::Patch,
        }
    }

    /// True where the patch itself sets the version, so that it must not be tried on another one.
    pub(super) fn names_version(&self) -> bool {
        match self {
            Self::Merge(patch) | Self::Strategic(patch) => patch["metadata"]["resourceVersion"].is_string(),
            Self::Json(patch) => patch.touches("/metadata/resourceVersion"),
        }
    }
}

fn strategic(schema: &Schema, object: Value, patch: &Value) -> Result<Value, ApiError> {
    let text = |name: &str| object[name].as_str().unwrap_or_default().to_owned();
    let kind = schema.kind_by_api_version(&text("apiVersion"), &text("kind"));
    let kind = kind.ok_or_else(ApiError::unsupported_patch)?;
    informer_schema::strategic_merge(kind, object, patch.clone()).map_err(|error| match error.status() {
        400 => ApiError::bad_request(error.to_string()),
        422 => ApiError::unprocessable_patch(),
        code => ApiError::new(code, "", error.to_string()),
    })
}

impl ApiError {
    fn unsupported_patch() -> Self {
        let mut error = Self::new(415, "UnsupportedMediaType", "415: Unsupported Media Type");
        error.details = Some(Box::default());
        error
    }
}

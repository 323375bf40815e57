//! Merge patches (RFC 7396), JSON patches (RFC 6902) and strategic merge patches.

use informer_schema::Schema;
use serde_json::{Value, json};

use crate::model::json_patch::{JsonPatch, MAX_OPERATIONS};

use crate::model::duplicates::DuplicateKeys;
use crate::model::error::ApiError;
use crate::model::json::json_type;
use crate::model::json::{read_json, read_whole};
use crate::model::json_patch;
use crate::model::kinds::KindDefinition;
use crate::model::metadata::type_meta_error;
use crate::pipeline::merge::Origin;

#[derive(Debug)]
pub(crate) enum PatchType {
    Merge(Value),
    Json(JsonPatch),
    /// A strategic merge patch, which only built-in kinds support: lists are merged by their merge keys.
    Strategic(Value),
}

impl PatchType {
    /// Decodes a patch by its content type.
    ///
    /// `reports_unknown` is true if unknown fields are reported (`fieldValidation` is not `Ignore`).
    /// Otherwise kube-apiserver decodes the patch with its patch libraries only, which accept more inputs and
    /// have other error messages.
    pub(crate) fn parse(
        content_type: &str,
        kind: &KindDefinition,
        body: &[u8],
        reports_unknown: bool,
    ) -> Result<Self, ApiError> {
        match content_type {
            "application/merge-patch+json" if reports_unknown => merge(body).map_err(undecodable),
            "application/merge-patch+json" => lenient_merge(body).ok_or_else(bad_merge),
            "application/json-patch+json" => operations(body, reports_unknown).and_then(|operations| {
                JsonPatch::of(operations).map(Self::Json).map_err(|count| {
                    let why = format!(
                        "The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {count}"
                    );
                    ApiError::new(413, "RequestEntityTooLarge", why)
                })
            }),
            "application/strategic-merge-patch+json" if !kind.is_custom() => {
                match read_json(body).map_err(ApiError::bad_request)? {
                    Value::Null => Ok(Self::Strategic(json!({}))),
                    patch @ Value::Object(_) => Ok(Self::Strategic(patch)),
                    other => Err(ApiError::bad_request(mistyped(&other, "map[string]interface {}"))),
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

    pub(crate) fn apply(
        &self,
        schema: &Schema,
        kind: &KindDefinition,
        mut object: Value,
    ) -> Result<Value, ApiError> {
        match self {
            Self::Strategic(patch) => return strategic(schema, object, patch),
            Self::Merge(patch) if patch.is_object() => ::json_patch::merge(&mut object, patch),
            Self::Merge(patch) if patch.is_array() => object = patch.clone(),
            Self::Merge(_) => return Err(bad_merge()),
            Self::Json(patch) => {
                object = patch.apply(object).map_err(|_| ApiError::unprocessable_patch())?;
            }
        }
        if object.is_object() {
            return Ok(object);
        }
        let why = format!("couldn't get version/kind; json parse error: {}", type_meta_error(&object));
        Err(crate::pipeline::merge::undecodable(kind, Origin::Patch(&|| Some(object.clone())), &why))
    }

    pub(crate) fn twice(&self, body: &[u8]) -> Option<DuplicateKeys> {
        match self {
            // Only the decoder of a whole body finds duplicate keys, so the body is parsed a second time.
            // This is cheap compared with applying the patch.
            Self::Merge(_) | Self::Strategic(_) => {
                read_whole(body).ok().filter(|reading| reading.doubled)?;
                DuplicateKeys::in_json(None, body)
            }
            Self::Json(_) => DuplicateKeys::in_operations(body),
        }
    }

    /// Returns the origin of the patched object, for decoding errors. `again` applies the patch once more.
    pub(crate) fn origin<'a>(&'a self, again: &'a dyn Fn() -> Option<Value>) -> Origin<'a> {
        match self {
            Self::Strategic(patch) => Origin::Strategic(patch),
            Self::Merge(_) | Self::Json(_) => Origin::Patch(again),
        }
    }

    /// Returns true if the patch sets the resourceVersion. Such a patch must not be repeated after a
    /// conflict.
    pub(crate) fn sets_version(&self) -> bool {
        match self {
            Self::Merge(patch) | Self::Strategic(patch) => patch["metadata"]["resourceVersion"].is_string(),
            Self::Json(patch) => patch.touches("/metadata/resourceVersion"),
        }
    }
}

fn undecodable(why: String) -> ApiError {
    ApiError::bad_request(format!("error decoding patch: {why}"))
}

fn bad_merge() -> ApiError {
    ApiError::bad_request("Invalid JSON Patch")
}

fn mistyped(value: &Value, wanted: &str) -> String {
    format!("json: cannot unmarshal {} into Go value of type {wanted}", json_type(value))
}

fn merge(body: &[u8]) -> Result<PatchType, String> {
    match read_json(body)? {
        patch @ (Value::Object(_) | Value::Null) => Ok(PatchType::Merge(patch)),
        other => Err(mistyped(&other, "map[string]interface {}")),
    }
}

/// Decodes a merge patch like kube-apiserver's library, which also accepts a list. Such a patch replaces the
/// object by the list.
fn lenient_merge(body: &[u8]) -> Option<PatchType> {
    match read_json(body).ok()? {
        patch @ (Value::Object(_) | Value::Array(_)) => Some(PatchType::Merge(patch)),
        _ => None,
    }
}

fn operations(body: &[u8], reports_unknown: bool) -> Result<Vec<Value>, ApiError> {
    let (refuse, list, one): (fn(String) -> ApiError, _, _) = if reports_unknown {
        (undecodable, "[]handlers.jsonPatchOp", "handlers.jsonPatchOp")
    } else {
        (|why| ApiError::bad_request(why), "jsonpatch.Patch", "jsonpatch.Operation")
    };
    let operations = match read_json(body).map_err(refuse)? {
        Value::Array(operations) => operations,
        Value::Null => Vec::new(),
        other => return Err(refuse(mistyped(&other, list))),
    };
    for operation in &operations {
        match operation {
            Value::Object(members) if reports_unknown => {
                json_patch::mistyped(members).map_or(Ok(()), |why| Err(refuse(why)))?
            }
            Value::Object(_) | Value::Null => {}
            other => return Err(refuse(mistyped(other, one))),
        }
    }
    Ok(operations)
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

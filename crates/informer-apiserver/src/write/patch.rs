//! Merge patches (RFC 7396) and JSON patches (RFC 6902).

use informer_schema::Schema;
use json_patch::PatchOperation;
use serde_json::Value;

use super::metadata::json_type;
use crate::error::ApiError;
use crate::http::read_json;
use crate::kinds::Kind;

/// Operations of one JSON patch, as upstream.
const OPERATIONS_MAX: usize = 10_000;
/// How deep what a patch makes may nest; the reader of JSON bounds the text alike.
const DEPTH_MAX: usize = 128;
/// Bytes that the copies of one JSON patch may make, as upstream: copies of copies grow with every operation.
const COPIED_BYTES_MAX: usize = 3 << 20;

/// A patch, read and ready to be applied again and again.
#[derive(Debug)]
pub(crate) enum PatchType {
    Merge(Value),
    Json(Vec<Value>),
    /// Of built-in kinds: lists are merged as their fields say.
    Strategic(Value),
}

/// A JSON patch that did not come with a request.
pub(crate) struct JsonPatch(Vec<Value>);

impl JsonPatch {
    /// Reads the operations; the error says why there are none.
    pub(crate) fn read(text: &[u8]) -> Result<Self, String> {
        match read_json(text)? {
            Value::Array(operations) if operations.len() > OPERATIONS_MAX => {
                Err(format!("more than {OPERATIONS_MAX} operations"))
            }
            Value::Array(operations) if operations.iter().all(Value::is_object) => Ok(Self(operations)),
            other => Err(format!(
                "json: cannot unmarshal {} into Go value of type jsonpatch.Patch",
                json_type(&other)
            )),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The object after all operations; the error names the one that does not apply.
    pub(crate) fn apply(&self, mut object: Value) -> Result<Value, String> {
        let mut bounds = Bounds::default();
        for operation in &self.0 {
            bounds.check(&object, operation)?;
            apply_one(&mut object, operation).ok_or_else(|| inapplicable(&object, operation))?;
        }
        Ok(object)
    }
}

/// What the operations of one JSON patch have made so far. It is asked before each of them, since a few hundred bytes of patch
/// can make an object that no memory holds, or that no stack can walk.
#[derive(Debug, Default)]
struct Bounds {
    copied: usize,
}

impl Bounds {
    /// Refuses an operation that would make too much; what does not apply is left to be found out.
    fn check(&mut self, object: &Value, operation: &Value) -> Result<(), String> {
        let text = |name: &str| operation[name].as_str().unwrap_or_default();
        let op = text("op");
        let made = match op {
            "add" | "replace" => operation.get("value"),
            "copy" | "move" => object.pointer(text("from")),
            _ => None,
        };
        let Some(made) = made else { return Ok(()) };
        if text("path").matches('/').count() + depth(made) > DEPTH_MAX {
            return Err(format!("the patched object nests deeper than {DEPTH_MAX}"));
        }
        if op == "copy" {
            self.copied += made.to_string().len();
            if self.copied > COPIED_BYTES_MAX {
                return Err(format!(
                    "Unable to complete the copy, the accumulated size increase of copy is {}, exceeding the limit \
                     {COPIED_BYTES_MAX}",
                    self.copied
                ));
            }
        }
        Ok(())
    }
}

/// Why an operation does not apply, as upstream's library says it.
fn inapplicable(object: &Value, operation: &Value) -> String {
    let text = |name: &str| operation[name].as_str().unwrap_or_default();
    let (op, path) = (text("op"), text("path"));
    let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent);
    let missing =
        |what: &str, path: &str| format!("{what} operation does not apply: doc is missing path: {path:?}");
    match op {
        "add" if object.pointer(parent).is_none() => format!("{}: missing value", missing("add", path)),
        "remove" if object.pointer(parent).is_none() => format!("{}: missing value", missing("remove", path)),
        "remove" => {
            let key = last(path);
            format!(
                "error in remove for path: '{path}': Unable to remove nonexistent key: {key}: missing value"
            )
        }
        "replace" if object.pointer(parent).is_none() => {
            format!("{}: missing value", missing("replace", path))
        }
        "replace" => format!("replace operation does not apply: doc is missing key: {path}: missing value"),
        "test" => format!("testing value {path} failed: test failed"),
        "add" | "move" | "copy" => format!("{op} operation does not apply"),
        other => format!("Unexpected kind: {other}"),
    }
}

fn last(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or_default()
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
                if let Some(wrong) =
                    operations.iter().find(|operation| !operation.is_object() && !operation.is_null())
                {
                    return Err(undecodable(format!(
                        "json: cannot unmarshal {} into Go value of type handlers.jsonPatchOp",
                        json_type(wrong)
                    )));
                }
                match operations.len() {
                    count if count > OPERATIONS_MAX => Err(ApiError::new(
                        413,
                        "RequestEntityTooLarge",
                        format!(
                            "The allowed maximum operations in a JSON patch is {OPERATIONS_MAX}, got {count}"
                        ),
                    )),
                    _ => Ok(Self::Json(operations)),
                }
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
            Self::Json(operations) => {
                let mut bounds = Bounds::default();
                for operation in operations {
                    bounds.check(&object, operation).map_err(|_| ApiError::unprocessable_patch())?;
                    apply_one(&mut object, operation).ok_or_else(ApiError::unprocessable_patch)?;
                }
            }
        }
        Ok(object)
    }

    /// True where the patch itself sets the version, so that it must not be tried on another one.
    pub(super) fn names_version(&self) -> bool {
        match self {
            Self::Merge(patch) | Self::Strategic(patch) => patch["metadata"]["resourceVersion"].is_string(),
            Self::Json(operations) => {
                operations.iter().any(|operation| operation["path"] == "/metadata/resourceVersion")
            }
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

/// Applies one operation; `None` where it does not apply.
fn apply_one(object: &mut Value, operation: &Value) -> Option<()> {
    let mut operation = operation.clone();
    if let Some(path) = operation["path"].as_str()
        && let Some((parent, _)) = path.rsplit_once('/')
        && object.pointer(parent).is_some_and(Value::is_object)
    {
        match operation["op"].as_str() {
            // Upstream's library lets `replace` add a member that is missing,
            Some("replace") => operation["op"] = "add".into(),
            // and finds null there: so clients make sure that they are the first who add it.
            Some("test") if operation["value"].is_null() && object.pointer(path).is_none() => return Some(()),
            _ => {}
        }
    }
    let operation: PatchOperation = serde_json::from_value(operation).ok()?;
    json_patch::patch(object, &[operation]).ok()
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or_default(),
        Value::Object(members) => 1 + members.values().map(depth).max().unwrap_or_default(),
        _ => 0,
    }
}

impl ApiError {
    fn unsupported_patch() -> Self {
        let mut error = Self::new(415, "UnsupportedMediaType", "415: Unsupported Media Type");
        error.details = Some(Box::default());
        error
    }
}

//! Merge patches (RFC 7396) and JSON patches (RFC 6902).

use serde_json::Value;

use crate::error::ApiError;

/// Operations of one JSON patch, as upstream.
const OPERATIONS_MAX: usize = 10_000;

/// A patch, read and ready to be applied again and again.
#[derive(Debug)]
pub(crate) enum PatchType {
    Merge(Value),
    Json(json_patch::Patch),
}

impl PatchType {
    /// Reads a patch by its content type.
    pub(crate) fn parse(content_type: &str, custom: bool, body: &[u8]) -> Result<Self, ApiError> {
        let unreadable = |error: serde_json::Error| {
            let why =
                if error.is_eof() { "unexpected end of JSON input".to_owned() } else { error.to_string() };
            ApiError::bad_request(format!("error decoding patch: {why}"))
        };
        match content_type {
            "application/merge-patch+json" => {
                Ok(Self::Merge(serde_json::from_slice(body).map_err(unreadable)?))
            }
            "application/json-patch+json" => {
                let patch: json_patch::Patch = serde_json::from_slice(body).map_err(unreadable)?;
                match patch.0.len() {
                    count if count > OPERATIONS_MAX => Err(ApiError::new(
                        413,
                        "RequestEntityTooLarge",
                        format!(
                            "The allowed maximum operations in a JSON patch is {OPERATIONS_MAX}, got {count}"
                        ),
                    )),
                    _ => Ok(Self::Json(patch)),
                }
            }
            "application/strategic-merge-patch+json" if custom => Err(ApiError::new(
                415,
                "UnsupportedMediaType",
                "the body of the request was in an unknown format - accepted media types include: \
                 application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml",
            )),
            _ => Err(ApiError::unsupported_patch()),
        }
    }

    pub(super) fn apply(&self, mut object: Value) -> Result<Value, ApiError> {
        match self {
            Self::Merge(patch) => json_patch::merge(&mut object, patch),
            Self::Json(patch) => {
                json_patch::patch(&mut object, patch).map_err(|_| ApiError::unprocessable_patch())?;
            }
        }
        Ok(object)
    }

    /// True where the patch itself sets the version, so that it must not be tried on another one.
    pub(super) fn names_version(&self) -> bool {
        match self {
            Self::Merge(patch) => patch["metadata"]["resourceVersion"].is_string(),
            Self::Json(patch) => {
                patch.0.iter().any(|operation| operation.path().as_str() == "/metadata/resourceVersion")
            }
        }
    }
}

impl ApiError {
    fn unsupported_patch() -> Self {
        let mut error = Self::new(415, "UnsupportedMediaType", "415: Unsupported Media Type");
        error.details = Some(Box::default());
        error
    }
}

use serde::Deserialize;
use serde_json::{Value, json};

use super::parse::event_line;

/// An API error, which is sent as a response status or in an `ERROR` event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatusResponse {
    /// The HTTP status code of the error. The `Status` object contains it too, unless `says` is set.
    pub code: u16,
    /// The code in the `Status` object, for scripts in which it differs from the HTTP status code.
    pub says: Option<u16>,
    /// The `reason` field of the `Status` object.
    pub reason: String,
    /// True if the `Status` object contains a cause for the error that the requested resourceVersion is newer
    /// than the server's.
    pub too_large: bool,
    /// The value of `retryAfterSeconds` in the `Status` object.
    pub retry_after: Option<u64>,
    /// The body of the response that is sent instead of a `Status` object.
    pub text: Option<String>,
}

/// The two notations of an error in scripts: only a code, or several fields.
#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "a code, or a map of code, reason, too-large, retry-after and text")]
pub(super) enum StatusForm {
    Code(u16),
    Full(FullForm),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct FullForm {
    code: u16,
    says: Option<u16>,
    reason: Option<String>,
    #[serde(default)]
    too_large: bool,
    retry_after: Option<u64>,
    text: Option<String>,
}

impl StatusForm {
    pub(super) fn read(self) -> Result<StatusResponse, String> {
        let full = match self {
            Self::Code(code) => {
                FullForm { code, says: None, reason: None, too_large: false, retry_after: None, text: None }
            }
            Self::Full(full) => full,
        };
        let reason = match full.reason.clone() {
            Some(reason) => reason,
            None => usual_reason(full.code)
                .ok_or_else(|| format!("the code {} has no default reason; set `reason`", full.code))?,
        };
        let FullForm { code, says, too_large, retry_after, text, .. } = full;
        Ok(StatusResponse { code, says, reason, too_large, retry_after, text })
    }
}

/// Returns the `reason` that an API server sends with a status code; `None` for a code without a default
/// reason.
fn usual_reason(code: u16) -> Option<String> {
    let reason = match code {
        400 => "BadRequest",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "NotFound",
        405 => "MethodNotAllowed",
        406 => "NotAcceptable",
        408 | 504 => "Timeout",
        409 => "Conflict",
        410 => "Expired",
        413 => "RequestEntityTooLarge",
        415 => "UnsupportedMediaType",
        422 => "Invalid",
        429 => "TooManyRequests",
        500 => "InternalError",
        502 | 503 => "ServiceUnavailable",
        _ => return None,
    };
    Some(reason.to_owned())
}

impl StatusResponse {
    /// Returns the error as a `Status` object.
    pub fn json(&self) -> Value {
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": format!("scripted: {}", self.reason), "reason": self.reason, "code": self.says.unwrap_or(self.code),
        });
        if self.too_large {
            status["message"] = "Too large resource version: 99, current: 10".into();
            status["details"]["causes"] =
                json!([{ "reason": "ResourceVersionTooLarge", "message": "Too large resource version" }]);
        }
        if let Some(seconds) = self.retry_after {
            status["details"]["retryAfterSeconds"] = seconds.into();
        }
        status
    }

    /// Returns the error as an `ERROR` event.
    pub fn event(&self) -> String {
        event_line("ERROR", &self.json())
    }

    /// Returns the body of the response with this error.
    pub fn body(&self) -> String {
        self.text.clone().unwrap_or_else(|| self.json().to_string())
    }

    /// Returns the content type of the error's body.
    pub fn content_type(&self) -> &'static str {
        if self.text.is_some() { "text/plain" } else { "application/json" }
    }
}

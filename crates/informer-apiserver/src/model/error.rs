//! API errors: the `Status` object with its code, reason, message and details.

use std::borrow::Cow;
use std::fmt;

use serde::Serialize;

use crate::model::cause::Cause;
use crate::model::kinds::KindDefinition;

/// Maximum size of a request body in bytes, as in kube-apiserver.
pub(crate) const MAX_BODY_BYTES: usize = 3 << 20;

/// A failed request: the
/// [Status](https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/status/) that the client
/// receives.
#[derive(Debug, Clone)]
pub struct ApiError {
    pub(crate) code: u16,
    pub(crate) reason: Cow<'static, str>,
    pub(crate) message: String,
    pub(crate) details: Option<Box<Details>>,
    /// Fields that few errors have.
    extra: Option<Box<Extra>>,
    /// The response body is the plain message instead of a Status, as for an unknown path.
    pub(crate) plain: bool,
    /// The request was rejected during authorization or impersonation. The response to such a request has the
    /// header `X-Content-Type-Options: nosniff`.
    pub(crate) unauthorized: bool,
}

#[derive(Debug, Clone, Default)]
struct Extra {
    /// The continue token in a 410 response. A client can use it to continue the list at a newer
    /// resourceVersion, which makes the list inconsistent.
    continue_token: Option<String>,
    /// The `details` that a webhook returned. They replace those of the server.
    given: Option<serde_json::Value>,
    warnings: Vec<String>,
}

#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Details {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) group: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) kind: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) uid: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) causes: Vec<Cause>,
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) retry_after_seconds: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// The JSON encoding of a Status, with the field order of kube-apiserver.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct StatusJson<'a> {
    kind: &'a str,
    api_version: &'a str,
    metadata: WireMeta<'a>,
    status: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    message: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    reason: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    details: Option<WireDetails<'a>>,
    #[serde(skip_serializing_if = "is_success")]
    code: u16,
}

#[derive(Serialize)]
#[serde(untagged)]
enum WireDetails<'a> {
    Own(&'a Details),
    Given(&'a serde_json::Value),
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_success(code: &u16) -> bool {
    *code == 200
}

#[derive(Serialize)]
struct WireMeta<'a> {
    #[serde(rename = "continue", skip_serializing_if = "Option::is_none")]
    continue_token: Option<&'a str>,
}

impl ApiError {
    pub(crate) fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            reason: reason.into(),
            message: message.into(),
            details: None,
            extra: None,
            plain: false,
            unauthorized: false,
        }
    }

    pub(crate) fn set_details(mut self, details: Details) -> Self {
        self.details = Some(Box::new(details));
        self
    }

    pub(crate) fn warned(mut self, warnings: Vec<String>) -> Self {
        if !warnings.is_empty() {
            self.extra.get_or_insert_default().warnings.extend(warnings);
        }
        self
    }

    pub(crate) fn prepend_warning(mut self, warning: Option<String>) -> Self {
        if let Some(warning) = warning {
            self.extra.get_or_insert_default().warnings.insert(0, warning);
        }
        self
    }

    pub(crate) fn warnings(&self) -> &[String] {
        self.extra.as_ref().map_or(&[], |extra| &extra.warnings)
    }

    pub(crate) fn with_details(mut self, details: serde_json::Value) -> Self {
        self.extra.get_or_insert_default().given = Some(details);
        self
    }

    fn given(&self) -> Option<&serde_json::Value> {
        self.extra.as_ref().and_then(|extra| extra.given.as_ref())
    }

    /// Returns the HTTP status code.
    pub fn code(&self) -> u16 {
        self.code
    }

    /// Returns the machine-readable reason, for example `NotFound`. It is empty for errors to which
    /// kube-apiserver gives no reason.
    pub fn reason(&self) -> &str {
        &self.reason
    }

    /// Returns the human-readable message.
    pub fn message(&self) -> &str {
        &self.message
    }

    pub(crate) fn is_conflict(&self) -> bool {
        self.reason() == "Conflict"
    }

    pub(crate) fn retry_after(&self) -> Option<u32> {
        let given = self.given().and_then(|given| given["retryAfterSeconds"].as_u64());
        let own = self.details.as_ref().map(|details| details.retry_after_seconds);
        given.and_then(|given| u32::try_from(given).ok()).or(own).filter(|seconds| *seconds > 0)
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    /// Returns the error for an unknown path: a 404 with plain text instead of a Status.
    pub(crate) fn unknown_path() -> Self {
        Self { plain: true, ..Self::new(404, "NotFound", "404 page not found\n") }
    }

    pub(crate) fn unknown_resource() -> Self {
        Self::new(404, "NotFound", "the server could not find the requested resource")
            .set_details(Details::default())
    }

    pub(crate) fn not_found(kind: &KindDefinition, name: &str) -> Self {
        let message = format!("{} \"{name}\" not found", kind.qualified_resource());
        Self::new(404, "NotFound", message).set_details(named(kind, name))
    }

    pub(crate) fn named(kind: &KindDefinition, name: &str, error: Self) -> Self {
        error.set_details(named(kind, name))
    }

    pub(crate) fn method_not_allowed() -> Self {
        let message = "the server does not allow this method on the requested resource";
        Self::new(405, "MethodNotAllowed", message).set_details(Details::default())
    }

    pub(crate) fn already_exists(kind: &KindDefinition, name: &str, terminating: bool) -> Self {
        let prefix = if terminating { "object is being deleted: " } else { "" };
        let message = format!("{prefix}{} \"{name}\" already exists", kind.qualified_resource());
        Self::new(409, "AlreadyExists", message).set_details(named(kind, name))
    }

    pub(crate) fn no_unique_name(kind: &KindDefinition, name: &str) -> Self {
        let message = format!(
            "{} \"{name}\" already exists, the server was not able to generate a unique name for the object",
            kind.qualified_resource()
        );
        Self::new(409, "AlreadyExists", message)
            .set_details(Details { retry_after_seconds: 1, ..named(kind, name) })
    }

    pub(crate) fn conflict(kind: &KindDefinition, name: &str, why: &str) -> Self {
        let message =
            format!("Operation cannot be fulfilled on {} \"{name}\": {why}", kind.qualified_resource());
        Self::new(409, "Conflict", message).set_details(named(kind, name))
    }

    pub(crate) fn modified(kind: &KindDefinition, name: &str) -> Self {
        let why =
            "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(kind, name, why)
    }

    /// Returns the error for a failed deletion precondition. As in kube-apiserver it names the kind and not
    /// the resource.
    pub(crate) fn precondition(kind: &KindDefinition, name: &str, why: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {} \"{name}\": {why}", kind.qualified_kind());
        let details = Details { kind: kind.kind.clone(), ..named(kind, name) };
        Self::new(409, "Conflict", message).set_details(details)
    }

    pub(crate) fn invalid(kind: &KindDefinition, name: &str, cause: Cause) -> Self {
        Self::invalid_fields(kind, name, vec![cause])
    }

    pub(crate) fn invalid_fields(kind: &KindDefinition, name: &str, causes: Vec<Cause>) -> Self {
        let message = format!("{} \"{name}\" is invalid: {}", kind.qualified_kind(), Cause::joined(&causes));
        let details = Details { kind: kind.kind.clone(), causes, ..named(kind, name) };
        Self::new(422, "Invalid", message).set_details(details)
    }

    /// Returns the error for invalid request options. `options` is their kind, for example `ListOptions`.
    pub(crate) fn invalid_options(options: &str, causes: Vec<Cause>) -> Self {
        let message = format!("{options}.meta.k8s.io \"\" is invalid: {}", Cause::joined(&causes));
        let details =
            Details { group: "meta.k8s.io".into(), kind: options.into(), causes, ..Details::default() };
        Self::new(422, "Invalid", message).set_details(details)
    }

    pub(crate) fn invalid_log_options(pod: &str, causes: Vec<Cause>) -> Self {
        let message = format!("PodLogOptions {pod:?} is invalid: {}", Cause::joined(&causes));
        let details =
            Details { name: pod.into(), kind: "PodLogOptions".into(), causes, ..Details::default() };
        Self::new(422, "Invalid", message).set_details(details)
    }

    pub(crate) fn unprocessable_patch() -> Self {
        Self::new(422, "Invalid", "the server rejected our request due to an error in our request")
            .set_details(Details::default())
    }

    pub(crate) fn bad_version(text: &str, why: &str) -> String {
        let quoted = serde_json::Value::from(text).to_string();
        format!("resourceVersion: Invalid value: {quoted}: strconv.ParseUint: parsing {quoted}: {why}")
    }

    pub(crate) fn watch_too_old(version: u64, floor: u64) -> Self {
        Self::new(410, "Expired", format!("too old resource version: {version} ({floor})"))
    }

    pub(crate) fn list_too_old() -> Self {
        Self::new(410, "Expired", "The resourceVersion for the provided list is too old.")
    }

    pub(crate) fn continue_too_old(token: String) -> Self {
        let message = "The provided continue parameter is too old to display a consistent list result. You can \
                       start a new list without the continue parameter, or use the continue token in this response \
                       to retrieve the remainder of the results. Continuing with the provided token results in an \
                       inconsistent list - objects that were created, modified, or deleted between the time the \
                       first chunk was returned and now may show up in the list.";
        let extra = Extra { continue_token: Some(token), ..Extra::default() };
        Self { extra: Some(Box::new(extra)), ..Self::new(410, "Expired", message) }
    }

    pub(crate) fn too_large(version: u64, current: u64) -> Self {
        let text = "Too large resource version";
        let cause = Cause { reason: "ResourceVersionTooLarge", message: text.into(), field: String::new() };
        let details = Details { causes: vec![cause], retry_after_seconds: 1, ..Details::default() };
        Self::new(504, "Timeout", format!("Timeout: {text}: {version}, current: {current}"))
            .set_details(details)
    }

    pub(crate) fn too_large_body() -> Self {
        let message = format!("Request entity too large: limit is {}", crate::model::error::MAX_BODY_BYTES);
        Self::new(413, "RequestEntityTooLarge", message)
    }

    pub(crate) fn retry_later(code: u16, reason: &'static str, message: &str, seconds: u32) -> Self {
        Self::new(code, reason, message)
            .set_details(Details { retry_after_seconds: seconds, ..Details::default() })
    }

    pub(crate) fn internal(why: &str) -> Self {
        let cause = Cause { reason: "", message: why.to_owned(), field: String::new() };
        Self::new(500, "InternalError", format!("Internal error occurred: {why}"))
            .set_details(Details { causes: vec![cause], ..Details::default() })
    }

    /// Encodes the error as a JSON Status with a trailing newline.
    pub(crate) fn to_json(&self) -> Vec<u8> {
        status_json("Failure", self.code, self)
    }

    /// Encodes the error as the JSON line of an ERROR watch event.
    pub(crate) fn to_event_line(&self) -> Vec<u8> {
        let mut line = br#"{"type":"ERROR","object":"#.to_vec();
        line.extend_from_slice(self.to_json().trim_ascii_end());
        line.extend_from_slice(b"}\n");
        line
    }
}

/// Returns the success Status that DELETE returns for most kinds.
pub(crate) fn success(kind: &KindDefinition, name: &str, uid: &str) -> Vec<u8> {
    let details = Details { uid: uid.to_owned(), ..named(kind, name) };
    status_json("Success", 200, &ApiError::new(200, "", "").set_details(details))
}

fn status_json(status: &str, code: u16, error: &ApiError) -> Vec<u8> {
    let wire = StatusJson {
        kind: "Status",
        api_version: "v1",
        metadata: WireMeta {
            continue_token: error.extra.as_ref().and_then(|extra| extra.continue_token.as_deref()),
        },
        status,
        message: &error.message,
        reason: &error.reason,
        details: match error.given() {
            Some(given) => Some(WireDetails::Given(given)),
            None => error.details.as_deref().map(WireDetails::Own),
        },
        code,
    };
    let mut json = serde_json::to_vec(&wire).expect("a Status can be serialized");
    json.push(b'\n');
    json
}

fn named(kind: &KindDefinition, name: &str) -> Details {
    Details {
        name: name.to_owned(),
        group: kind.gvr.group.clone(),
        kind: kind.gvr.resource.clone(),
        ..Details::default()
    }
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.code, self.reason, self.message.trim_end())
    }
}

impl std::error::Error for ApiError {}

impl ApiError {
    pub(crate) fn forbidden(kind: &KindDefinition, name: &str, why: &str) -> Self {
        let message = format!("{} \"{name}\" is forbidden: {why}", kind.qualified_resource());
        Self::named(kind, name, Self::new(403, "Forbidden", message))
    }
}

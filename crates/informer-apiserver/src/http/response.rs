//! HTTP responses: status, headers, and the conversion of the body to the negotiated encoding.

use bytes::{Bytes, BytesMut};
use http::header::{
    CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, HeaderValue, RETRY_AFTER, USER_AGENT, WARNING,
};
use http::{Method, Response, StatusCode, request};
use http_body::Body;
use serde_json::Value;

use crate::admission::AdmissionRequest;
use crate::http::accept::Encoding;
use crate::http::body::{ApiBody, Chunks};
use crate::http::headers::header;
use crate::http::list_body::Batches;
use crate::http::warnings::Warnings;
use crate::model::error::ApiError;
use crate::model::query::Query;
use crate::pipeline::Written;
use crate::registry::storage::{ObjectForm, Stored};

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const YAML: HeaderValue = HeaderValue::from_static("application/yaml");
const PROTOBUF: HeaderValue = HeaderValue::from_static("application/vnd.kubernetes.protobuf");
const PROTOBUF_STREAM: HeaderValue =
    HeaderValue::from_static("application/vnd.kubernetes.protobuf;stream=watch");
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");

pub(crate) type ApiResponse = Response<ApiBody>;

pub(crate) fn json(status: u16, body: impl Into<Bytes>) -> ApiResponse {
    with_type(status, JSON, ApiBody::whole(body))
}

pub(crate) fn protobuf(status: u16, body: Bytes) -> ApiResponse {
    with_type(status, PROTOBUF, ApiBody::whole(body))
}

pub(crate) fn list(batches: Batches) -> ApiResponse {
    with_type(200, JSON, ApiBody::batches(batches))
}

pub(crate) fn protobuf_list(batches: Batches) -> ApiResponse {
    with_type(200, PROTOBUF, ApiBody::batches(batches))
}

pub(crate) fn text(status: u16, body: impl Into<Bytes>) -> ApiResponse {
    with_type(status, TEXT, ApiBody::whole(body))
}

pub(crate) fn no_content() -> ApiResponse {
    let mut response = Response::new(ApiBody::whole(Bytes::new()));
    *response.status_mut() = StatusCode::NO_CONTENT;
    response
}

/// Returns the 504 response to a request that timed out. As in kube-apiserver its body is JSON, whatever the
/// `Accept` header says.
pub(crate) fn timed_out() -> ApiResponse {
    const BODY: &str = r#"{"metadata":{},"status":"Failure","message":"Timeout: request did not complete within the allotted timeout","reason":"Timeout","details":{},"code":504}"#;
    text(504, format!("{BODY}\n"))
}

fn with_type(status: u16, content_type: HeaderValue, body: ApiBody) -> ApiResponse {
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(CONTENT_TYPE, content_type);
    response
}

pub(crate) fn streamed(chunks: Chunks) -> ApiResponse {
    with_type(200, JSON, ApiBody::chunks(chunks))
}

pub(crate) fn streamed_protobuf(chunks: Chunks) -> ApiResponse {
    with_type(200, PROTOBUF_STREAM, ApiBody::chunks(chunks))
}

/// Converts JSON lines of watch events to protobuf frames. Invalid lines, which injected faults add, remain
/// unchanged.
pub(crate) fn frame_events(schema: &informer_schema::Schema, lines: &Bytes) -> Bytes {
    #[derive(serde::Deserialize)]
    struct Line<'a> {
        r#type: &'a str,
        #[serde(borrow)]
        object: &'a serde_json::value::RawValue,
    }
    let mut out = BytesMut::with_capacity(lines.len());
    for line in lines.split_inclusive(|byte| *byte == b'\n') {
        let event: Option<Line<'_>> = serde_json::from_slice(line).ok();
        let object = event.as_ref().and_then(|event| schema.to_protobuf(event.object.get().as_bytes()).ok());
        match (event, object) {
            (Some(event), Some(object)) => {
                out.extend_from_slice(&informer_schema::write_frame(event.r#type, &object));
            }
            _ => out.extend_from_slice(line),
        }
    }
    out.freeze()
}

pub(crate) fn error_response(error: &ApiError) -> ApiResponse {
    let mut response =
        if error.plain { text(error.code, error.message.clone()) } else { json(error.code, error.to_json()) };
    if let Some(seconds) = error.retry_after() {
        response.headers_mut().insert(RETRY_AFTER, seconds.into());
    }
    warn(&mut response, error.warnings());
    if error.plain || error.unauthorized {
        response.headers_mut().insert("x-content-type-options", HeaderValue::from_static("nosniff"));
    }
    response
}

pub(crate) fn warn(response: &mut ApiResponse, warnings: &[String]) {
    if !warnings.is_empty() {
        response.extensions_mut().get_or_insert_default::<Warnings>().add(warnings);
    }
}

/// Adds the warnings of webhooks and policies to the result of a write.
pub(crate) fn with_warnings(
    outcome: Result<ApiResponse, ApiError>,
    admission: Option<&AdmissionRequest>,
) -> Result<ApiResponse, ApiError> {
    let Some(admission) = admission else { return outcome };
    let warnings = admission.warnings();
    match outcome {
        Ok(mut response) => {
            warn(&mut response, &warnings);
            Ok(response)
        }
        Err(error) => Err(error.warned(warnings)),
    }
}

/// Adds API warnings to a response, before those that it already has.
pub(crate) fn warn_first(response: &mut ApiResponse, warnings: &[String]) {
    if !warnings.is_empty() {
        response.extensions_mut().get_or_insert_default::<Warnings>().put_first(warnings);
    }
}

pub(crate) fn injected_response(response: crate::faults::InjectedResponse) -> ApiResponse {
    match response {
        crate::faults::InjectedResponse::Status(error) => error_response(&error),
        crate::faults::InjectedResponse::Text { code, retry_after, body } => {
            let mut response =
                if body.trim_start().starts_with('{') { json(code, body) } else { text(code, body) };
            if let Some(seconds) = retry_after {
                response.headers_mut().insert(RETRY_AFTER, seconds.into());
            }
            response
        }
    }
}

pub(crate) fn add_common_headers(head: &request::Parts, mut response: ApiResponse) -> ApiResponse {
    let audit = match head.headers.get("audit-id") {
        Some(id) => id.clone(),
        None => {
            // The thread-local random number generator avoids one system call per request.
            let id = uuid::Builder::from_random_bytes(rand::random()).into_uuid();
            HeaderValue::from_str(id.hyphenated().encode_lower(&mut uuid::Uuid::encode_buffer()))
                .expect("a UUID is a valid header value")
        }
    };
    response.headers_mut().insert("audit-id", audit);
    if let Some(warnings) = response.extensions_mut().remove::<Warnings>() {
        for value in warnings.headers() {
            response.headers_mut().append(WARNING, value);
        }
    }
    response.headers_mut().entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-cache, private"));
    response
}

/// Removes the body from the response to a HEAD request, but keeps its `Content-Length`. hyper does not
/// remove it over HTTP/2.
pub(crate) fn strip_head_body(head: &request::Parts, response: ApiResponse) -> ApiResponse {
    if head.method != Method::HEAD {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    if let Some(length) = body.size_hint().exact() {
        parts.headers.entry(CONTENT_LENGTH).or_insert(length.into());
    }
    ApiResponse::from_parts(parts, ApiBody::none())
}

/// Returns true if the JSON of the response is indented: if the parameter `pretty` requires it, or without
/// the parameter for curl, Wget and browsers.
pub(crate) fn wants_indent(head: &request::Parts, query: &Query) -> bool {
    query.flag("pretty").unwrap_or_else(|| {
        let agent = header(head, USER_AGENT);
        ["curl", "Wget", "Mozilla/5.0"].iter().any(|known| agent.starts_with(known))
    })
}

/// Converts a JSON response to the negotiated encoding, or indents it. Collects the body in memory only if
/// one of these is necessary.
pub(crate) async fn transcode(
    schema: &informer_schema::Schema,
    response: ApiResponse,
    encoding: Encoding,
    indent: bool,
) -> ApiResponse {
    let is_json = response.headers().get(CONTENT_TYPE).is_some_and(|value| value == JSON);
    if !is_json || (encoding == Encoding::Json && !indent) {
        return response;
    }
    let (mut head, body) = response.into_parts();
    let Ok(bytes) = body.into_bytes().await else {
        return Response::from_parts(head, ApiBody::whole(Bytes::new()));
    };
    let body = match encoding {
        Encoding::Json => indented(&bytes).into(),
        // An object whose type has no protobuf encoding is sent as JSON, which every protobuf client also
        // accepts.
        Encoding::Protobuf => match schema.to_protobuf(&bytes) {
            Ok(wire) => {
                head.headers.insert(CONTENT_TYPE, PROTOBUF);
                Bytes::from(wire)
            }
            Err(_) => bytes,
        },
        Encoding::Yaml => match yaml(&bytes) {
            Some(text) => {
                head.headers.insert(CONTENT_TYPE, YAML);
                Bytes::from(text)
            }
            None => bytes,
        },
    };
    Response::from_parts(head, ApiBody::whole(body))
}

fn yaml(bytes: &[u8]) -> Option<String> {
    let value: Value = serde_json::from_slice(bytes).ok()?;
    serde_norway::to_string(&value).ok()
}

/// Indents JSON by two spaces per level. Keeps the order of the keys.
fn indented(json: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(json.len() * 2);
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    let line = |out: &mut Vec<u8>, depth: usize| {
        out.push(b'\n');
        out.resize(out.len() + 2 * depth, b' ');
    };
    for (at, &byte) in json.iter().enumerate() {
        if in_string {
            out.push(byte);
            in_string = escaped || byte != b'"';
            escaped = !escaped && byte == b'\\';
            continue;
        }
        match byte {
            b'"' => {
                in_string = true;
                out.push(byte);
            }
            b'{' | b'[' => {
                out.push(byte);
                depth += 1;
                if !matches!(json.get(at + 1), Some(b'}' | b']')) {
                    line(&mut out, depth);
                }
            }
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                if !matches!(at.checked_sub(1).map(|before| json[before]), Some(b'{' | b'[')) {
                    line(&mut out, depth);
                }
                out.push(byte);
            }
            b',' => {
                out.push(byte);
                line(&mut out, depth);
            }
            b':' => out.extend_from_slice(b": "),
            byte => out.push(byte),
        }
    }
    // In kube-apiserver a compact body ends with a newline, and an indented one does not.
    while out.last() == Some(&b'\n') {
        out.pop();
    }
    out
}

pub(crate) fn written_bytes(written: &Written, form: ObjectForm) -> Bytes {
    match (&written.stored, form) {
        (Some(stored), form) => object_bytes(stored, form),
        (None, ObjectForm::Metadata) => {
            let metadata = &crate::model::json::parse(&written.object)["metadata"];
            format!(
                r#"{{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{metadata}}}"#
            )
            .into_bytes()
            .into_iter()
            .chain([b'\n'])
            .collect()
        }
        (None, _) => [&written.object[..], b"\n"].concat().into(),
    }
}

pub(crate) fn object_bytes(stored: &Stored, form: ObjectForm) -> Bytes {
    let mut out = BytesMut::with_capacity(stored.len() + 1);
    stored.write(form, &mut out);
    out.extend_from_slice(b"\n");
    out.freeze()
}

pub(crate) fn value(status: u16, value: &Value) -> ApiResponse {
    json(status, format!("{value}\n"))
}

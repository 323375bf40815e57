//! Opens the response to a list or watch request: checks status and content type, and reads the error of a
//! rejected request.

use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, Request, Response, StatusCode};
use informer_cache::source::{ServerStatus, SourceError, SourceErrorKind};
use informer_schema::MAGIC;
use serde::Deserialize;

use super::Wire;
use crate::client::{Client, ResponseBody};
use crate::object::Encoding;

const JSON: &str = "application/json";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// The maximum number of bytes that are read from the body of an error response. A `Status` is smaller; an
/// HTML page of a proxy may be larger and is truncated.
const MAX_REFUSAL_BYTES: usize = 64 << 10;

const REFUSAL_TIMEOUT: Duration = Duration::from_secs(10);

/// The maximum number of characters of an error response in an error message, if the response is not a
/// `Status`.
const MAX_TEXT_SHOWN: usize = 256;

pub(super) struct EncodedBody {
    pub(super) encoding: Encoding,
    pub(super) body: ResponseBody,
}

pub(super) enum Opened {
    Body(EncodedBody),
    NotAcceptable(SourceError),
}

/// Sends a request and checks the status and the content type of the response. The returned body is JSON, or
/// protobuf if the request accepts protobuf and the schema `wire` can decode it.
pub(super) async fn open(
    client: &Client,
    request: Request<Bytes>,
    (attempt, timeout): (&str, Duration),
    wire: Option<&Wire>,
) -> Result<Opened, SourceError> {
    let Ok(result) = tokio::time::timeout(timeout, client.request(request)).await else {
        let text =
            format!("{attempt}: no response within {timeout:?}; check that the address is an API server");
        return Err(SourceError::new(SourceErrorKind::Timeout, text));
    };
    let response = result.map_err(|error| {
        let text = format!("{attempt}: {error}");
        SourceError::new(error.kind(), text).with_cause(error)
    })?;
    if response.status() == StatusCode::NOT_ACCEPTABLE {
        return Ok(Opened::NotAcceptable(refusal(response, wire).await.into_error(attempt)));
    }
    if response.status() != StatusCode::OK {
        return Err(refusal(response, wire).await.into_error(attempt));
    }
    let content_type = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let content_type = content_type.unwrap_or(JSON);
    match essence(content_type) {
        essence if essence.eq_ignore_ascii_case(JSON) => {
            Ok(Opened::Body(EncodedBody { encoding: Encoding::Json, body: response.into_body() }))
        }
        essence if wire.is_some() && essence.eq_ignore_ascii_case(PROTOBUF) => {
            Ok(Opened::Body(EncodedBody { encoding: Encoding::Protobuf, body: response.into_body() }))
        }
        _ => Err(protocol(
            attempt,
            format_args!(
                "the server responded with {content_type} instead of {JSON}; check that the address is that of an API server"
            ),
        )),
    }
}

/// Returns the media type of a `Content-Type` without its parameters. The `Content-Type` of a protobuf watch
/// has parameters.
fn essence(content_type: &str) -> &str {
    content_type.split(';').next().unwrap_or_default().trim()
}

pub(crate) fn protocol(attempt: &str, error: impl std::fmt::Display) -> SourceError {
    SourceError::new(SourceErrorKind::Protocol, format!("{attempt}: {error}"))
}

pub(crate) async fn refusal(response: Response<ResponseBody>, wire: Option<&Wire>) -> ServerStatus {
    let (head, mut body) = response.into_parts();
    let code = head.status.as_u16();
    let reading = body.read_up_to(MAX_REFUSAL_BYTES);
    // Errors and timeouts while reading the body of the error response are ignored, because the status code
    // is sufficient.
    let text = tokio::time::timeout(REFUSAL_TIMEOUT, reading).await.unwrap_or_default();
    let mut status = parse(&text, wire).unwrap_or_else(|| plain(head.status, &text));
    status.code = code;
    status.retry_after = retry_after(&head.headers).or(status.retry_after);
    status
}

/// Returns a `Status` for an error response whose body is not a `Status`. Its message is the body if the body
/// is text. The caller sets the code.
fn plain(code: StatusCode, text: &[u8]) -> ServerStatus {
    let reason = code.canonical_reason().unwrap_or("Unknown").replace(' ', "");
    let text = String::from_utf8_lossy(text);
    let message = match text.trim() {
        "" => "no message".to_owned(),
        text => text.chars().filter(|letter| !letter.is_control()).take(MAX_TEXT_SHOWN).collect(),
    };
    ServerStatus { reason, message, ..ServerStatus::default() }
}

#[derive(Deserialize)]
struct StatusText {
    #[serde(default)]
    kind: Option<String>,
    #[serde(default)]
    code: Option<u16>,
    #[serde(default)]
    reason: Option<String>,
    #[serde(default)]
    message: Option<String>,
    #[serde(default)]
    details: Option<Details>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Details {
    #[serde(default)]
    retry_after_seconds: Option<u64>,
    #[serde(default)]
    causes: Option<Vec<StatusCause>>,
}

#[derive(Deserialize)]
struct StatusCause {
    #[serde(default)]
    reason: Option<String>,
}

/// Parses a `Status` in JSON or protobuf, because servers send errors in the requested encoding.
pub(super) fn parse(text: &[u8], wire: Option<&Wire>) -> Option<ServerStatus> {
    let written = if text.starts_with(&MAGIC) { Some(wire?.schema().to_json(text).ok()?) } else { None };
    let status: StatusText = serde_json::from_slice(written.as_deref().unwrap_or(text)).ok()?;
    if status.kind.is_some_and(|kind| kind != "Status") {
        return None;
    }
    let details = status.details.unwrap_or(Details { retry_after_seconds: None, causes: None });
    let too_large = |cause: &StatusCause| {
        cause.reason.as_deref().is_some_and(|reason| reason == "ResourceVersionTooLarge")
    };
    Some(ServerStatus {
        code: status.code.unwrap_or_default(),
        reason: status.reason.unwrap_or_default(),
        message: status.message.unwrap_or_default(),
        version_too_large: details.causes.unwrap_or_default().iter().any(too_large),
        retry_after: details.retry_after_seconds.map(Duration::from_secs),
    })
}

/// Returns the delay of the `Retry-After` header, which contains seconds or a date. A date is compared with
/// the `Date` header of the response, so that a wrong local clock has no effect.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let value = text(RETRY_AFTER)?.trim();
    if let Ok(seconds) = value.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let until = jiff::fmt::rfc2822::parse(value).ok()?.timestamp();
    let sent = jiff::fmt::rfc2822::parse(text(http::header::DATE)?).ok()?.timestamp();
    Some(Duration::try_from(until.duration_since(sent)).unwrap_or_default())
}

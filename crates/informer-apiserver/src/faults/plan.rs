//! What the rules make of one request.

use std::sync::Arc;
use std::time::Duration;

use super::{FaultAction, OpenWatch};
use crate::error::ApiError;

/// Everything that is to go wrong with one request.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    pub(crate) never_answer: bool,
    pub(crate) delay: Duration,
    pub(crate) answer: Option<Answer>,
    pub(crate) too_large: bool,
    pub(crate) reject_initial: bool,
    pub(crate) ignore_initial: bool,
    pub(crate) rewind: u64,
    /// Watches.
    pub(crate) open: Option<Arc<OpenWatch>>,
    pub(crate) drop_bookmarks: bool,
    pub(crate) no_initial_end: bool,
    pub(crate) upsets: Vec<(u64, Upset)>,
    /// Any body.
    pub(crate) body_end: Option<(Point, BodyEnd)>,
}

/// An answer in place of the real one.
#[derive(Debug)]
pub(crate) enum Answer {
    Status(Box<ApiError>),
    /// A text of any kind.
    Text {
        code: u16,
        retry_after: Option<u32>,
        body: String,
    },
}

/// What happens to a watch between two events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Upset {
    Expire,
    Garbage,
    HalfFrame,
    UnknownEvent,
}

/// Where a body breaks off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Point {
    Events(u64),
    Bytes(u64),
}

/// How a body breaks off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BodyEnd {
    Clean,
    Reset,
    Stall,
}

impl Plan {
    /// True where nothing is wrong with the events of a watch, so that they need not be told apart.
    pub(crate) fn leaves_events(&self) -> bool {
        !self.drop_bookmarks
            && !self.no_initial_end
            && self.upsets.is_empty()
            && !matches!(self.body_end, Some((Point::Events(_), _)))
    }

    pub(crate) fn add(&mut self, action: &FaultAction) {
        match action {
            FaultAction::Status { code, reason, message, retry_after, body } => {
                let seconds = retry_after.unwrap_or_default();
                self.answer = Some(match body {
                    Some(body) => Answer::Text { code: *code, retry_after: *retry_after, body: body.clone() },
                    None => Answer::Status(Box::new(status(
                        *code,
                        reason.as_deref(),
                        message.as_deref(),
                        seconds,
                    ))),
                });
            }
            FaultAction::Expire { after_events } => self.upsets.push((*after_events, Upset::Expire)),
            FaultAction::Garbage { after_events } => self.upsets.push((*after_events, Upset::Garbage)),
            FaultAction::HalfFrame { after_events } => self.upsets.push((*after_events, Upset::HalfFrame)),
            FaultAction::UnknownEvent { after_events } => {
                self.upsets.push((*after_events, Upset::UnknownEvent))
            }
            FaultAction::Cut { after_events, after_bytes, abrupt } => {
                let end = if *abrupt { BodyEnd::Reset } else { BodyEnd::Clean };
                self.body_end = Some((point(*after_events, *after_bytes), end));
            }
            FaultAction::Stall { after_events, after_bytes } => {
                self.body_end = Some((point(*after_events, *after_bytes), BodyEnd::Stall));
            }
            FaultAction::Delay { millis } => self.delay += Duration::from_millis(*millis),
            FaultAction::Rewind { by } => self.rewind = *by,
            FaultAction::DropBookmarks => self.drop_bookmarks = true,
            FaultAction::NoInitialEnd => self.no_initial_end = true,
            FaultAction::RejectInitialEvents => self.reject_initial = true,
            FaultAction::IgnoreInitialEvents => self.ignore_initial = true,
            FaultAction::NeverAnswer => self.never_answer = true,
            FaultAction::TooLarge => self.too_large = true,
        }
    }
}

fn point(events: Option<u64>, bytes: Option<u64>) -> Point {
    match (events, bytes) {
        (Some(events), _) => Point::Events(events),
        (None, bytes) => Point::Bytes(bytes.unwrap_or_default()),
    }
}

/// A Status of a code, in upstream's words where it has some.
fn status(code: u16, reason: Option<&str>, message: Option<&str>, seconds: u32) -> ApiError {
    let (usual, text) = match code {
        400 => ("BadRequest", "the server rejected our request for an unknown reason"),
        401 => ("Unauthorized", "Unauthorized"),
        403 => ("Forbidden", "forbidden: User \"system:anonymous\" cannot access this resource"),
        404 => ("NotFound", "the server could not find the requested resource"),
        405 => ("MethodNotAllowed", "the server does not allow this method on the requested resource"),
        406 => {
            ("NotAcceptable", "the server was unable to respond with a content type that the client supports")
        }
        409 => ("Conflict", "the server reported a conflict"),
        410 => ("Expired", "The resourceVersion for the provided list is too old."),
        415 => ("UnsupportedMediaType", "the body of the request was in an unknown format"),
        422 => ("Invalid", "the server rejected our request due to an error in our request"),
        429 => ("TooManyRequests", "storage is (re)initializing"),
        500 => ("InternalError", "Internal error occurred: injected fault"),
        503 => ("ServiceUnavailable", "the server is currently unable to handle the request"),
        504 => ("Timeout", "Timeout: request did not complete within the allotted timeout"),
        _ => ("", "injected fault"),
    };
    let message = message.unwrap_or(text);
    let mut error = match seconds {
        0 => ApiError::new(code, usual, message),
        seconds => ApiError::retry_later(code, usual, message, seconds),
    };
    if let Some(reason) = reason {
        error.reason = reason.to_owned().into();
    }
    error
}

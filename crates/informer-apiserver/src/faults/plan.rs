//! The faults that the matching rules inject into one request.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::{FaultAction, OpenWatch};
use crate::model::error::ApiError;

const UNKNOWN_EVENT: &[u8] =
    b"{\"type\":\"EXPLODED\",\"object\":{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{}}}\n";

#[derive(Debug, Default)]
pub(crate) struct Plan {
    pub(crate) never_answer: bool,
    pub(crate) delay: Duration,
    pub(crate) response: Option<InjectedResponse>,
    pub(crate) too_large: bool,
    pub(crate) reject_initial: bool,
    pub(crate) ignore_initial: bool,
    pub(crate) rewind: u64,
    pub(crate) page: PagePlan,
    pub(crate) response_faults: ResponseFaults,
    /// The open watch, to which later rules add faults. `None` if the request is not a watch.
    pub(crate) open: Option<Arc<OpenWatch>>,
    pub(crate) drop_bookmarks: bool,
    pub(crate) no_initial_end: bool,
    pub(crate) repeat_bookmarks: bool,
    pub(crate) bookmarks_behind: u64,
    pub(crate) lag: Duration,
    pub(crate) lifetime: Option<Duration>,
    pub(crate) shuffle: Option<u64>,
    pub(crate) watch_faults: Vec<(u64, WatchFault)>,
    /// The position and the way in which the response body ends early; for requests of all verbs.
    pub(crate) body_end: Option<(BodyPosition, BodyEnd)>,
}

#[derive(Debug)]
pub(crate) enum InjectedResponse {
    Status(Box<ApiError>),
    Text { code: u16, retry_after: Option<u32>, body: String },
}

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct PagePlan {
    pub(crate) items: Option<u64>,
    pub(crate) ignore_limit: bool,
    /// The injected value of `remainingItemCount`; `Some(None)` omits the field.
    pub(crate) remaining: Option<Option<u64>>,
}

/// Faults in the response of a request that was executed.
#[derive(Debug, Default)]
pub(crate) struct ResponseFaults {
    pub(crate) delay: Duration,
    pub(crate) status: Option<Box<ApiError>>,
    pub(crate) trickle: Option<Trickle>,
    pub(crate) go_away: bool,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Trickle {
    pub(crate) bytes: usize,
    pub(crate) pause: Duration,
}

/// A fault that is injected between two events of a watch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum WatchFault {
    Expire,
    Line(Bytes),
    /// Sends a line instead of the next watch event, then ends the watch.
    LastLine(Bytes),
    NextEvent(EventFault),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EventFault {
    /// Sends half of the watch event, then ends the watch.
    Halve,
    Skip,
    Repeat,
    /// Sends the watch event after the following one.
    Swap,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BodyPosition {
    Events(u64),
    Bytes(u64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BodyEnd {
    Clean,
    Reset,
    Stall,
    /// Resets the connection immediately and discards written bytes that are not yet flushed.
    Lost,
}

impl Plan {
    /// Returns true if no fault depends on the number of watch events, so that the server may send several
    /// events in one item of the body stream.
    pub(crate) fn may_coalesce_events(&self) -> bool {
        !self.drop_bookmarks
            && !self.no_initial_end
            && self.watch_faults.is_empty()
            && !matches!(self.body_end, Some((BodyPosition::Events(_), _)))
    }

    pub(crate) fn add(&mut self, action: &FaultAction) {
        match action {
            FaultAction::Status { code, reason, message, retry_after, body } => {
                self.response = Some(match body {
                    Some(body) => {
                        InjectedResponse::Text { code: *code, retry_after: *retry_after, body: body.clone() }
                    }
                    None => InjectedResponse::Status(Box::new(status(
                        *code,
                        reason.as_deref(),
                        message.as_deref(),
                        *retry_after,
                    ))),
                });
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
            FaultAction::RepeatBookmarks => self.repeat_bookmarks = true,
            FaultAction::OldBookmarks { by } => self.bookmarks_behind = *by,
            FaultAction::ShuffleInitial { seed } => self.shuffle = Some(*seed),
            FaultAction::Lag { millis } => self.lag = Duration::from_millis(*millis),
            FaultAction::Lifetime { millis } => self.lifetime = Some(Duration::from_millis(*millis)),
            FaultAction::ShortPage { items } => self.page.items = Some(*items),
            FaultAction::IgnoreLimit => self.page.ignore_limit = true,
            FaultAction::RemainingItems { count } => self.page.remaining = Some(*count),
            action => {
                self.watch_faults.extend(watch_fault(action));
                self.add_response_fault(action);
            }
        }
    }

    fn add_response_fault(&mut self, action: &FaultAction) {
        match action {
            FaultAction::FalseStatus { code, reason, message, retry_after } => {
                self.response_faults.status =
                    Some(Box::new(status(*code, reason.as_deref(), message.as_deref(), *retry_after)));
            }
            FaultAction::LostAnswer => self.body_end = Some((BodyPosition::Bytes(0), BodyEnd::Lost)),
            FaultAction::LateAnswer { millis } => {
                self.response_faults.delay += Duration::from_millis(*millis)
            }
            FaultAction::Trickle { bytes, millis } => {
                // A chunk has at least one byte, because empty chunks would never complete the body.
                let bytes = usize::try_from(*bytes).unwrap_or(usize::MAX).max(1);
                self.response_faults.trickle = Some(Trickle { bytes, pause: Duration::from_millis(*millis) });
            }
            FaultAction::GoAway => self.response_faults.go_away = true,
            _ => {}
        }
    }
}

/// Returns the watch fault of an action and the number of events before it, or `None` if the action is not a
/// watch fault.
fn watch_fault(action: &FaultAction) -> Option<(u64, WatchFault)> {
    Some(match action {
        FaultAction::Expire { after_events } => (*after_events, WatchFault::Expire),
        FaultAction::Garbage { after_events } => {
            (*after_events, WatchFault::Line(Bytes::from_static(b"{\"type\":\"ADDED\",\"object\":{{{\n")))
        }
        FaultAction::UnknownEvent { after_events } => {
            (*after_events, WatchFault::Line(Bytes::from_static(UNKNOWN_EVENT)))
        }
        FaultAction::ErrorEvent { after_events, code, reason, message, retry_after } => {
            let line = status(*code, reason.as_deref(), message.as_deref(), *retry_after).to_event_line();
            (*after_events, WatchFault::LastLine(line.into()))
        }
        FaultAction::Event { after_events, r#type, object } => {
            let line =
                format!("{{\"type\":{},\"object\":{object}}}\n", serde_json::Value::from(r#type.as_str()));
            let watch_fault = if r#type == "ERROR" { WatchFault::LastLine } else { WatchFault::Line };
            (*after_events, watch_fault(line.into()))
        }
        FaultAction::HalfFrame { after_events } => (*after_events, WatchFault::NextEvent(EventFault::Halve)),
        FaultAction::SkipEvent { after_events } => (*after_events, WatchFault::NextEvent(EventFault::Skip)),
        FaultAction::RepeatEvent { after_events } => {
            (*after_events, WatchFault::NextEvent(EventFault::Repeat))
        }
        FaultAction::SwapEvents { after_events } => (*after_events, WatchFault::NextEvent(EventFault::Swap)),
        _ => return None,
    })
}

fn point(events: Option<u64>, bytes: Option<u64>) -> BodyPosition {
    match (events, bytes) {
        (Some(events), _) => BodyPosition::Events(events),
        (None, bytes) => BodyPosition::Bytes(bytes.unwrap_or_default()),
    }
}

/// Returns the error Status for an HTTP status code, with the reason and message of kube-apiserver for the
/// usual codes.
fn status(code: u16, reason: Option<&str>, message: Option<&str>, seconds: Option<u32>) -> ApiError {
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
        413 => ("RequestEntityTooLarge", "Request entity too large: limit is 3145728"),
        415 => ("UnsupportedMediaType", "the body of the request was in an unknown format"),
        422 => ("Invalid", "the server rejected our request due to an error in our request"),
        429 => ("TooManyRequests", "storage is (re)initializing"),
        500 => ("InternalError", "Internal error occurred: injected fault"),
        503 => ("ServiceUnavailable", "the server is currently unable to handle the request"),
        504 => ("Timeout", "Timeout: request did not complete within the allotted timeout"),
        _ => ("", "injected fault"),
    };
    let message = message.unwrap_or(text);
    let mut error = match seconds.unwrap_or_default() {
        0 => ApiError::new(code, usual, message),
        seconds => ApiError::retry_later(code, usual, message, seconds),
    };
    if let Some(reason) = reason {
        error.reason = reason.to_owned().into();
    }
    error
}

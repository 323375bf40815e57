use std::fmt;
use std::time::Duration;

use informer_cache::source::{ServerStatus, SourceErrorKind};

use crate::RequestError;

type Cause = Box<dyn std::error::Error + Send + Sync>;

/// The error of a failed call: the server rejected it, or sent no complete response.
///
/// The methods of this type classify the error. The message contains the operation, the object and the
/// message of the server.
#[derive(Debug)]
pub struct CallError {
    attempt: String,
    failure: Failure,
}

#[derive(Debug)]
enum Failure {
    Rejected(ServerStatus),
    NoResponse { problem: String, kind: SourceErrorKind, cause: Option<Cause> },
}

impl CallError {
    /// Returns the error of a call that the server rejected with `status`.
    pub fn refused(attempt: impl Into<String>, status: ServerStatus) -> Self {
        Self { attempt: attempt.into(), failure: Failure::Rejected(status) }
    }

    pub(super) fn timed_out(attempt: String, timeout: Duration) -> Self {
        let problem = format!("no response within {timeout:?}");
        let failure = Failure::NoResponse { problem, kind: SourceErrorKind::Timeout, cause: None };
        Self { attempt, failure }
    }

    pub(super) fn no_response(attempt: String, error: RequestError) -> Self {
        let (problem, kind) = ("the server sent no response".to_owned(), error.kind());
        Self { attempt, failure: Failure::NoResponse { problem, kind, cause: Some(error.into()) } }
    }

    pub(super) fn incomplete(
        attempt: String,
        problem: &str,
        kind: SourceErrorKind,
        cause: impl Into<Cause>,
    ) -> Self {
        let problem = problem.to_owned();
        Self { attempt, failure: Failure::NoResponse { problem, kind, cause: Some(cause.into()) } }
    }

    pub(super) fn invalid_request(attempt: String, problem: String) -> Self {
        let failure = Failure::NoResponse { problem, kind: SourceErrorKind::Rejected, cause: None };
        Self { attempt, failure }
    }

    /// Returns the `Status` with which the server rejected the call, or `None` if the client received no
    /// complete response. Without a complete response the server may have performed a write, unless the
    /// request was invalid and therefore not sent.
    pub fn status(&self) -> Option<&ServerStatus> {
        match &self.failure {
            Failure::Rejected(status) => Some(status),
            Failure::NoResponse { .. } => None,
        }
    }

    /// Returns the kind of failure, such as a timeout or a missing object, so that the caller can decide how
    /// to react.
    pub fn kind(&self) -> SourceErrorKind {
        match &self.failure {
            Failure::Rejected(status) => status.kind(),
            Failure::NoResponse { kind, .. } => *kind,
        }
    }

    fn has(&self, code: u16, reason: &str) -> bool {
        self.status().is_some_and(|status| status.code == code || (code == 0 && status.reason == reason))
    }

    /// Returns true if the server has no such object or kind (404).
    pub fn is_not_found(&self) -> bool {
        self.has(404, "")
    }

    /// Returns true if the server rejected the creation of an object because its name already exists (409).
    pub fn is_already_exists(&self) -> bool {
        self.has(0, "AlreadyExists")
    }

    /// Returns true for any conflict (409) other than an existing name: the resourceVersion is stale, the UID
    /// differs, or another field manager owns a field. Read the object again and retry.
    pub fn is_conflict(&self) -> bool {
        self.has(409, "") && !self.is_already_exists()
    }

    /// Returns true if the server rejected the object as invalid (422).
    pub fn is_invalid(&self) -> bool {
        self.has(422, "")
    }

    /// Returns true if the server denied the request because the user is not authorized (403).
    pub fn is_forbidden(&self) -> bool {
        self.has(403, "")
    }

    /// Returns the delay before a retry that the server requested with `Retry-After`; `None` if it requested
    /// none.
    pub fn retry_after(&self) -> Option<Duration> {
        self.status()?.retry_after
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.failure {
            Failure::Rejected(ServerStatus { code, reason, message, .. }) => {
                let space = if reason.is_empty() { "" } else { " " };
                write!(f, "{}: the server responded with {code}{space}{reason}: {message}", self.attempt)
            }
            Failure::NoResponse { problem, .. } => write!(f, "{}: {problem}", self.attempt),
        }
    }
}

impl std::error::Error for CallError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.failure {
            Failure::NoResponse { cause: Some(cause), .. } => Some(&**cause),
            _ => None,
        }
    }
}

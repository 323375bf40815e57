use std::fmt;
use std::time::Duration;

use informer_cache::source::{ServerStatus, SourceErrorKind};

use crate::RequestError;

type Cause = Box<dyn std::error::Error + Send + Sync>;

/// A call that failed: refused by the server, or without an answer.
///
/// Ask its predicates; the text says what was attempted, on what, and what the server said.
#[derive(Debug)]
pub struct CallError {
    attempt: String,
    failure: Failure,
}

#[derive(Debug)]
enum Failure {
    Refused(ServerStatus),
    Unanswered { problem: String, kind: SourceErrorKind, cause: Option<Cause> },
}

impl CallError {
    /// Returns the error of an attempt that a server refused.
    pub fn refused(attempt: impl Into<String>, status: ServerStatus) -> Self {
        Self { attempt: attempt.into(), failure: Failure::Refused(status) }
    }

    pub(super) fn silent(attempt: String, timeout: Duration) -> Self {
        let problem = format!("no answer within {timeout:?}");
        let failure = Failure::Unanswered { problem, kind: SourceErrorKind::Timeout, cause: None };
        Self { attempt, failure }
    }

    pub(super) fn unanswered(attempt: String, error: RequestError) -> Self {
        let (problem, kind) = ("no answer came".to_owned(), error.kind());
        Self { attempt, failure: Failure::Unanswered { problem, kind, cause: Some(error.into()) } }
    }

    pub(super) fn broken(
        attempt: String,
        problem: &str,
        kind: SourceErrorKind,
        cause: impl Into<Cause>,
    ) -> Self {
        let problem = problem.to_owned();
        Self { attempt, failure: Failure::Unanswered { problem, kind, cause: Some(cause.into()) } }
    }

    /// Returns the error of a call that was not sent, since it cannot be.
    pub(super) fn unwritten(attempt: String, problem: String) -> Self {
        let failure = Failure::Unanswered { problem, kind: SourceErrorKind::Rejected, cause: None };
        Self { attempt, failure }
    }

    /// What the server said; `None` where no whole answer came, and whether a write has happened is not
    /// known.
    pub fn status(&self) -> Option<&ServerStatus> {
        match &self.failure {
            Failure::Refused(status) => Some(status),
            Failure::Unanswered { .. } => None,
        }
    }

    /// What kind of failure it was.
    pub fn kind(&self) -> SourceErrorKind {
        match &self.failure {
            Failure::Refused(status) => status.kind(),
            Failure::Unanswered { kind, .. } => *kind,
        }
    }

    fn has(&self, code: u16, reason: &str) -> bool {
        self.status().is_some_and(|status| status.code == code || (code == 0 && status.reason == reason))
    }

    /// The object, or the kind, does not exist (404).
    pub fn is_not_found(&self) -> bool {
        self.has(404, "")
    }

    /// An object of the name exists (409).
    pub fn is_already_exists(&self) -> bool {
        self.has(0, "AlreadyExists")
    }

    /// The object was changed meanwhile, is another one, or fields of it belong to others (409): read it
    /// again.
    pub fn is_conflict(&self) -> bool {
        self.has(409, "") && !self.is_already_exists()
    }

    /// The object does not fulfil what its kind demands (422).
    pub fn is_invalid(&self) -> bool {
        self.has(422, "")
    }

    /// We may not (403).
    pub fn is_forbidden(&self) -> bool {
        self.has(403, "")
    }

    /// How long the server asks to wait before the next attempt.
    pub fn retry_after(&self) -> Option<Duration> {
        self.status()?.retry_after
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.failure {
            Failure::Refused(ServerStatus { code, reason, message, .. }) => {
                let space = if reason.is_empty() { "" } else { " " };
                write!(f, "{}: the server answered {code}{space}{reason}: {message}", self.attempt)
            }
            Failure::Unanswered { problem, .. } => write!(f, "{}: {problem}", self.attempt),
        }
    }
}

impl std::error::Error for CallError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.failure {
            Failure::Unanswered { cause: Some(cause), .. } => Some(&**cause),
            _ => None,
        }
    }
}

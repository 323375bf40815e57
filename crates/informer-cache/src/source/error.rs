use std::error::Error;
use std::fmt;
use std::time::Duration;

/// A list or a watch that failed.
///
/// The text says what was attempted, on what, and what can be done; the cause is in [`source`](Error::source). What a
/// reflector does about it depends on [`kind`](Self::kind) alone.
#[derive(Debug)]
pub struct SourceError {
    kind: SourceErrorKind,
    message: String,
    retry_after: Option<Duration>,
    cause: Option<Box<dyn Error + Send + Sync>>,
}

/// What kind of failure it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SourceErrorKind {
    /// The version asked for is no longer in the server's history (410).
    Expired,
    /// The version asked for is newer than what the server has (504 with its cause).
    VersionTooLarge,
    /// The server asks to come back later (429).
    TooManyRequests,
    /// The server answers that it cannot now (500, 502, 503, 504).
    Unavailable,
    /// Nobody listens at the address.
    ConnectionRefused,
    /// The connection broke: reset, closed in the middle, name not found, TLS.
    Connection,
    /// The other side was silent for too long.
    Timeout,
    /// Who we are is not known (401).
    Unauthorized,
    /// We may not (403).
    Forbidden,
    /// There is no such kind (404).
    NotFound,
    /// The request, or a part of it, is not supported (400, 405, 406, 415, 422).
    Rejected,
    /// The answer is not what the protocol allows: not JSON, another kind, a part over its limit.
    Protocol,
    /// Anything else.
    Other,
}

impl SourceErrorKind {
    /// The word of this kind in metrics and states.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Expired => "expired",
            Self::VersionTooLarge => "version_too_large",
            Self::TooManyRequests => "too_many_requests",
            Self::Unavailable => "unavailable",
            Self::ConnectionRefused => "connection_refused",
            Self::Connection => "connection",
            Self::Timeout => "timeout",
            Self::Unauthorized => "unauthorized",
            Self::Forbidden => "forbidden",
            Self::NotFound => "not_found",
            Self::Rejected => "rejected",
            Self::Protocol => "protocol",
            Self::Other => "other",
        }
    }
}

impl fmt::Display for SourceErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl SourceError {
    /// An error; `message` says what was attempted, on what, and what can be done.
    pub fn new(kind: SourceErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), retry_after: None, cause: None }
    }

    /// Adds the cause.
    pub fn with_cause(mut self, cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        self.cause = Some(cause.into());
        self
    }

    /// Adds how long the server asks to wait.
    pub fn with_retry_after(mut self, retry_after: Option<Duration>) -> Self {
        self.retry_after = retry_after;
        self
    }

    /// What kind of failure it was.
    pub fn kind(&self) -> SourceErrorKind {
        self.kind
    }

    /// How long the server asks to wait before the next attempt.
    pub fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }
}

impl fmt::Display for SourceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.message)
    }
}

impl Error for SourceError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.cause.as_deref().map(|cause| cause as &(dyn Error + 'static))
    }
}

/// The `Status` of an error event or of a refused request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServerStatus {
    /// The HTTP code; 0 where the server gave none.
    pub code: u16,
    /// The machine-readable reason, as `Expired`.
    pub reason: String,
    /// The text.
    pub message: String,
    /// True where a cause says that the version is newer than the server's.
    pub version_too_large: bool,
    /// How long the server asks to wait.
    pub retry_after: Option<Duration>,
}

impl ServerStatus {
    /// What kind of failure the status tells of.
    pub fn kind(&self) -> SourceErrorKind {
        // Older servers tell of a version that is too large by the message alone.
        let too_large = self.version_too_large || self.message.contains("Too large resource version");
        match (self.code, self.reason.as_str()) {
            (410, _) | (_, "Expired" | "Gone") => SourceErrorKind::Expired,
            (504, _) | (_, "Timeout") if too_large => SourceErrorKind::VersionTooLarge,
            (429, _) | (_, "TooManyRequests") => SourceErrorKind::TooManyRequests,
            (401, _) => SourceErrorKind::Unauthorized,
            (403, _) => SourceErrorKind::Forbidden,
            (404, _) => SourceErrorKind::NotFound,
            (400 | 405 | 406 | 413 | 415 | 422, _) => SourceErrorKind::Rejected,
            (500..=599, _) => SourceErrorKind::Unavailable,
            _ => SourceErrorKind::Other,
        }
    }

    /// The status as an error of `attempt`, which says what was attempted on what.
    pub fn into_error(self, attempt: &str) -> SourceError {
        let advice = match self.kind() {
            SourceErrorKind::Unauthorized => "; check the credentials",
            SourceErrorKind::Forbidden => "; grant list and watch on it",
            SourceErrorKind::NotFound => {
                "; check that the kind (its CustomResourceDefinition) exists on the server"
            }
            _ => "",
        };
        let (code, message) = (self.code, &self.message);
        let space = if self.reason.is_empty() { "" } else { " " };
        let text = format!("{attempt}: the server answered {code}{space}{}: {message}{advice}", self.reason);
        SourceError::new(self.kind(), text).with_retry_after(self.retry_after)
    }
}

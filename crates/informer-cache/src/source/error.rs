use std::error::Error;
use std::fmt;
use std::time::Duration;

/// An error that a list or a watch of a source returned.
///
/// The message names the operation, its target and a remedy. The cause is in [`source`](Error::source). How
/// the reflector reacts depends only on [`kind`](Self::kind).
#[derive(Debug)]
pub struct SourceError {
    kind: SourceErrorKind,
    message: String,
    retry_after: Option<Duration>,
    cause: Option<Box<dyn Error + Send + Sync>>,
}

/// The kinds of failures of a list or a watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SourceErrorKind {
    /// The requested resource version is no longer in the server's history (410).
    Expired,
    /// The requested resource version is newer than the server's (504 with the message or cause `Too large
    /// resource version`).
    VersionTooLarge,
    /// The server requests the client to retry later (429).
    TooManyRequests,
    /// The server is temporarily unable to respond (500, 502, 503, 504).
    Unavailable,
    /// No server listens at the address of the source.
    ConnectionRefused,
    /// The connection failed: it was reset or closed before the end of the response, the host name was not
    /// resolved, or TLS failed.
    Connection,
    /// The server sent nothing before the timeout of the request expired.
    Timeout,
    /// The credentials of the client are missing or invalid (401).
    Unauthorized,
    /// The server denies the client access (403).
    Forbidden,
    /// The server does not know the kind (404).
    NotFound,
    /// The server does not support the request or some part of the request (400, 405, 406, 413, 415, 422).
    Rejected,
    /// A watch or a streaming list cannot go on, because the server sends fields that the client cannot read
    /// in the encoding of the response. The source must be listed again, and then uses another encoding. The
    /// server did not fail: the first such error in the life of a reflector is followed by a list without a
    /// wait. Later ones wait for the backoff. Other requests must not fail with this error.
    EncodingChanged,
    /// The response violates the protocol: it is not JSON, has another kind, or a part of it exceeds a size
    /// limit.
    Protocol,
    /// The request failed for any other reason.
    Other,
}

impl SourceErrorKind {
    /// Returns the name of this kind of failure in metrics and states.
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
            Self::EncodingChanged => "encoding_changed",
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
    /// Creates an error. `message` should name the failed operation, its target and a remedy.
    pub fn new(kind: SourceErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), retry_after: None, cause: None }
    }

    /// Adds the error that caused this one.
    pub fn with_cause(mut self, cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        self.cause = Some(cause.into());
        self
    }

    /// Adds the time that the server requested to wait with `Retry-After`.
    pub fn with_retry_after(mut self, retry_after: Option<Duration>) -> Self {
        self.retry_after = retry_after;
        self
    }

    /// Returns the kind of the failure.
    pub fn kind(&self) -> SourceErrorKind {
        self.kind
    }

    /// Returns how long the client should wait before the next attempt, if the server sent a `Retry-After`.
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

/// The `Status` object in an error event or in the response to a rejected request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServerStatus {
    /// The HTTP status code in the `Status` object; 0 if the server sent none.
    pub code: u16,
    /// The machine-readable reason in the `Status` object, for example `Expired`.
    pub reason: String,
    /// The human-readable message of the server.
    pub message: String,
    /// True if a cause in the `Status` object reports that the requested resourceVersion is newer than the
    /// server's.
    pub version_too_large: bool,
    /// The time that the server requests to wait before a retry.
    pub retry_after: Option<Duration>,
}

impl ServerStatus {
    /// Returns true if the status is an `InternalError` (500).
    pub fn is_internal_error(&self) -> bool {
        self.reason == "InternalError" || (self.reason.is_empty() && self.code == 500)
    }

    /// Returns the kind of failure that the status means.
    pub fn kind(&self) -> SourceErrorKind {
        // Older servers report a resourceVersion that is too large only in the message of the status, without
        // a cause.
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

    /// Converts the status to an error. `attempt` names the failed operation, which begins with its verb, and
    /// its target.
    pub fn into_error(self, attempt: &str) -> SourceError {
        let advice = match self.kind() {
            SourceErrorKind::Unauthorized => "; check the credentials",
            SourceErrorKind::Forbidden if attempt.starts_with("get ") => "; grant get on it",
            SourceErrorKind::Forbidden => "; grant list and watch on it",
            SourceErrorKind::NotFound => {
                "; check that the kind (its CustomResourceDefinition) exists on the server"
            }
            _ => "",
        };
        let (code, message) = (self.code, &self.message);
        let space = if self.reason.is_empty() { "" } else { " " };
        let text =
            format!("{attempt}: the server responded with {code}{space}{}: {message}{advice}", self.reason);
        SourceError::new(self.kind(), text).with_retry_after(self.retry_after)
    }
}

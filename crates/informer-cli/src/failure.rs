//! The error with which a command of `informer` ends.

use std::error::Error;
use std::fmt::{self, Write as _};
use std::io;

/// The error with which a command ends: a message and its causes, which are printed on stderr.
#[derive(Debug)]
pub(crate) struct Failure {
    text: String,
    cause: Option<Box<dyn Error + Send + Sync>>,
}

impl Failure {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), cause: None }
    }

    pub(crate) fn caused(text: impl Into<String>, cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { text: text.into(), cause: Some(cause.into()) }
    }

    /// Returns the failure for an I/O error. `attempt` names the failed operation, such as "listen on
    /// 127.0.0.1:8080".
    pub(crate) fn io(attempt: &str, error: io::Error) -> Self {
        Self::caused(format!("cannot {attempt}"), error)
    }

    pub(crate) fn server(error: informer_apiserver::ApiError) -> Self {
        Self::caused("the embedded server rejected a write", error)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)?;
        let mut cause = self.cause.as_deref().map(|cause| cause as &dyn Error);
        while let Some(error) = cause {
            write!(f, ": {error}")?;
            cause = error.source();
        }
        Ok(())
    }
}

impl Error for Failure {}

/// Formats an error and its causes as one line, separated by colons. Omits causes whose message is already
/// part of the line.
pub(crate) fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            let _ = write!(text, ": {more}");
        }
        cause = error.source();
    }
    text
}

/// Escapes control characters in a string that is printed. Otherwise strings from the server could move the
/// cursor of the terminal or change its colors.
pub(crate) fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() { plain.extend(c.escape_default()) } else { plain.push(c) }
    }
    plain
}

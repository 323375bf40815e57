#[cfg(test)]
mod tests;

use std::sync::Arc;

use informer_core::ResourceVersion;

use crate::source::{ServerStatus, SourceError, SourceErrorKind, WatchEvent};

/// Returns an `ADDED` event, which a source of a test sends on a watch.
pub fn added<O>(object: impl Into<Arc<O>>) -> WatchEvent<O> {
    WatchEvent::Added(object.into())
}

/// Returns a `MODIFIED` event, which a source of a test sends on a watch.
pub fn modified<O>(object: impl Into<Arc<O>>) -> WatchEvent<O> {
    WatchEvent::Modified(object.into())
}

/// Returns a `DELETED` event, which a source of a test sends on a watch.
pub fn deleted<O>(object: impl Into<Arc<O>>) -> WatchEvent<O> {
    WatchEvent::Deleted(object.into())
}

/// Returns a `BOOKMARK` event, which a source of a test sends on a watch. It does not end the initial events
/// of a streaming list.
pub fn bookmark<O>(version: impl Into<ResourceVersion>) -> WatchEvent<O> {
    WatchEvent::Bookmark { version: version.into(), initial_events_end: false }
}

/// Returns the bookmark that marks the end of the initial events of a streaming list.
pub fn initial_events_end<O>(version: impl Into<ResourceVersion>) -> WatchEvent<O> {
    WatchEvent::Bookmark { version: version.into(), initial_events_end: true }
}

/// Returns an `ERROR` event with this status code and reason, with which a source of a test ends a watch.
pub fn error_event<O>(code: u16, reason: &str) -> WatchEvent<O> {
    let status = ServerStatus { code, reason: reason.to_owned(), ..ServerStatus::default() };
    WatchEvent::Error(status)
}

/// Returns the error of a failed request or stream, with this kind of failure.
pub fn failure(kind: SourceErrorKind) -> SourceError {
    SourceError::new(kind, format!("scripted failure: {kind}"))
}

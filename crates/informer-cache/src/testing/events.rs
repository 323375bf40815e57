#[cfg(test)]
mod tests;

use std::sync::Arc;

use informer_core::ResourceVersion;

use crate::source::{ServerStatus, SourceError, SourceErrorKind, WatchEvent};

/// An object came into view.
pub fn added<O>(object: impl Into<Arc<O>>) -> WatchEvent<O> {
    WatchEvent::Added(object.into())
}

/// An object changed.
pub fn modified<O>(object: impl Into<Arc<O>>) -> WatchEvent<O> {
    WatchEvent::Modified(object.into())
}

/// An object went out of view.
pub fn deleted<O>(object: impl Into<Arc<O>>) -> WatchEvent<O> {
    WatchEvent::Deleted(object.into())
}

/// The watch has reached a version.
pub fn bookmark<O>(version: impl Into<ResourceVersion>) -> WatchEvent<O> {
    WatchEvent::Bookmark { version: version.into(), initial_events_end: false }
}

/// The mark at the end of the first part of a streaming list.
pub fn initial_events_end<O>(version: impl Into<ResourceVersion>) -> WatchEvent<O> {
    WatchEvent::Bookmark { version: version.into(), initial_events_end: true }
}

/// An error that the server reports within a watch.
pub fn error_event<O>(code: u16, reason: &str) -> WatchEvent<O> {
    let status = ServerStatus { code, reason: reason.to_owned(), ..ServerStatus::default() };
    WatchEvent::Error(status)
}

/// A failure of a request or of a stream.
pub fn failure(kind: SourceErrorKind) -> SourceError {
    SourceError::new(kind, format!("the script failed it: {kind}"))
}

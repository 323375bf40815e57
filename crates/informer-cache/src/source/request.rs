use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use informer_core::{Object, ObjectKey, ResourceVersion};
use informer_store::Indexer;

use crate::UndecodableLog;

/// A list request. Namespace and selectors are not part of the request; they belong to the source.
pub struct ListRequest<O: Object> {
    /// The requested resourceVersion. If it is [unset](ResourceVersion::unset), the source returns the newest
    /// state, by a consistent read. If it is [any](ResourceVersion::any), the source may return any available
    /// state. Otherwise it returns a state that is not older than this version, or the state at exactly this
    /// version, depending on `version_match`.
    pub version: ResourceVersion,
    /// The interpretation of the requested resourceVersion (`resourceVersionMatch`).
    pub version_match: VersionMatch,
    /// The maximum number of objects in one response; `None` for no limit.
    pub limit: Option<u32>,
    /// The continue token that the previous page returned; `None` for the first page.
    pub continue_token: Option<String>,
    /// Access to the informer's cache, which the source may use to skip decoding unchanged objects.
    pub context: SourceContext<O>,
}

/// A request for a watch, or for a streaming list.
pub struct WatchRequest<O: Object> {
    /// The resourceVersion after which the watch starts. With `send_initial_events`, the watch first sends a
    /// state that is not older than this version.
    pub version: ResourceVersion,
    /// True if the watch should send [bookmarks](super::WatchEvent::Bookmark).
    pub bookmarks: bool,
    /// True to request a streaming list: the source sends the current objects as added, then a bookmark whose
    /// `initial_events_end` is true, then changes.
    pub send_initial_events: bool,
    /// The time after which the source should close the watch.
    pub timeout: Duration,
    /// Access to the informer's cache, which the source may use to skip decoding unchanged objects.
    pub context: SourceContext<O>,
}

/// The interpretation of the resourceVersion in a list request (`resourceVersionMatch`), as [defined by the
/// API](https://kubernetes.io/docs/reference/using-api/api-concepts/#semantics-for-get-and-list).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum VersionMatch {
    /// The list request states no interpretation of its resourceVersion; the server uses the default one.
    #[default]
    Unset,
    /// The list shows a state that is at least as new as the requested version.
    NotOlderThan,
    /// The list shows the state at exactly the requested version.
    Exact,
}

/// Access to an informer's cache for its source. The default context has no cache and works with any source.
pub struct SourceContext<O: Object> {
    known: Option<Arc<dyn KnownObjects<O>>>,
    undecodable: UndecodableLog,
}

/// A read-only view of the objects in an informer's cache.
pub trait KnownObjects<O>: Send + Sync + 'static {
    /// Returns the object that is cached under a key.
    fn get(&self, key: &str) -> Option<Arc<O>>;

    /// Returns the keys of all cached objects.
    fn keys(&self) -> Vec<ObjectKey>;
}

impl<O: Object> KnownObjects<O> for Indexer<O> {
    fn get(&self, key: &str) -> Option<Arc<O>> {
        Indexer::get(self, key)
    }

    fn keys(&self) -> Vec<ObjectKey> {
        Indexer::keys(self)
    }
}

impl<O: Object> SourceContext<O> {
    /// Returns a context with a view of the cached objects. `undecodable` records objects that the source
    /// decodes lazily, and whose decoding fails at the first access.
    pub fn new(known: Option<Arc<dyn KnownObjects<O>>>, undecodable: UndecodableLog) -> Self {
        Self { known, undecodable }
    }

    /// Returns the object cached under `key`, if it is exactly the state that `uid` and `version` identify. A
    /// decoder calls this method after it has read the metadata, and then returns
    /// [`Listed::Known`](super::Listed::Known) without decoding the body.
    ///
    /// An empty version identifies no state, so the result is `None`.
    pub fn unchanged(&self, key: &str, uid: &str, version: &ResourceVersion) -> Option<Arc<O>> {
        let held = self.known.as_ref()?.get(key)?;
        let same = !version.is_empty() && held.resource_version() == version && held.uid() == uid;
        same.then_some(held)
    }

    /// Returns whether the cache contains an object with this key.
    pub(super) fn contains(&self, key: &str) -> bool {
        self.known.as_ref().is_some_and(|known| known.get(key).is_some())
    }

    /// Returns the log for objects that are decoded lazily. It records objects whose decoding fails at the
    /// first access, after the list.
    pub fn undecodable(&self) -> &UndecodableLog {
        &self.undecodable
    }
}

impl<O: Object> Default for SourceContext<O> {
    fn default() -> Self {
        Self::new(None, UndecodableLog::default())
    }
}

impl<O: Object> Clone for SourceContext<O> {
    fn clone(&self) -> Self {
        Self { known: self.known.clone(), undecodable: self.undecodable.clone() }
    }
}

impl<O: Object> fmt::Debug for SourceContext<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SourceContext").field("known", &self.known.is_some()).finish_non_exhaustive()
    }
}

impl<O: Object> fmt::Debug for ListRequest<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ListRequest")
            .field("version", &self.version)
            .field("version_match", &self.version_match)
            .field("limit", &self.limit)
            .field("continued", &self.continue_token.is_some())
            .finish_non_exhaustive()
    }
}

impl<O: Object> fmt::Debug for WatchRequest<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WatchRequest")
            .field("version", &self.version)
            .field("bookmarks", &self.bookmarks)
            .field("send_initial_events", &self.send_initial_events)
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}

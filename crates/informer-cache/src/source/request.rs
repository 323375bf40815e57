use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use informer_core::{Object, ObjectKey, ResourceVersion};
use informer_store::Indexer;

use crate::UndecodableLog;

/// What a [`ListSource`](super::ListSource) is asked. Namespace and selectors are the source's own.
pub struct ListRequest<O: Object> {
    /// [Unset](ResourceVersion::unset): the newest state, consistently. [Any](ResourceVersion::any): whatever is at
    /// hand. Otherwise a state not older than this version, or exactly it, as `version_match` says.
    pub version: ResourceVersion,
    /// How `version` is meant.
    pub version_match: VersionMatch,
    /// At most this many objects in one answer; `None` for all.
    pub limit: Option<u32>,
    /// The token of the page before.
    pub continue_token: Option<String>,
    /// What the source may use of the informer.
    pub context: SourceContext<O>,
}

/// What a [`WatchSource`](super::WatchSource) is asked.
pub struct WatchRequest<O: Object> {
    /// Changes after this version. With `send_initial_events`: a state not older than it, first.
    pub version: ResourceVersion,
    /// Asks for [bookmarks](super::WatchEvent::Bookmark).
    pub bookmarks: bool,
    /// A streaming list: the source sends the present state as added objects, then a bookmark whose
    /// `initial_events_end` is true, then what happens.
    pub send_initial_events: bool,
    /// After this time the source should close the watch.
    pub timeout: Duration,
    /// What the source may use of the informer.
    pub context: SourceContext<O>,
}

/// How the version of a list is meant, as
/// [the API defines it](https://kubernetes.io/docs/reference/using-api/api-concepts/#semantics-for-get-and-list).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum VersionMatch {
    /// The server's default for the version given.
    #[default]
    Unset,
    /// A state at least as new.
    NotOlderThan,
    /// Exactly that state.
    Exact,
}

/// What a source may use of the informer that asks it. The default knows nothing and is right for any source.
pub struct SourceContext<O: Object> {
    known: Option<Arc<dyn KnownObjects<O>>>,
    undecodable: UndecodableLog,
}

/// A read view of the objects that are already held.
pub trait KnownObjects<O>: Send + Sync + 'static {
    /// The object held under a key.
    fn get(&self, key: &str) -> Option<Arc<O>>;

    /// All keys held.
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
    /// A context with a view of what is held; `undecodable` takes objects that fail later, when they are first read.
    pub fn new(known: Option<Arc<dyn KnownObjects<O>>>, undecodable: UndecodableLog) -> Self {
        Self { known, undecodable }
    }

    /// The object held under `key`, if it is the very state that `uid` and `version` name. A decoder that has read the
    /// header asks this first and hands on [`Listed::Known`](super::Listed::Known) without decoding.
    ///
    /// Empty versions name no state: the answer is `None`.
    pub fn unchanged(&self, key: &str, uid: &str, version: &ResourceVersion) -> Option<Arc<O>> {
        let held = self.known.as_ref()?.get(key)?;
        let same = !version.is_empty() && held.resource_version() == version && held.uid() == uid;
        same.then_some(held)
    }

    /// Where objects are reported that turn out to be unreadable when they are first decoded.
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

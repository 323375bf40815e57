use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use informer_core::ResourceVersion;

use super::BackoffConfig;
use crate::source::SourceError;

/// The shortest watch timeout that a reflector requests, as in client-go. Opening a watch has a fixed cost
/// for the server, so watches with a shorter timeout would be inefficient.
pub const MIN_WATCH_TIMEOUT: Duration = Duration::from_secs(300);

/// The configuration of a [`Reflector`](super::Reflector). The default values suit a Kubernetes API server.
///
/// ```
/// use std::time::Duration;
/// use informer_cache::reflector::ReflectorConfig;
///
/// let mut config = ReflectorConfig::named("pods");
/// config.resync_period = Some(Duration::from_secs(600));
/// config.on_error = Some(std::sync::Arc::new(|error| eprintln!("pods: {error}")));
/// assert_eq!(config.page_size, 500);
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct ReflectorConfig {
    /// The name of the reflector in states, spans and logs.
    pub name: Arc<str>,
    /// The expected kind of the objects, for spans and logs. The reflector does not validate the kind; the
    /// source does.
    pub expected_kind: Option<Arc<str>>,
    /// The page size of lists; 0 means no limit. The default is 500, as in other Kubernetes clients.
    pub page_size: u32,
    /// Decides when lists are requested in pages.
    pub paging: Paging,
    /// The maximum number of pages in one list; the default is 20,000. A list with more pages fails, because
    /// its pages probably never end.
    pub max_pages: u32,
    /// The maximum number of objects in one list; the default is 10,000,000. A longer list fails, so that its
    /// memory is limited.
    pub max_objects: u32,
    /// The lower bound of the requested watch timeout, which is drawn from `[min_watch_timeout, 2 *
    /// min_watch_timeout)` so that the watches of many clients do not end together. The default is 5 minutes;
    /// values below [`MIN_WATCH_TIMEOUT`] are raised to it.
    pub min_watch_timeout: Duration,
    /// How long a watch may stay open without events after its timeout; the default is 30 s. After that, the
    /// connection counts as dead: it is dropped, and the watch is resumed from the last version.
    pub watch_grace: Duration,
    /// The time within which a request must be accepted, and the maximum time between two parts of an
    /// accepted list. The default is 90 s, which is longer than the 60 s after which an API server times out
    /// a request.
    pub progress_timeout: Duration,
    /// The backoff between failed requests.
    pub backoff: BackoffConfig,
    /// How long a watch is resumed from the last version after error events of kind `InternalError` (500),
    /// counted from the first of them; the default is zero. After that time, and by default immediately, such
    /// an event is followed by a list. A minute without such an event restarts this period. client-go calls
    /// it `MaxInternalErrorRetryDuration`; here the backoff applies between the attempts.
    pub max_internal_error_retry: Duration,
    /// Decides when a streaming list is requested.
    pub streaming_list: StreamingList,
    /// How long a streaming list may send neither a new object nor its final bookmark before an ordinary list
    /// replaces it; the default is 30 s. A streaming list is always abandoned after
    /// [`MAX_INITIAL_EVENTS_TIME`](super::MAX_INITIAL_EVENTS_TIME).
    pub initial_events_deadline: Duration,
    /// The period of resyncs, which replay cached objects to the handlers. A resync is local, sends no
    /// request, and happens only while a watch is open. With `None` (the default) or zero, there are no
    /// resyncs.
    pub resync_period: Option<Duration>,
    /// A hook that is called before each resync and may skip the resync. Without a hook, no resync is
    /// skipped. The hook runs on the reflector's task and must not block.
    pub should_resync: Option<ShouldResync>,
    /// A hook that is called with each new resourceVersion of a list, event or bookmark, in order, after the
    /// queue has accepted the change. The hook runs on the reflector's task and must not block.
    pub on_version: Option<VersionHook>,
    /// A hook that is called with each failure of a list or watch, before the wait or the fallback that
    /// follows the failure. The hook runs on the reflector's task and must not block.
    pub on_error: Option<WatchErrorHandler>,
    /// The maximum number of available watch events that are delivered as one batch; the default is 1000.
    pub max_batch: usize,
    /// The seed for jitter and watch timeouts, for deterministic tests. With `None` (the default), the seed
    /// comes from the operating system.
    pub seed: Option<u64>,
}

/// A hook that is called before each resync. If it returns `false`, the resync is skipped.
pub type ShouldResync = Arc<dyn Fn() -> bool + Send + Sync>;

/// A hook that is called with each new resourceVersion of a list, event or bookmark.
pub type VersionHook = Arc<dyn Fn(&ResourceVersion) + Send + Sync>;

/// A hook that is called with each failure of a list or a watch, like
/// [client-go's](https://pkg.go.dev/k8s.io/client-go/tools/cache#WatchErrorHandler).
pub type WatchErrorHandler = Arc<dyn Fn(&SourceError) + Send + Sync>;

/// Decides when lists are requested in pages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Paging {
    /// A first list and consistent reads are requested in pages. A relist at a known version is requested
    /// without a limit, since an API server serves only a list without limit from its watch cache. If the
    /// first list has shown that this server pages lists that its watch cache could serve, relists are
    /// requested in pages too. A source that [prefers complete
    /// lists](crate::source::ListWatch::prefers_complete_lists) never receives a page request.
    #[default]
    Auto,
    /// Every list is requested in pages.
    Always,
    /// Every list is requested without a limit.
    Never,
}

/// Decides when a streaming list is requested instead of a list.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum StreamingList {
    /// Streaming lists are requested if the source [supports
    /// them](crate::source::ListWatch::supports_streaming_list).
    #[default]
    Auto,
    /// Always requests a streaming list, even if the source does not report support. After a failure, an
    /// ordinary list follows.
    On,
    /// No streaming list is ever requested.
    Off,
}

impl ReflectorConfig {
    /// Returns the default configuration with a name.
    pub fn named(name: impl Into<Arc<str>>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }
}

impl Default for ReflectorConfig {
    fn default() -> Self {
        Self {
            name: Arc::from("reflector"),
            expected_kind: None,
            page_size: 500,
            paging: Paging::default(),
            max_pages: 20_000,
            max_objects: 10_000_000,
            min_watch_timeout: MIN_WATCH_TIMEOUT,
            watch_grace: Duration::from_secs(30),
            progress_timeout: Duration::from_secs(90),
            backoff: BackoffConfig::default(),
            max_internal_error_retry: Duration::ZERO,
            streaming_list: StreamingList::default(),
            initial_events_deadline: Duration::from_secs(30),
            resync_period: None,
            should_resync: None,
            on_version: None,
            on_error: None,
            max_batch: 1000,
            seed: None,
        }
    }
}

impl fmt::Debug for ReflectorConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReflectorConfig")
            .field("name", &self.name)
            .field("expected_kind", &self.expected_kind)
            .field("page_size", &self.page_size)
            .field("paging", &self.paging)
            .field("min_watch_timeout", &self.min_watch_timeout)
            .field("backoff", &self.backoff)
            .field("streaming_list", &self.streaming_list)
            .field("resync_period", &self.resync_period)
            .finish_non_exhaustive()
    }
}

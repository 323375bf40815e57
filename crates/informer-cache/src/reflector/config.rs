use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use informer_core::ResourceVersion;

use super::BackoffConfig;
use crate::source::SourceError;

/// The shortest watch that is asked for, as upstream has it: shorter ones cost the server more than they tell.
pub const MIN_WATCH_TIMEOUT: Duration = Duration::from_secs(300);

/// How a [`Reflector`](super::Reflector) goes about its work. The default is right for a Kubernetes API server.
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
    /// The name in states, spans and logs.
    pub name: Arc<str>,
    /// What kind of object is expected, in words for spans and logs; the source is what checks it.
    pub expected_kind: Option<Arc<str>>,
    /// How many objects a page of a list holds; 500, as of all Kubernetes clients. 0 is no limit.
    pub page_size: u32,
    /// When lists are asked for in pages.
    pub paging: Paging,
    /// How many pages one list may have; 20,000. A list beyond it fails: it is a page that never ends.
    pub max_pages: u32,
    /// How many objects one list may have; 10,000,000. A list beyond it fails, before it fills the memory.
    pub max_objects: u32,
    /// A watch is asked for with a timeout drawn from `[min_watch_timeout, 2 * min_watch_timeout)`, so that the
    /// watches of a fleet do not end together. 5 minutes; less counts as [`MIN_WATCH_TIMEOUT`].
    pub min_watch_timeout: Duration,
    /// A watch that is silent for this long past its timeout is taken for a dead connection: it is cut, and resumed
    /// from the last version. 30 s.
    pub watch_grace: Duration,
    /// A request that is not accepted in this time, or an accepted list that sends nothing for this long, has failed.
    /// 90 s: more than the 60 s after which an API server gives a request up.
    pub progress_timeout: Duration,
    /// The waits between attempts.
    pub backoff: BackoffConfig,
    /// When a streaming list is asked for.
    pub streaming_list: StreamingList,
    /// A streaming list that sends no further object for this long, and no end mark, is given up in favour of a list.
    /// 30 s. Whatever it sends, it is given up after [`MAX_INITIAL_EVENTS_TIME`](super::MAX_INITIAL_EVENTS_TIME).
    pub initial_events_deadline: Duration,
    /// How often what is held is replayed to the handlers that want it. Local, never a request, and only while a
    /// watch is open. `None` (the default) or zero: never.
    pub resync_period: Option<Duration>,
    /// Asked each time before a resync; `None` always resyncs. Runs on the reflector's task and must not block.
    pub should_resync: Option<ShouldResync>,
    /// Told each new version: of each list, event and bookmark that moved it, in order, after the queue has taken the
    /// change. Runs on the reflector's task and must not block.
    pub on_version: Option<VersionHook>,
    /// Told each failure, before the wait or the other attempt that follows it. Runs on the reflector's task and must not block.
    pub on_error: Option<WatchErrorHandler>,
    /// How many events are handed on at once, when so many are at hand; 1000.
    pub max_batch: usize,
    /// The seed of the random parts of waits and of watch timeouts, for deterministic tests. `None` (the default) draws one from
    /// the operating system.
    pub seed: Option<u64>,
}

/// Asked before each resync; false skips it.
pub type ShouldResync = Arc<dyn Fn() -> bool + Send + Sync>;

/// Told each new version.
pub type VersionHook = Arc<dyn Fn(&ResourceVersion) + Send + Sync>;

/// Told each failure of a list or a watch, as
/// [upstream's](https://pkg.go.dev/k8s.io/client-go/tools/cache#WatchErrorHandler) is.
pub type WatchErrorHandler = Arc<dyn Fn(&SourceError) + Send + Sync>;

/// When lists are asked for in pages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Paging {
    /// Pages for a first list and for consistent reads. A relist at a known version is asked for whole, since only so
    /// will an API server answer from its cache; unless the first list has shown that this one pages even those. A source that
    /// [prefers complete lists](crate::source::ListWatch::prefers_complete_lists) is never asked for pages.
    #[default]
    Auto,
    /// Pages for every list.
    Always,
    /// Every list whole.
    Never,
}

/// When a streaming list is asked for in place of a list.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum StreamingList {
    /// Where the source [supports it](crate::source::ListWatch::supports_streaming_list).
    #[default]
    Auto,
    /// Always, whatever the source says; one that fails is followed by a list all the same.
    On,
    /// Never.
    Off,
}

impl ReflectorConfig {
    /// The defaults, under a name.
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

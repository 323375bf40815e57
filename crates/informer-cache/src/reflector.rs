//! Lists and watches a [`DynListWatch`], and writes all changes to a queue.
//!
//! A [`Reflector`] writes a complete list to its [`ReflectorStore`], then each later change, in the order of
//! the source. After a failure it resumes from the last version or lists again. It is
//! [client-go's](https://pkg.go.dev/k8s.io/client-go/tools/cache#Reflector) reflector, with these
//! differences:
//!
//! - A lagging server never moves the cache back to an older state.
//! - The backoff grows as long as requests fail.
//! - A streaming list that ends without its final bookmark is replaced by an ordinary list.
//! - A connection on which the server sends nothing is detected by a timeout.
//! - The status of the reflector can be read at any time.
//!
//! ```
//! use std::sync::Arc;
//! use informer_cache::queue::{QueueClosed, ReflectorStore};
//! use informer_cache::reflector::{Reflector, ReflectorConfig};
//! use informer_cache::source::DynListWatch;
//! use informer_cache::testing::{ScriptedSource, TestObject, object};
//! use informer_cache::Change;
//! use tokio_util::sync::CancellationToken;
//!
//! /// Any queue will do; this one prints.
//! struct Printer;
//!
//! impl ReflectorStore<TestObject> for Printer {
//!     fn push(&self, changes: Vec<Change<TestObject>>) -> Result<(), QueueClosed> {
//!         changes.iter().for_each(|change| println!("{change:?}"));
//!         Ok(())
//!     }
//! }
//!
//! # let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
//! # runtime.block_on(async {
//! let (source, mut server) = ScriptedSource::new();
//! let reflector = Reflector::new(DynListWatch::new(source), Arc::new(Printer), ReflectorConfig::named("tests"));
//! let (handle, stop) = (reflector.handle(), CancellationToken::new());
//! let running = tokio::spawn({
//!     let stop = stop.clone();
//!     async move { reflector.run(stop).await }
//! });
//!
//! let watch = server.expect_sync([object("default/web", "7")], "10").await;
//! handle.status_when(|status| status.synced).await;
//! assert_eq!(handle.status().last_version, "10");
//!
//! stop.cancel();
//! watch.dropped().await;
//! assert!(running.await.is_ok());
//! # });
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! # Invariants
//!
//! The invariants of [`ReflectorState`](state::ReflectorState) also hold for a [`Reflector`]. In addition, at
//! most one request is open at a time, and each change is written once.
//!
//! # Lock order
//!
//! Only the lock of the run (`running`) is held while a source, a queue or a hook runs. The status is in a
//! [`tokio::sync::watch`] channel, which is only written and cloned.
//!
//! # Shutdown
//!
//! Cancelling the token of [`Reflector::run`], dropping its future, or closing the queue ends the run
//! immediately. The open request is dropped, no further request is sent, and no further change is written.

mod backoff;
mod config;
mod driver;
mod into_store;
mod list_builder;
pub(crate) mod state;
mod status;

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use informer_core::Object;
use informer_core::panics::panic_text;
use parking_lot::Mutex as SyncMutex;
use rand::SeedableRng;
use rand::rngs::StdRng;
use tokio::sync::{Mutex, Notify, watch};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, info_span};

pub(crate) use self::backoff::Backoff;
pub use self::backoff::BackoffConfig;
pub use self::config::{
    MIN_WATCH_TIMEOUT, Paging, ReflectorConfig, ShouldResync, StreamingList, VersionHook, WatchErrorHandler,
};
use self::driver::Driver;
pub use self::into_store::ReflectedStore;
pub use self::status::{
    EventCounts, ReflectorError, ReflectorPhase, ReflectorStatus, RelistCounts, RelistReason,
};
use crate::queue::{QueueClosed, ReflectorStore};
use crate::source::{DynListWatch, SourceContext};

/// A watch that ends within this time counts as short. The reflector waits after a short watch without
/// events, and after several consecutive short watches with events. It thus does not send requests without a
/// pause to a server that closes every watch immediately.
pub const SHORT_WATCH: Duration = Duration::from_secs(1);

/// After more than this many consecutive short watches, the reflector waits even if the last one had events.
/// If the last one had no event, the reflector does not trust its last resourceVersion any more, and lists
/// again.
pub const MAX_SHORT_WATCHES: u32 = 3;

/// The longest time without an event on a watch before the server's version is checked. A Kubernetes API
/// server sends a bookmark every minute. A server that was restored from a backup accepts a watch from a
/// version that it has not reached, and sends nothing. The check of the server's version runs after the end
/// of a watch if the server has not confirmed the last version for this time.
pub const MAX_WATCH_SILENCE: Duration = Duration::from_secs(90);

/// The longest `Retry-After` that the reflector respects. A longer `Retry-After` of the server is shortened
/// to this time.
pub const MAX_RETRY_AFTER: Duration = Duration::from_secs(300);

/// The maximum number of consecutive pages without an object in a list. A server may send an empty page if a
/// selector matches no further object. A server that sends more empty pages than this is assumed to return
/// new continue tokens without end.
pub const MAX_EMPTY_PAGES: u32 = 16;

/// The time within which the final bookmark of a streaming list must arrive, even if the server keeps sending
/// events: before that bookmark, the reflector cannot distinguish events of changed objects from those of the
/// initial state.
pub const MAX_INITIAL_EVENTS_TIME: Duration = Duration::from_secs(300);

/// How often a streaming list is requested again after it ended before its final bookmark or got no response.
/// If that many consecutive retries fail too, the reflector uses an ordinary list instead.
pub const MAX_STREAMING_RETRIES: u32 = 3;

/// How often the request for a page after the first is retried after status 429, `Retry-After`, or a
/// connection that broke without a response. After that many retries the whole list counts as failed, since
/// the server may be rejecting the continue token.
pub const MAX_PAGE_RETRIES: u32 = 10;

/// Lists and watches a source, and writes the changes to a queue. See the [module](self).
pub struct Reflector<O: Object> {
    source: DynListWatch<O>,
    store: Arc<dyn ReflectorStore<O>>,
    context: SourceContext<O>,
    config: Arc<ReflectorConfig>,
    handle: ReflectorHandle,
    /// The lock that [`run`](Self::run) holds. Without it, two concurrent runs would write every change
    /// twice.
    running: Mutex<()>,
    /// Number of panics of the source, of a hook or of the queue that the reflector has contained.
    panics: AtomicU64,
    /// The server version that `ListWatch::server_version` returned for the last applied list.
    server: SyncMutex<Option<Arc<str>>>,
}

/// A handle that observes and controls a [`Reflector`]. Clones are cheap and may outlive the reflector.
#[derive(Clone)]
pub struct ReflectorHandle {
    status: watch::Sender<ReflectorStatus>,
    relist: Arc<Notify>,
    unordered: Arc<AtomicBool>,
}

impl<O: Object> Reflector<O> {
    /// Returns a reflector that reads `source` and writes to `store`. The reflector sends no request before
    /// [`run`](Self::run).
    pub fn new(source: DynListWatch<O>, store: Arc<dyn ReflectorStore<O>>, config: ReflectorConfig) -> Self {
        let handle = ReflectorHandle {
            status: watch::Sender::new(ReflectorStatus::default()),
            relist: Arc::default(),
            unordered: Arc::default(),
        };
        let context = SourceContext::default();
        let (config, running, panics) = (Arc::new(config), Mutex::default(), AtomicU64::new(0));
        Self { source, store, context, config, handle, running, panics, server: SyncMutex::default() }
    }

    /// Gives the source a view of the cached objects, so that a relist decodes only changed objects, and a
    /// log for objects that fail to decode later. Without this context, every list is decoded completely.
    #[must_use]
    pub fn with_context(mut self, context: SourceContext<O>) -> Self {
        self.context = context;
        self
    }

    /// Returns a handle that observes and controls the reflector.
    pub fn handle(&self) -> ReflectorHandle {
        self.handle.clone()
    }

    /// Returns true if the reflector has a resourceVersion from which a watch can continue.
    pub(crate) fn has_version(&self) -> bool {
        !self.handle.status.borrow().last_version.is_empty()
    }

    pub(crate) fn config(&self) -> &ReflectorConfig {
        &self.config
    }

    pub(crate) fn panics(&self) -> u64 {
        self.panics.load(Ordering::Relaxed)
    }

    pub(crate) fn name(&self) -> &str {
        &self.config.name
    }

    fn count_panic(&self) {
        self.panics.fetch_add(1, Ordering::Relaxed);
    }

    /// Lists and watches the source until `cancel` is cancelled or the queue is closed. No failure of the
    /// source ends the run. A panic of a future or stream of the source counts as a failed request, with the
    /// same backoff. A panic of a hook is counted and logged.
    ///
    /// A second concurrent run waits for the end of the first. A later run begins with a first list and new
    /// counters. That list requests at least the last version seen, so that a lagging server does not move
    /// the cache back.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future ends the run, like `cancel`. The list of a later run reveals any change that was
    /// lost.
    ///
    /// # Errors
    ///
    /// Returns an error if the queue is closed.
    ///
    /// # Panics
    ///
    /// Panics if the queue or a synchronous method of the source panics. A later run continues as after any
    /// other end.
    pub async fn run(&self, cancel: CancellationToken) -> Result<(), QueueClosed> {
        let span = info_span!(
            "reflector",
            name = %self.config.name,
            kind = self.config.expected_kind.as_deref(),
            source = %self.source.describe(),
        );
        let run = async {
            let _alone = self.running.lock().await;
            Driver::new(self).run().await
        };
        tokio::select! {
            biased;
            () = cancel.cancelled() => Ok(()),
            ended = run.instrument(span) => ended,
        }
    }

    /// Lists and watches like [`run`](Self::run), but contains panics: a panic that ends a run is counted and
    /// logged. The next run begins after the [backoff](ReflectorConfig::backoff) of failed requests.
    pub(crate) async fn run_contained(&self, cancel: CancellationToken) -> Result<(), QueueClosed> {
        let now = || tokio::time::Instant::now().into_std();
        let (mut backoff, mut rng) = (Backoff::new(self.config.backoff.clone()), jitter());
        loop {
            backoff.success(now());
            let panic = match AssertUnwindSafe(self.run(cancel.clone())).catch_unwind().await {
                Ok(ended) => return ended,
                Err(panic) => panic,
            };
            self.count_panic();
            let wait = backoff.failure(now(), &mut rng);
            let (reflector, panic) = (&*self.config.name, panic_text(&*panic));
            tracing::error!(
                reflector,
                panic,
                ?wait,
                "a run of a reflector panicked; listing again after a wait"
            );
            tokio::select! {
                biased;
                () = cancel.cancelled() => return Ok(()),
                () = tokio::time::sleep(wait) => {}
            }
        }
    }
}

impl ReflectorHandle {
    /// Returns the current phase of the reflector and its counters.
    pub fn status(&self) -> ReflectorStatus {
        self.status.borrow().clone()
    }

    /// Waits until `fits` accepts the status, and returns that status. `fits` is called when the phase,
    /// `synced` or `failures` change, not at every event.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing.
    pub async fn status_when(&self, mut fits: impl FnMut(&ReflectorStatus) -> bool) -> ReflectorStatus {
        let mut changes = self.status.subscribe();
        loop {
            let status = changes.borrow_and_update().clone();
            if fits(&status) {
                return status;
            }
            // The wait cannot fail: this handle holds a sender, so the channel is never closed.
            let _ = changes.changed().await;
        }
    }

    /// Returns a receiver of the reflector's status. It is notified when the phase, `synced` or `failures`
    /// change.
    pub fn subscribe(&self) -> watch::Receiver<ReflectorStatus> {
        self.status.subscribe()
    }

    /// Requests a consistent relist. The consumer of the queue calls this method after it received an object
    /// that is older than the cached one: the server of the watch lags, or was restored from a backup.
    ///
    /// The current watch ends. After a backoff, which grows from one request to the next, the reflector sends
    /// a consistent list and decodes every object of it. Requests before that list are combined into one.
    pub fn request_consistent_relist(&self) {
        self.relist.notify_one();
    }

    /// Turns the comparison of resource versions off, in this run and all later ones. This is for sources
    /// whose versions are numbers without an order, as with some aggregated APIs. From then on the version of
    /// the last list, event or bookmark counts as the newest.
    pub fn versions_are_unordered(&self) {
        self.unordered.store(true, Ordering::Relaxed);
    }
}

impl<O: Object> fmt::Debug for Reflector<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reflector")
            .field("name", &self.config.name)
            .field("source", &self.source)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for ReflectorHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReflectorHandle").field("status", &self.status()).finish_non_exhaustive()
    }
}

/// Returns a random number generator for the jitter of backoffs and watch timeouts. On a thread with a seed,
/// as in a simulation, the generator is deterministic.
pub(crate) fn jitter() -> StdRng {
    match informer_core::random::seeded() {
        Some(seed) => StdRng::seed_from_u64(seed),
        None => StdRng::from_rng(&mut rand::rng()),
    }
}

#[cfg(test)]
mod tests;

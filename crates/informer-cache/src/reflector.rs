//! Lists and watches a [`DynListWatch`], and keeps a queue told of all that happens there.
//!
//! A [`Reflector`] hands its [`ReflectorStore`] first a complete list, then each change after it, in the order of the
//! source; whatever breaks on the way is taken up again from the last version, or listed anew. It is
//! [client-go's](https://pkg.go.dev/k8s.io/client-go/tools/cache#Reflector), with these differences: a lagging server
//! takes nobody back in time, the backoff grows for as long as the failure lasts, a streaming list without an end is
//! given up, a silent connection is noticed, and what it is doing can be seen from outside at any time.
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
//! Those of [`ReflectorState`], and: at most one request is open at a time; a change is handed on once.
//!
//! # Lock order
//!
//! Only the lock of the run (`running`) is held while a source, a queue or a hook runs. The status is a [`tokio::sync::watch`] that
//! is only written and cloned.
//!
//! # Shutdown
//!
//! Cancelling the token of [`Reflector::run`], dropping its future, or closing the queue ends it at once: what is open is
//! dropped, and nothing more is asked for or handed on.

mod backoff;
mod config;
mod driver;
mod list_builder;
mod state;
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
pub use self::state::{
    Effects, Input, ListPlan, ReflectorAction, ReflectorNotice, ReflectorState, Step, WatchPlan,
};
pub use self::status::{
    EventCounts, ReflectorError, ReflectorPhase, ReflectorStatus, RelistCounts, RelistReason,
};
use crate::queue::{QueueClosed, ReflectorStore};
use crate::source::{DynListWatch, SourceContext};

/// A watch that is closed within this time was short: a server that closes all of them so would otherwise be asked
/// without a pause.
pub const SHORT_WATCH: Duration = Duration::from_secs(1);

/// After this many short watches in a row the version is no longer trusted, and what is there is listed.
pub const MAX_SHORT_WATCHES: u32 = 3;

/// After a watch that has told nothing, and this time in which nothing was heard of the last version, the server is asked whether
/// it has that version: a Kubernetes API server sends a bookmark every minute, and one that was restored from a backup accepts
/// a watch from a version that it has not reached, and says nothing at all.
pub const MAX_WATCH_SILENCE: Duration = Duration::from_secs(90);

/// The longest `Retry-After` that is obeyed: a server that asks for more is asked again after this time.
pub const MAX_RETRY_AFTER: Duration = Duration::from_secs(300);

/// Pages without an object that a list may have in a row. A server may send one where a selector matches nothing more; one
/// that sends many is counting up tokens.
pub const MAX_EMPTY_PAGES: u32 = 16;

/// However busily a streaming list goes on, its end mark must come within this time: events of live objects cannot be told
/// from those of the list.
pub const MAX_INITIAL_EVENTS_TIME: Duration = Duration::from_secs(300);

/// After this many streaming lists in a row that were cut before their end mark, a list takes their place.
pub const MAX_STREAMING_RETRIES: u32 = 3;

/// How often one page of a list is asked for again because the server wants it to be asked for later, or because its
/// connection broke without an answer. After that the list has failed: its token may be what the server does not like.
pub const MAX_PAGE_RETRIES: u32 = 10;

/// Lists and watches a source for a queue. See the [module](self).
pub struct Reflector<O: Object> {
    source: DynListWatch<O>,
    store: Arc<dyn ReflectorStore<O>>,
    context: SourceContext<O>,
    config: Arc<ReflectorConfig>,
    handle: ReflectorHandle,
    /// Held by [`run`](Self::run): two runs at once would tell the queue everything twice.
    running: Mutex<()>,
    /// Contained panics of the source, of a hook or of the queue.
    panics: AtomicU64,
    /// The server of the last list that a run has applied.
    server: SyncMutex<Option<Arc<str>>>,
}

/// Watches and advises a [`Reflector`] from elsewhere. Clones are cheap, and outlive it.
#[derive(Clone)]
pub struct ReflectorHandle {
    status: watch::Sender<ReflectorStatus>,
    relist: Arc<Notify>,
    unordered: Arc<AtomicBool>,
}

impl<O: Object> Reflector<O> {
    /// A reflector of `source` that writes into `store`. Nothing is asked for before [`run`](Self::run).
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

    /// Gives the source a view of what is held, so that a relist decodes only what has changed, and a log of objects that
    /// turn out to be unreadable later. Without it every list is decoded whole.
    #[must_use]
    pub fn with_context(mut self, context: SourceContext<O>) -> Self {
        self.context = context;
        self
    }

    /// A handle.
    pub fn handle(&self) -> ReflectorHandle {
        self.handle.clone()
    }

    /// True where there is a version that a watch goes on from.
    pub(crate) fn has_version(&self) -> bool {
        !self.handle.status.borrow().last_version.is_empty()
    }

    pub(crate) fn config(&self) -> &ReflectorConfig {
        &self.config
    }

    pub(crate) fn panics(&self) -> u64 {
        self.panics.load(Ordering::Relaxed)
    }

    /// The name of the configuration.
    pub(crate) fn name(&self) -> &str {
        &self.config.name
    }

    fn count_panic(&self) {
        self.panics.fetch_add(1, Ordering::Relaxed);
    }

    /// Lists and watches until `cancel` is cancelled, or the queue is closed. No failure of the source ends it. A panic of a future
    /// or stream of the source counts as a failed request, with the same backoff. A panic of a hook is counted and logged.
    ///
    /// A second run, while one is running, waits for its end. A later one begins with a first list again, and counts anew; it
    /// asks for the last version seen, so that a server which lags behind that takes nobody back.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future ends the run, as `cancel` does. No change is lost that a later run would not bring again.
    ///
    /// # Errors
    ///
    /// When the queue is closed.
    ///
    /// # Panics
    ///
    /// When the queue panics, or a synchronous method of the source. A later run continues as after any other end.
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

    /// As [`run`](Self::run), but a panic that ends a run is counted and logged, and the next run begins after the
    /// [backoff](ReflectorConfig::backoff) of failed requests.
    pub(crate) async fn run_contained(&self, cancel: CancellationToken) -> Result<(), QueueClosed> {
        let now = || tokio::time::Instant::now().into_std();
        let (mut backoff, mut rng) =
            (Backoff::new(self.config.backoff.clone()), StdRng::from_rng(&mut rand::rng()));
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
    /// What the reflector is doing, and what has happened to it.
    pub fn status(&self) -> ReflectorStatus {
        self.status.borrow().clone()
    }

    /// The status, as soon as it fits. Woken when the phase, `synced` or `failures` change, not at every event.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost.
    pub async fn status_when(&self, mut fits: impl FnMut(&ReflectorStatus) -> bool) -> ReflectorStatus {
        let mut changes = self.status.subscribe();
        loop {
            let status = changes.borrow_and_update().clone();
            if fits(&status) {
                return status;
            }
            // This handle holds a sender itself, so the channel does not close.
            let _ = changes.changed().await;
        }
    }

    /// Notified when the phase, `synced` or `failures` change.
    pub fn subscribe(&self) -> watch::Receiver<ReflectorStatus> {
        self.status.subscribe()
    }

    /// Asks for a consistent read: a reader of the queue was told of an object that is older than the one it holds, so the
    /// watch comes from a server that lags, or from one that was restored.
    ///
    /// The watch ends, and after a backoff (which grows from one request to the next) what is there is listed
    /// consistently, whatever is held. Requests before that are one request.
    pub fn request_consistent_relist(&self) {
        self.relist.notify_one();
    }

    /// Turns the comparison of versions off, in this run and all later ones: the versions of the source are numbers without an
    /// order, as those of some aggregated APIs. The version of the last list, event or bookmark then counts as the newest.
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

#[cfg(test)]
mod tests;

//! The low-level controller between a queue and a process function, and the simple informer built on it.
//!
//! An [`InformerController`] runs a reflector that fills a queue, and passes each popped item to a
//! [`Process`]. It is [client-go's](https://pkg.go.dev/k8s.io/client-go/tools/cache#Controller) low-level
//! controller, not a reconciler. [`new_informer`] and [`new_indexer_informer`] return one whose process
//! function maintains a store and calls one handler.
//!
//! ```
//! use informer_cache::Change;
//! use informer_cache::controller::{ControllerConfig, InformerController};
//! use informer_cache::queue::{Batch, InOrderQueue};
//! use informer_cache::testing::{StaticSource, TestObject, object};
//! use tokio_util::sync::CancellationToken;
//!
//! # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
//! let source = StaticSource::new([object("default/web", "1")], "1");
//! let (sender, listed) = std::sync::mpsc::channel();
//! let controller = InformerController::new(
//!     ControllerConfig::new(source, InOrderQueue::new()),
//!     move |batch: &Batch<TestObject>| {
//!         for change in batch.iter() {
//!             if let Change::Replaced(list) = change {
//!                 sender.send(list.items.len())?;
//!             }
//!         }
//!         Ok(())
//!     },
//! );
//! let stop = CancellationToken::new();
//! tokio::join!(controller.run(stop.clone()), async {
//!     controller.synced().await.expect("the queue stays open");
//!     stop.cancel();
//! });
//! assert_eq!(listed.recv(), Ok(1));
//! # });
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! # Invariants
//!
//! 1. One item is processed at a time, in the order of the queue.
//! 2. An item counts as processed when the process function has returned, with any result. Whether a requeued
//!    item counts again depends on the queue.
//! 3. An item whose processing panicked is never requeued, since it would panic again.
//!
//! # Lock order
//!
//! There is one asynchronous lock around the process function. A run holds it from start to end. No other
//! lock is held while the process function runs.
//!
//! # Shutdown
//!
//! 1. Cancelling the token of [`InformerController::run`] drops the open request and lets the current item
//!    finish. Queued items stay for a later run.
//! 2. Closing the queue ends the reflector. The remaining items are processed, then the run ends.

mod process;
mod simple;
#[cfg(test)]
mod tests;

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use informer_core::panics::panic_text;
use informer_core::{Object, ResourceVersion};
use tokio::sync::Mutex as AsyncMutex;
use tokio_util::sync::CancellationToken;

pub use process::{Process, ProcessError, ProcessItem};
pub use simple::{
    SimpleInformer, SimpleInformerOptions, new_indexer_informer, new_informer, new_informer_with,
};

use crate::queue::{Queue, QueueClosed, ReflectorStore};
use crate::reflector::{Reflector, ReflectorConfig, ReflectorHandle};
use crate::source::{DynListWatch, ListWatch, SourceContext};

/// The first delay before a failed item is retried. `InOrderQueue` returns a failed item to its head
/// immediately, so retrying without a delay would use a whole core.
pub const MIN_RETRY_DELAY: Duration = Duration::from_millis(5);

/// The longest delay before a failed item is retried. The delay doubles up to this limit while processing
/// fails.
pub const MAX_RETRY_DELAY: Duration = Duration::from_secs(1);

/// The configuration of an [`InformerController`].
#[must_use = "a configuration does nothing by itself"]
pub struct ControllerConfig<O: Object, Q> {
    source: DynListWatch<O>,
    queue: Q,
    reflector: ReflectorConfig,
    context: SourceContext<O>,
    retry_on_error: bool,
}

/// Fills a queue from a source, and passes the queued items to a process function. See the [module](self).
pub struct InformerController<O: Object, Q: Queue, P> {
    reflector: Reflector<O>,
    queue: Q,
    retry_on_error: bool,
    process: AsyncMutex<P>,
    processed: AtomicU64,
    failed: AtomicU64,
    panicked: AtomicU64,
}

/// The number of items that an [`InformerController`] has processed, by result.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ControllerCounts {
    /// Number of items that were processed without an error.
    pub processed: u64,
    /// How often processing an item returned an error.
    pub failed: u64,
    /// Number of items whose processing panicked, plus panics of the source or of a hook of the reflector.
    pub panicked: u64,
}

impl<O: Object, Q> ControllerConfig<O, Q> {
    /// Returns a configuration for a source and a queue, with the reflector's defaults and without retries.
    pub fn new(source: impl ListWatch<O>, queue: Q) -> Self {
        Self {
            source: DynListWatch::new(source),
            queue,
            reflector: ReflectorConfig::default(),
            context: SourceContext::default(),
            retry_on_error: false,
        }
    }

    /// Sets the configuration of the reflector: lists, watches, error handling and the resync period.
    pub fn reflector(mut self, config: ReflectorConfig) -> Self {
        self.reflector = config;
        self
    }

    /// Gives the source a view of the cached objects; see [`Reflector::with_context`].
    pub fn context(mut self, context: SourceContext<O>) -> Self {
        self.context = context;
        self
    }

    /// Requeues an item whose processing failed, after a delay from [`MIN_RETRY_DELAY`] to
    /// [`MAX_RETRY_DELAY`]. By default an error is counted and logged, and the next item follows.
    pub fn retry_on_error(mut self, retry: bool) -> Self {
        self.retry_on_error = retry;
        self
    }
}

impl<O, Q, P> InformerController<O, Q, P>
where
    O: Object,
    Q: Queue<Popped: ProcessItem + Sync> + ReflectorStore<O> + Clone,
    P: Process<Q::Popped>,
{
    /// Returns a controller. The controller sends no request before [`run`](Self::run).
    pub fn new(config: ControllerConfig<O, Q>, process: P) -> Self {
        Self::with(config, |_| process)
    }

    /// Returns a controller like [`new`](Self::new). `process` creates the process function from the handle
    /// of the reflector, for a process function that calls the reflector, for example to request a consistent
    /// relist.
    fn with(config: ControllerConfig<O, Q>, process: impl FnOnce(ReflectorHandle) -> P) -> Self {
        let ControllerConfig { source, queue, reflector, context, retry_on_error } = config;
        let reflector = Reflector::new(source, Arc::new(queue.clone()), reflector).with_context(context);
        let process = AsyncMutex::new(process(reflector.handle()));
        let (processed, failed, panicked) = Default::default();
        Self { reflector, queue, retry_on_error, process, processed, failed, panicked }
    }

    /// Runs the reflector and processes queued items until `cancel` is cancelled, or until the queue is
    /// closed and drained. Failures and panics of the source, of a hook or of the process function do not end
    /// the run; they are logged and counted.
    ///
    /// Cancelling `cancel` does not close the queue, so a later run can continue with it. A second concurrent
    /// run waits for the end of the first.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future ends the run. An item that is being processed then counts as processed; queued
    /// items stay in the queue.
    pub async fn run(&self, cancel: CancellationToken) {
        let mut process = tokio::select! {
            biased;
            () = cancel.cancelled() => return,
            process = self.process.lock() => process,
        };
        let reflect = async {
            // The result of the reflector is ignored. It is an error if the queue is closed, but the items
            // that are already queued must still be processed: the pump ends when the queue is drained.
            let _ = self.reflector.run_contained(cancel.clone()).await;
        };
        // The future of the pump is boxed once per run, because the compiler can prove here that the future
        // is `Send` for every process function. In the caller's `spawn`, the proof for a specific closure
        // fails.
        let pump: BoxFuture<'_, ()> = self.pump(&mut process, &cancel).boxed();
        tokio::join!(reflect, pump);
    }

    async fn pump(&self, process: &mut P, cancel: &CancellationToken) {
        let mut pause = MIN_RETRY_DELAY;
        loop {
            let popped = tokio::select! {
                biased;
                () = cancel.cancelled() => return,
                popped = self.queue.pop() => popped,
            };
            let Ok(item) = popped else { return };
            match AssertUnwindSafe(process.process(&item)).catch_unwind().await {
                Ok(Ok(())) => {
                    pause = MIN_RETRY_DELAY;
                    self.processed.fetch_add(1, Ordering::Relaxed);
                }
                Ok(Err(error)) => {
                    self.note_failure(&item, &*error);
                    if self.retry_on_error {
                        self.queue.requeue(item);
                        wait(pause, cancel).await;
                        pause = (pause * 2).min(MAX_RETRY_DELAY);
                    }
                }
                Err(panic) => {
                    self.panicked.fetch_add(1, Ordering::Relaxed);
                    let (key, panic) = (item.name(), panic_text(&*panic));
                    tracing::error!(
                        reflector = self.reflector.name(),
                        %key,
                        panic,
                        "the process function panicked; continuing with the next item"
                    );
                }
            }
            // Yields to other tasks, so that a queue that is never empty does not block the thread of the
            // reflector.
            tokio::task::yield_now().await;
        }
    }

    fn note_failure(&self, item: &Q::Popped, error: &(dyn std::error::Error + 'static)) {
        self.failed.fetch_add(1, Ordering::Relaxed);
        let (key, retry) = (item.name(), self.retry_on_error);
        tracing::warn!(reflector = self.reflector.name(), %key, error, retry, "processing failed");
    }

    /// Returns true once the queue items of the first complete list are processed. The result stays true when
    /// the controller stops.
    ///
    /// With [`retry_on_error`](ControllerConfig::retry_on_error), the queue decides whether a requeued item
    /// delays the sync. An [`InOrderQueue`](crate::queue::InOrderQueue) waits until it is processed without
    /// an error. A [`DeltaFifo`](crate::queue::DeltaFifo) counts the first attempt, like client-go.
    pub fn has_synced(&self) -> bool {
        self.queue.has_synced()
    }

    /// Resolves when [`has_synced`](Self::has_synced) is true.
    ///
    /// # Errors
    ///
    /// Returns an error if the queue is closed before the first list is processed.
    pub async fn synced(&self) -> Result<(), QueueClosed> {
        self.queue.synced().await
    }
}

impl<O: Object, Q: Queue, P> InformerController<O, Q, P> {
    /// Returns the version of the last list, event or bookmark that the reflector wrote to the queue.
    pub fn last_sync_resource_version(&self) -> ResourceVersion {
        self.reflector.handle().status().last_version
    }

    /// Returns a handle of the reflector.
    pub fn reflector(&self) -> ReflectorHandle {
        self.reflector.handle()
    }

    /// Returns the queue of the controller.
    pub fn queue(&self) -> &Q {
        &self.queue
    }

    /// Returns the numbers of items that the controller has processed so far.
    pub fn counts(&self) -> ControllerCounts {
        ControllerCounts {
            processed: self.processed.load(Ordering::Relaxed),
            failed: self.failed.load(Ordering::Relaxed),
            panicked: self.panicked.load(Ordering::Relaxed) + self.reflector.panics(),
        }
    }
}

async fn wait(pause: Duration, cancel: &CancellationToken) {
    tokio::select! {
        biased;
        () = cancel.cancelled() => {}
        () = tokio::time::sleep(pause) => {}
    }
}

impl<O: Object, Q> fmt::Debug for ControllerConfig<O, Q> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ControllerConfig")
            .field("source", &self.source)
            .field("reflector", &self.reflector)
            .field("retry_on_error", &self.retry_on_error)
            .finish_non_exhaustive()
    }
}

impl<O: Object, Q: Queue, P> fmt::Debug for InformerController<O, Q, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InformerController")
            .field("reflector", &self.reflector)
            .field("counts", &self.counts())
            .finish_non_exhaustive()
    }
}

//! The pump between a queue and a process function, and the simple informer that is built on it.
//!
//! An [`InformerController`] runs a reflector that fills a queue, and gives whatever is popped from the queue to a [`Process`]. It is
//! [client-go's](https://pkg.go.dev/k8s.io/client-go/tools/cache#Controller) low-level controller, not a reconciler.
//! [`new_informer`] and [`new_indexer_informer`] make one whose process function keeps a store and calls one handler.
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
//! 2. An item counts as processed when the process function has returned, whatever it returned, unless it is queued again;
//!    then it is the queue's to say.
//! 3. An item whose processing panicked is never queued again: it would only panic again.
//!
//! # Lock order
//!
//! The asynchronous lock around the process function, held by a run from beginning to end. Nothing else is locked while the
//! process function runs.
//!
//! # Shutdown
//!
//! 1. Cancelling the token of [`InformerController::run`] drops the request that is open and lets the item in process finish; what is
//!    queued stays for a later run. 2. Closing the queue ends the reflector; what is queued is processed, then the run ends.

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

/// The pause before an item that failed is taken up again, the first time: the in-order queue has it at its head at
/// once, and a loop without a pause would use a whole core to fail.
pub const MIN_RETRY_DELAY: Duration = Duration::from_millis(5);

/// The longest pause before an item that failed is taken up again; it doubles up to here while processing fails.
pub const MAX_RETRY_DELAY: Duration = Duration::from_secs(1);

/// What an [`InformerController`] works with.
#[must_use = "a configuration does nothing by itself"]
pub struct ControllerConfig<O: Object, Q> {
    source: DynListWatch<O>,
    queue: Q,
    reflector: ReflectorConfig,
    context: SourceContext<O>,
    retry_on_error: bool,
}

/// Keeps a queue filled from a source, and processes what comes out of it. See the [module](self).
pub struct InformerController<O: Object, Q: Queue, P> {
    reflector: Reflector<O>,
    queue: Q,
    retry_on_error: bool,
    process: AsyncMutex<P>,
    processed: AtomicU64,
    failed: AtomicU64,
    panicked: AtomicU64,
}

/// How many items an [`InformerController`] has processed, and how.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ControllerCounts {
    /// Items that were processed without an error.
    pub processed: u64,
    /// Times that processing returned an error.
    pub failed: u64,
    /// Items whose processing panicked, and panics of the source or of a hook of the reflector.
    pub panicked: u64,
}

impl<O: Object, Q> ControllerConfig<O, Q> {
    /// A source and the queue it fills, with the defaults: the reflector's, and no retry.
    pub fn new(source: impl ListWatch<O>, queue: Q) -> Self {
        Self {
            source: DynListWatch::new(source),
            queue,
            reflector: ReflectorConfig::default(),
            context: SourceContext::default(),
            retry_on_error: false,
        }
    }

    /// How the source is listed and watched, its errors handled, and how often the queue is asked for a resync.
    pub fn reflector(mut self, config: ReflectorConfig) -> Self {
        self.reflector = config;
        self
    }

    /// Gives the source a view of what is held; see [`Reflector::with_context`].
    pub fn context(mut self, context: SourceContext<O>) -> Self {
        self.context = context;
        self
    }

    /// Queues an item again whose processing failed, after a pause from [`MIN_RETRY_DELAY`] to [`MAX_RETRY_DELAY`]. Without
    /// it an error is counted and logged, and the next item follows.
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
    /// A controller. Nothing is asked for before [`run`](Self::run).
    pub fn new(config: ControllerConfig<O, Q>, process: P) -> Self {
        Self::with(config, |_| process)
    }

    /// As [`new`](Self::new), where the process function advises the reflector.
    fn with(config: ControllerConfig<O, Q>, process: impl FnOnce(ReflectorHandle) -> P) -> Self {
        let ControllerConfig { source, queue, reflector, context, retry_on_error } = config;
        let reflector = Reflector::new(source, Arc::new(queue.clone()), reflector).with_context(context);
        let process = AsyncMutex::new(process(reflector.handle()));
        let (processed, failed, panicked) = Default::default();
        Self { reflector, queue, retry_on_error, process, processed, failed, panicked }
    }

    /// Reflects and processes until `cancel` is cancelled, or the queue is closed and drained. No failure and no panic of the
    /// source, of a hook or of the process function ends it; they are logged and counted.
    ///
    /// Cancelling does not close the queue: a later run goes on with it. A second run, while one is going on, waits for its
    /// end.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future ends the run. An item that is being processed counts as processed; what is queued stays.
    pub async fn run(&self, cancel: CancellationToken) {
        let mut process = tokio::select! {
            biased;
            () = cancel.cancelled() => return,
            process = self.process.lock() => process,
        };
        let reflect = async {
            // A closed queue ends the reflector; the pump goes on until it is drained.
            let _ = self.reflector.run_contained(cancel.clone()).await;
        };
        // Boxed once a run: here the compiler sees that it may be sent between threads, for every process function. Left to
        // whoever spawns the run it would ask again for one closure, and not find that its error is the same for every item.
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
                    tracing::error!(reflector = self.reflector.name(), %key, panic, "processing panicked; the next item follows");
                }
            }
            // A queue that is never empty must not keep the reflector from its socket.
            tokio::task::yield_now().await;
        }
    }

    fn note_failure(&self, item: &Q::Popped, error: &(dyn std::error::Error + 'static)) {
        self.failed.fetch_add(1, Ordering::Relaxed);
        let (key, retry) = (item.name(), self.retry_on_error);
        tracing::warn!(reflector = self.reflector.name(), %key, error, retry, "processing failed");
    }

    /// True once what the first complete list left in the queue is processed. It stays true when the controller stops.
    ///
    /// Whether an item that failed and is queued again ([`retry_on_error`](ControllerConfig::retry_on_error)) holds it up is
    /// the queue's to say: in an [`InOrderQueue`](crate::queue::InOrderQueue) it does, until it is processed without an error; in
    /// a [`DeltaFifo`](crate::queue::DeltaFifo), as upstream, it counts from the first attempt on.
    pub fn has_synced(&self) -> bool {
        self.queue.has_synced()
    }

    /// Resolves when [`has_synced`](Self::has_synced) is true.
    ///
    /// # Errors
    ///
    /// When the queue is closed before.
    pub async fn synced(&self) -> Result<(), QueueClosed> {
        self.queue.synced().await
    }
}

impl<O: Object, Q: Queue, P> InformerController<O, Q, P> {
    /// The version of the last list, event or bookmark that the reflector has handed to the queue.
    pub fn last_sync_resource_version(&self) -> ResourceVersion {
        self.reflector.handle().status().last_version
    }

    /// Shows and advises the reflector.
    pub fn reflector(&self) -> ReflectorHandle {
        self.reflector.handle()
    }

    /// The queue.
    pub fn queue(&self) -> &Q {
        &self.queue
    }

    /// What was processed so far.
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

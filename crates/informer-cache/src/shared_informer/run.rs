//! A run of an informer: starts, restarts and stops its tasks.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use informer_core::Object;
use informer_core::deadline::later;
use informer_core::panics::panic_text;
use tokio::runtime::Handle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::Instrument;

use super::core::{Core, InformerCore};
use super::registration::Attached;
use crate::processor::SharedProcessor;
use crate::pump::Applied;
use crate::queue::InOrderQueue;
use crate::reflector::Backoff;
use crate::{Event, InformerCrash};

#[derive(Debug)]
pub(super) enum Lifecycle {
    Idle,
    /// A run of the informer was started. The run is active as long as its `RunGuard` exists and is not
    /// cancelled; after that it is ending or has ended.
    Started {
        guard: Weak<RunGuard>,
        tasks: TaskTracker,
        /// The number of the current run. Before a run that is ending changes shared state, it compares this
        /// number with its own. It therefore does not affect the next run.
        number: u64,
    },
}

impl Lifecycle {
    pub(super) fn is_running(&self) -> bool {
        self.running().is_some()
    }

    pub(super) fn is_stopped(&self) -> bool {
        matches!(self, Self::Started { .. }) && !self.is_running()
    }

    pub(super) fn word(&self) -> &'static str {
        match self {
            Self::Idle => "not started",
            Self::Started { .. } if self.is_running() => "running",
            Self::Started { tasks, .. } if tasks.is_empty() => "stopped",
            Self::Started { .. } => "stopping",
        }
    }

    fn number(&self) -> u64 {
        match self {
            Self::Idle => 0,
            Self::Started { number, .. } => *number,
        }
    }

    /// Returns the guard of the current run, so that the caller can join this run. Returns `None` if no run
    /// is active or the run is stopping.
    pub(super) fn running(&self) -> Option<Arc<RunGuard>> {
        match self {
            Self::Idle => None,
            Self::Started { guard, .. } => guard.upgrade().filter(|guard| !guard.cancel.is_cancelled()),
        }
    }
}

/// Keeps an informer running. Runs are reference-counted: the informer stops when the last clone is dropped.
#[derive(Debug, Clone)]
#[must_use = "the informer stops when the last of its runs is dropped"]
pub struct InformerRun {
    guard: Arc<RunGuard>,
}

#[derive(Debug)]
pub(super) struct RunGuard {
    cancel: CancellationToken,
    tasks: TaskTracker,
    /// The runtime on which the run was started. Tasks of handlers are spawned on it, because a handler may
    /// be added from a thread without a runtime.
    runtime: Handle,
}

impl Drop for RunGuard {
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}

impl InformerRun {
    /// Stops the informer, even if other clones of the run exist, and waits until its tasks have ended. Open
    /// requests are dropped; handlers finish their current call. A handler must not await this method, since
    /// it would wait for itself, but it may drop the run.
    ///
    /// # Cancel safety
    ///
    /// The informer begins to stop when the future is first polled. Dropping the future after that only ends
    /// the wait.
    pub async fn stop(self) {
        self.guard.cancel.cancel();
        let tasks = self.guard.tasks.clone();
        drop(self);
        tasks.wait().await;
    }

    /// Returns true once the informer is stopping.
    pub fn is_stopping(&self) -> bool {
        self.guard.cancel.is_cancelled()
    }
}

#[track_caller]
pub(super) fn start<O: Object>(shared: &Arc<InformerCore<O>>) -> InformerRun {
    let runtime = Handle::current();
    let mut lifecycle = shared.lifecycle.lock();
    if let Some(guard) = lifecycle.running() {
        return InformerRun { guard };
    }
    let (cancel, tasks, number) = (CancellationToken::new(), TaskTracker::new(), lifecycle.number() + 1);
    let guard = Arc::new(RunGuard { cancel: cancel.clone(), tasks: tasks.clone(), runtime });
    *lifecycle = Lifecycle::Started { guard: Arc::downgrade(&guard), tasks: tasks.clone(), number };
    // The synced state of the previous run is reset before `start` returns, so that no caller mistakes it for
    // that of the new run.
    shared.synced.send_replace(false);
    let span = tracing::info_span!("informer", name = %shared.name);
    let run = Run { shared: Arc::clone(shared), cancel, tasks: tasks.clone(), number };
    // The tasks of an informer are boxed: tokio compiles a task twice for each type of its future.
    let run: BoxFuture<'static, ()> = Box::pin(run.run());
    tasks.spawn_on(run.instrument(span), &guard.runtime);
    // `start` still holds the lifecycle lock. A handler that is added concurrently is therefore either in
    // `attached` already, or its task is spawned when the call that adds it finds the new run.
    for attached in shared.attached.lock().iter() {
        guard.deliver_to(attached);
    }
    // The task tracker is closed immediately, so that its `wait` returns once all tasks have ended. Later,
    // tasks are spawned only for handlers that are added during the run. If the run ends meanwhile, such a
    // task ends before it delivers any event.
    tasks.close();
    InformerRun { guard }
}

impl RunGuard {
    pub(super) fn deliver_to<O: Object>(&self, attached: &Arc<dyn Attached<O>>) {
        attached.listener().begin_run();
        if let Some(delivery) = Arc::clone(attached).deliver(self.cancel.clone()) {
            let span = tracing::info_span!("handler", name = attached.listener().name());
            self.tasks.spawn_on(delivery.instrument(span), &self.runtime);
        }
    }
}

struct Run<O: Object> {
    shared: Arc<InformerCore<O>>,
    cancel: CancellationToken,
    tasks: TaskTracker,
    number: u64,
}

impl<O: Object> Run<O> {
    /// Runs the informer until it is stopped. If one of the informer's own tasks panics, the panic is
    /// recorded in the informer's state, and the tasks are restarted after the backoff of failed requests.
    async fn run(self) {
        let mut unwatched = EndsUnsynced { run: &self, armed: true };
        // Waits until the previous run has ended, since it holds the lock of the core until then.
        let core = Arc::clone(&self.shared.core);
        let mut core = tokio::select! {
            biased;
            () = self.cancel.cancelled() => return unwatched.disarm(),
            core = core.lock() => core,
        };
        tracing::debug!(what = %self.shared.what, "started");
        let mut backoff = Backoff::new(self.shared.reflector.config().backoff.clone());
        let mut rng = crate::reflector::jitter();
        loop {
            backoff.success(now());
            let ended = AssertUnwindSafe(self.attempt(&mut core)).catch_unwind().await;
            let Err(panic) = ended.and_then(|ended| ended) else { break };
            let wait = backoff.failure(now(), &mut rng);
            self.crashed(&mut core, &*panic, wait);
            tokio::select! {
                biased;
                () = self.cancel.cancelled() => break,
                () = tokio::time::sleep(wait) => {}
            }
        }
        core.publish_counters(&self.shared);
        tracing::debug!(what = %self.shared.what, "stopped");
        unwatched.disarm();
    }

    /// Runs the reflector and the pump until the run is stopped.
    ///
    /// # Errors
    ///
    /// Returns an error if the task that reads the source panics. A panic of the pump is not caught here.
    async fn attempt(&self, core: &mut Core<O>) -> Result<(), Box<dyn Any + Send>> {
        core.begin(&self.shared);
        let stop = self.cancel.child_token();
        let _stop = stop.clone().drop_guard();
        let reflecting: BoxFuture<'static, ()> = Box::pin(reflect(Arc::clone(&self.shared), stop.clone()));
        let reflecting = self.tasks.spawn(reflecting.in_current_span());
        let crashed = async {
            match reflecting.await {
                Err(error) if error.is_panic() => error.into_panic(),
                // The reflector's task was cancelled, which means that the run is stopped. The pump then ends
                // too.
                _ => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = core.pump_until(self) => Ok(()),
            panic = crashed => Err(panic),
        }
    }

    fn crashed(&self, core: &mut Core<O>, panic: &(dyn Any + Send), wait: Duration) {
        let (at, panic) = (now(), panic_text(panic));
        let informer = &*self.shared.name;
        tracing::error!(informer, panic, ?wait, "a task of an informer panicked; restarting it after a wait");
        {
            let mut crashes = self.shared.crashes.lock();
            crashes.total += 1;
            let restart_at = later(at, wait);
            crashes.last = Some(InformerCrash { panic: panic.to_owned(), at, restart_at });
        }
        core.processor.begin_run(at);
        core.publish_counters(&self.shared);
        self.unsynced();
    }

    /// Marks the informer as synced with the first list of this run. Does nothing if a newer run has started
    /// in the meantime, because that run must apply its own first list.
    fn synced(&self, processor: &mut SharedProcessor<O>) {
        let lifecycle = self.shared.lifecycle.lock();
        if lifecycle.number() == self.number {
            processor.initial_complete();
            self.shared.crashes.lock().last = None;
            self.shared.synced.send_replace(true);
        }
    }

    /// Marks the informer as not synced. Does nothing if a newer run has started in the meantime, because
    /// that run has its own synced state.
    fn unsynced(&self) {
        let lifecycle = self.shared.lifecycle.lock();
        if lifecycle.number() == self.number {
            self.shared.synced.send_replace(false);
        }
    }
}

/// A guard for a run whose task may be dropped before the run was stopped, for example when its runtime shuts
/// down. Dropping the guard marks the informer as not running and not synced.
struct EndsUnsynced<'a, O: Object> {
    run: &'a Run<O>,
    armed: bool,
}

impl<O: Object> EndsUnsynced<'_, O> {
    /// Disarms the guard after the run was stopped regularly. The informer then stays synced, because the
    /// cache keeps its objects.
    fn disarm(&mut self) {
        self.armed = false;
    }
}

impl<O: Object> Drop for EndsUnsynced<'_, O> {
    fn drop(&mut self) {
        if self.armed && !self.run.cancel.is_cancelled() {
            self.run.unsynced();
        }
        self.run.cancel.cancel();
    }
}

fn now() -> std::time::Instant {
    Instant::now().into_std()
}

/// The reflector's task: runs the reflector until the run ends. The reflector itself contains panics of the
/// source and of hooks.
async fn reflect<O: Object>(shared: Arc<InformerCore<O>>, cancel: CancellationToken) {
    // The result of the reflector is ignored: an error means that the queue was closed, and then the pump
    // ends too.
    let _ = shared.reflector.run_contained(cancel).await;
}

impl<O: Object> Core<O> {
    /// Resets the pump and the processor for a new run. They may be in any state, since the previous run may
    /// have panicked.
    fn begin(&mut self, shared: &InformerCore<O>) {
        // Changes that the previous run left in the queue are older than the next list, so they are applied
        // before it.
        while let Ok(Some(batch)) = shared.queue.try_pop_batch(InOrderQueue::<O>::MAX_BATCH) {
            let (changes, receipt) = batch.into_changes();
            let applied = self.pump.apply(changes);
            self.processor.distribute(applied.events);
            receipt.done();
        }
        self.pump.begin_run();
        self.processor.begin_run(Instant::now().into_std());
        self.publish_counters(shared);
        shared.applied.send_modify(|applied| *applied += 1);
    }

    async fn pump_until(&mut self, run: &Run<O>) {
        let shared = &*run.shared;
        loop {
            self.admit_handlers(shared);
            let resync = self.processor.next_resync().map(Instant::from_std);
            tokio::select! {
                biased;
                () = run.cancel.cancelled() => return,
                () = shared.handlers_changed.notified() => {}
                () = at(resync) => self.resync(),
                batch = shared.queue.pop_batch(InOrderQueue::<O>::MAX_BATCH) => match batch {
                    Ok(batch) => {
                        let (changes, receipt) = batch.into_changes();
                        self.process(run, changes);
                        receipt.done();
                        // Yields to other tasks after each batch. Otherwise a queue that is never empty would
                        // block the thread, on which handlers may run.
                        tokio::task::yield_now().await;
                    }
                    Err(_) => return,
                },
            }
        }
    }

    /// Adds new handlers to the processor, which replays the content of the cache to them, and removes closed
    /// ones. Called between two batches of changes.
    fn admit_handlers(&mut self, shared: &InformerCore<O>) {
        let joining = std::mem::take(&mut *shared.joining.lock());
        let now = Instant::now().into_std();
        for joining in joining {
            let present = self.pump.indexer().list().into_iter();
            self.processor.join(joining.listener, joining.resync, present, now);
        }
        self.processor.remove_closed();
    }

    fn process(&mut self, run: &Run<O>, changes: Vec<crate::Change<O>>) {
        let shared = &*run.shared;
        let (begin, count) = (Instant::now(), changes.len());
        let Applied { events, first_list, suspect, unordered, resync } = self.pump.apply(changes);
        trace_events(&events);
        self.processor.distribute(events);
        // The counters are published before tasks that wait for the sync are notified, because such a task
        // may read the counters next.
        self.publish_counters(shared);
        if first_list {
            run.synced(&mut self.processor);
            tracing::info!(what = %shared.what, objects = self.pump.indexer().len(), "synced");
        }
        if unordered {
            shared.reflector.handle().versions_are_unordered();
        }
        if suspect {
            shared.reflector.handle().request_consistent_relist();
        }
        if resync {
            self.resync();
        }
        shared.applied.send_modify(|applied| *applied += 1);
        shared.report_processed(count, begin.elapsed());
    }

    fn resync(&mut self) {
        let indexer = self.pump.indexer();
        self.processor.resync(|| indexer.list(), Instant::now().into_std());
    }

    fn publish_counters(&self, shared: &InformerCore<O>) {
        shared.counters.lock().clone_from(self.pump.counters());
    }
}

fn trace_events<O: Object>(events: &[Event<O>]) {
    if tracing::enabled!(tracing::Level::TRACE) {
        for event in events {
            tracing::trace!(%event);
        }
    }
}

async fn at(instant: Option<Instant>) {
    match instant {
        Some(instant) => tokio::time::sleep_until(instant).await,
        None => std::future::pending().await,
    }
}

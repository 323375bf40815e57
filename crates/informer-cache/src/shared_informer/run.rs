//! A run of an informer: its tasks, from start to stop.

use std::sync::{Arc, Weak};

use informer_core::Object;
use tokio::runtime::Handle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::Instrument;

use super::core::{Core, Shared};
use super::registration::Attached;
use crate::Event;
use crate::processor::SharedProcessor;
use crate::pump::Applied;
use crate::queue::InOrderQueue;

/// Where an informer is in its life.
#[derive(Debug)]
pub(super) enum Lifecycle {
    /// Never started.
    Idle,
    /// A run is going on, or is coming to its end: the guard says which.
    Started {
        guard: Weak<RunGuard>,
        tasks: TaskTracker,
        /// Counts the runs: what a run that is coming to its end still finds out is not said of the next one.
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

    /// The guard of a run that was not told to stop.
    pub(super) fn running(&self) -> Option<Arc<RunGuard>> {
        match self {
            Self::Idle => None,
            Self::Started { guard, .. } => guard.upgrade().filter(|guard| !guard.cancel.is_cancelled()),
        }
    }
}

/// Keeps an informer running. Counted: the informer stops when the last clone is dropped.
#[derive(Debug, Clone)]
#[must_use = "the informer stops when the last of its runs is dropped"]
pub struct InformerRun {
    guard: Arc<RunGuard>,
}

#[derive(Debug)]
pub(super) struct RunGuard {
    cancel: CancellationToken,
    tasks: TaskTracker,
    /// What the run began in: a handler may come from a thread that has no runtime.
    runtime: Handle,
}

impl Drop for RunGuard {
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}

impl InformerRun {
    /// Stops the informer, whoever else holds its run, and waits until its tasks have ended: requests are dropped,
    /// handlers finish the call that they are in. A handler must not await it, since it would wait for itself; it may
    /// drop its run.
    ///
    /// # Cancel safety
    ///
    /// The informer is told to stop when the future is first polled; dropping it after that only ends the wait.
    pub async fn stop(self) {
        self.guard.cancel.cancel();
        let tasks = self.guard.tasks.clone();
        drop(self);
        tasks.wait().await;
    }

    /// True once the informer was told to stop.
    pub fn is_stopping(&self) -> bool {
        self.guard.cancel.is_cancelled()
    }
}

#[track_caller]
pub(super) fn start<O: Object>(shared: &Arc<Shared<O>>) -> InformerRun {
    let runtime = Handle::current();
    let mut lifecycle = shared.lifecycle.lock();
    if let Some(guard) = lifecycle.running() {
        return InformerRun { guard };
    }
    let (cancel, tasks, number) = (CancellationToken::new(), TaskTracker::new(), lifecycle.number() + 1);
    let guard = Arc::new(RunGuard { cancel: cancel.clone(), tasks: tasks.clone(), runtime });
    *lifecycle = Lifecycle::Started { guard: Arc::downgrade(&guard), tasks: tasks.clone(), number };
    // Before anybody can wait for it: what the last run had synced says nothing of this one.
    shared.synced.send_replace(false);
    let span = tracing::info_span!("informer", name = %shared.name);
    let run = Run { shared: Arc::clone(shared), cancel, tasks: tasks.clone(), number };
    tasks.spawn_on(run.run().instrument(span), &guard.runtime);
    // Under the lock of the life cycle: a handler that is added now is either in `attached` or sees the run.
    for attached in shared.attached.lock().iter() {
        guard.deliver_to(attached);
    }
    // Closed at once: it is done when all its tasks are. What joins it later is a handler that was added while the
    // run was going on; should the run end meanwhile, that task ends before it delivers anything.
    tasks.close();
    InformerRun { guard }
}

impl RunGuard {
    /// Begins to deliver to a handler.
    pub(super) fn deliver_to<O: Object>(&self, attached: &Arc<dyn Attached<O>>) {
        attached.listener().begin_run();
        if let Some(delivery) = Arc::clone(attached).deliver(self.cancel.clone()) {
            let span = tracing::info_span!("handler", name = attached.listener().name());
            self.tasks.spawn_on(delivery.instrument(span), &self.runtime);
        }
    }
}

/// One run, from inside.
struct Run<O: Object> {
    shared: Arc<Shared<O>>,
    cancel: CancellationToken,
    tasks: TaskTracker,
    number: u64,
}

impl<O: Object> Run<O> {
    async fn run(self) {
        // However the pump ends, also by a panic or with its runtime: nobody must believe that it still runs.
        let _ended = self.cancel.clone().drop_guard();
        // The run before may still be finishing; it has the core until then.
        let core = Arc::clone(&self.shared.core);
        let mut core = tokio::select! {
            biased;
            () = self.cancel.cancelled() => return,
            core = core.lock() => core,
        };
        tracing::debug!(what = %self.shared.what, "started");
        core.begin(&self.shared);
        self.tasks.spawn(reflect(Arc::clone(&self.shared), self.cancel.clone()).in_current_span());
        core.pump_until(&self).await;
        core.publish_counters(&self.shared);
        tracing::debug!(what = %self.shared.what, "stopped");
    }

    /// Says that the first list is in the cache, unless a newer run has begun meanwhile.
    fn synced(&self, processor: &mut SharedProcessor<O>) {
        let lifecycle = self.shared.lifecycle.lock();
        if lifecycle.number() == self.number {
            processor.initial_complete();
            self.shared.synced.send_replace(true);
        }
    }
}

/// Reflects until the run ends. What panics in it is the source or a hook; neither may take the informer along.
async fn reflect<O: Object>(shared: Arc<Shared<O>>, cancel: CancellationToken) {
    // A closed queue ends the pump too.
    let _ = shared.reflector.run_contained(cancel, &shared.panics).await;
}

impl<O: Object> Core<O> {
    /// Brings the core from wherever the last run left it to the beginning of a new one.
    fn begin(&mut self, shared: &Shared<O>) {
        // What the last run left in the queue is older than the list to come, and is applied before it.
        while let Ok(Some(batch)) = shared.queue.try_pop_batch(InOrderQueue::<O>::BATCH_MAX) {
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
                batch = shared.queue.pop_batch(InOrderQueue::<O>::BATCH_MAX) => match batch {
                    Ok(batch) => {
                        let (changes, receipt) = batch.into_changes();
                        self.process(run, changes);
                        receipt.done();
                        // A queue that is never empty must not keep the thread from the handlers.
                        tokio::task::yield_now().await;
                    }
                    Err(_) => return,
                },
            }
        }
    }

    /// Between two batches: handlers that came are shown what is in the cache, and those that went are dropped.
    fn admit_handlers(&mut self, shared: &Shared<O>) {
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
        let Applied { events, first_list, suspect, resync } = self.pump.apply(changes);
        trace_events(&events);
        self.processor.distribute(events);
        // Before anybody is told: who hears that the cache is synced asks for its counts next.
        self.publish_counters(shared);
        if first_list {
            run.synced(&mut self.processor);
            tracing::info!(what = %shared.what, objects = self.pump.indexer().len(), "synced");
        }
        if suspect {
            shared.reflector.handle().request_consistent_relist();
        }
        if resync {
            self.resync();
        }
        shared.applied.send_modify(|applied| *applied += 1);
        shared.tell_processed(count, begin.elapsed());
    }

    fn resync(&mut self) {
        let indexer = self.pump.indexer();
        self.processor.resync(|| indexer.list(), Instant::now().into_std());
    }

    fn publish_counters(&self, shared: &Shared<O>) {
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

//! A run of an informer: its tasks, from start to stop.

use std::sync::{Arc, Weak};

use informer_core::Object;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::Instrument;

use super::core::{Core, Shared};
use super::registration::Attached;
use crate::Event;
use crate::pump::Applied;
use crate::queue::InOrderQueue;

/// Where an informer is in its life.
#[derive(Debug)]
pub(super) enum Lifecycle {
    /// Never started.
    Idle,
    /// A run is going on, or is coming to its end: the guard says which.
    Started { guard: Weak<RunGuard>, tasks: TaskTracker },
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
    pub(super) cancel: CancellationToken,
    pub(super) tasks: TaskTracker,
}

impl Drop for RunGuard {
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}

impl InformerRun {
    /// Stops the informer, whoever else holds its run, and waits until its tasks have ended: requests are dropped,
    /// handlers finish the call that they are in.
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
    let mut lifecycle = shared.lifecycle.lock();
    if let Some(guard) = lifecycle.running() {
        return InformerRun { guard };
    }
    let (cancel, tasks) = (CancellationToken::new(), TaskTracker::new());
    let guard = Arc::new(RunGuard { cancel: cancel.clone(), tasks: tasks.clone() });
    *lifecycle = Lifecycle::Started { guard: Arc::downgrade(&guard), tasks: tasks.clone() };
    let span = tracing::info_span!("informer", name = %shared.name);
    tasks.spawn(run(Arc::clone(shared), cancel.clone(), tasks.clone()).instrument(span));
    // Under the lock of the life cycle: a handler that is added now is either in `attached` or sees the run.
    for attached in shared.attached.lock().iter() {
        spawn_listener(attached, &cancel, &tasks);
    }
    // Nothing is added to the tracker but by what it tracks, so it may close at once: it is done when all are.
    tasks.close();
    InformerRun { guard }
}

pub(super) fn spawn_listener<O: Object>(
    attached: &Arc<dyn Attached<O>>,
    cancel: &CancellationToken,
    tasks: &TaskTracker,
) {
    attached.listener().begin_run();
    if let Some(delivery) = Arc::clone(attached).deliver(cancel.clone()) {
        let span = tracing::info_span!("handler", name = attached.listener().name());
        tasks.spawn(delivery.instrument(span));
    }
}

async fn run<O: Object>(shared: Arc<Shared<O>>, cancel: CancellationToken, tasks: TaskTracker) {
    // The run before may still be finishing; it has the core until then.
    let core = Arc::clone(&shared.core);
    let mut core = tokio::select! {
        biased;
        () = cancel.cancelled() => return,
        core = core.lock() => core,
    };
    tracing::debug!(what = %shared.what, "started");
    core.begin(&shared);
    let reflecting = Arc::clone(&shared);
    let reflect = cancel.clone();
    tasks.spawn(
        async move {
            // The queue of an informer is never closed, so the reflector ends only with the run.
            let _ = reflecting.reflector.run(reflect).await;
        }
        .in_current_span(),
    );
    core.pump_until(&shared, &cancel).await;
    core.publish_counters(&shared);
    tracing::debug!(what = %shared.what, "stopped");
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
        shared.synced.send_replace(false);
        self.pump.begin_run();
        self.processor.begin_run();
    }

    async fn pump_until(&mut self, shared: &Shared<O>, cancel: &CancellationToken) {
        loop {
            self.admit_handlers(shared);
            let resync = self.processor.next_resync().map(Instant::from_std);
            tokio::select! {
                biased;
                () = cancel.cancelled() => return,
                () = shared.handlers_changed.notified() => {}
                () = at(resync) => self.resync(),
                batch = shared.queue.pop_batch(InOrderQueue::<O>::BATCH_MAX) => match batch {
                    Ok(batch) => {
                        let (changes, receipt) = batch.into_changes();
                        self.process(shared, changes);
                        receipt.done();
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

    fn process(&mut self, shared: &Shared<O>, changes: Vec<crate::Change<O>>) {
        let (begin, count) = (Instant::now(), changes.len());
        let Applied { events, first_list, suspect, resync } = self.pump.apply(changes);
        trace_events(&events);
        self.processor.distribute(events);
        if first_list {
            self.processor.initial_complete();
            shared.synced.send_replace(true);
            tracing::info!(what = %shared.what, objects = self.pump.indexer().len(), "synced");
        }
        if suspect {
            shared.reflector.handle().request_consistent_relist();
        }
        if resync {
            self.resync();
        }
        self.publish_counters(shared);
        shared.applied.send_modify(|applied| *applied += 1);
        if let Some(metrics) = &shared.metrics {
            metrics.processed(&shared.name, count, begin.elapsed());
        }
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

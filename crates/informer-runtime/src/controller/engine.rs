//! A running controller, with its sources, workers and shutdown.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::try_join_all;
use informer_control::controller::{
    CANCEL_GRACE, ControllerLifecycle, ControllerPhase, DrainStep, SourceStart,
};
use informer_core::panics::panic_text;
use informer_workqueue::WorkQueue;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::Mutex as AsyncMutex;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::context::ControllerContext;
use super::metrics::Instruments;
use super::options::ControllerSettings;
use super::reconciler::DynReconciler;
use super::sharded::{Sharded, follow_shares};
#[cfg(feature = "console")]
use super::state_page::ConsoleParts;
use super::worker::{WorkerSlot, work};
use super::{ControllerError, ControllerState};
use crate::causes::{CauseLog, ControllerPage};
use crate::clock::sleep_until;
use crate::source::{Enqueuer, Source};
use crate::{ReconcileCause, ReconcileRequest, Services};

/// The extra time that the controller waits for a source after the sync timeout. The source has the same
/// timeout and can thus report the reason first.
const REASON_GRACE: Duration = Duration::from_secs(1);

pub(super) struct EngineParts<R: ReconcileRequest> {
    pub(super) name: Arc<str>,
    pub(super) kind: Arc<str>,
    pub(super) settings: ControllerSettings,
    pub(super) queue: WorkQueue<R>,
    pub(super) reconciler: Box<dyn DynReconciler<R>>,
    pub(super) services: Services,
    pub(super) instruments: Instruments,
    pub(super) sources: Vec<Arc<dyn Source<R>>>,
    pub(super) sharded: Option<Sharded<R>>,
    pub(super) causes: Option<Arc<CauseLog<R>>>,
    #[cfg(feature = "console")]
    pub(super) console: ConsoleParts,
}

pub(super) struct Engine<R: ReconcileRequest> {
    pub(super) kind: Arc<str>,
    pub(super) settings: ControllerSettings,
    pub(super) queue: WorkQueue<R>,
    pub(super) reconciler: Box<dyn DynReconciler<R>>,
    pub(super) context: Arc<ControllerContext>,
    pub(super) instruments: Instruments,
    pub(super) sharded: Option<Sharded<R>>,
    /// The causes of the queued requests and the last reconciles, if they can be recorded.
    causes: Option<Arc<CauseLog<R>>>,
    /// For each worker, the request that it currently reconciles.
    pub(super) slots: Vec<WorkerSlot<R>>,
    /// A random number that identifies this run of the controller in the ids of its reconciles.
    pub(super) run: u64,
    pub(super) next: AtomicU64,
    lifecycle: Mutex<ControllerLifecycle>,
    sources: Mutex<Vec<Arc<dyn Source<R>>>>,
    /// Locked while the sources of the controller start. A second task that wants to start the sources waits
    /// for this lock, and thereby until they have synced.
    starting: AsyncMutex<()>,
    enqueuer: Enqueuer<R>,
    #[cfg(feature = "console")]
    pub(super) console: ConsoleParts,
}

impl<R: ReconcileRequest> Engine<R> {
    pub(super) fn new(parts: EngineParts<R>) -> Self {
        let EngineParts {
            name,
            kind,
            settings,
            queue,
            reconciler,
            services,
            instruments,
            sources,
            sharded,
            causes,
            #[cfg(feature = "console")]
            console,
        } = parts;
        let enqueuer = Enqueuer {
            controller: Arc::clone(&name),
            queue: queue.clone(),
            services: services.clone(),
            stop: CancellationToken::new(),
            tasks: TaskTracker::new(),
            panics: Arc::default(),
            deadline: Instant::now(),
            only: None,
            causes: causes.clone(),
        };
        let context = ControllerContext { controller: name, services, cancel: CancellationToken::new() };
        Self {
            kind,
            slots: (0..settings.workers).map(|_| WorkerSlot::default()).collect(),
            lifecycle: Mutex::new(ControllerLifecycle::new(settings.drain_within)),
            settings,
            queue,
            reconciler,
            context: Arc::new(context),
            instruments,
            sharded,
            causes,
            run: RandomState::new().hash_one(0_u8),
            next: AtomicU64::new(1),
            sources: Mutex::new(sources),
            starting: AsyncMutex::new(()),
            enqueuer,
            #[cfg(feature = "console")]
            console,
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.context.controller
    }

    /// Returns the log of causes and reconciles, if the controller can record them.
    pub(super) fn causes(&self) -> Option<&CauseLog<R>> {
        self.causes.as_deref().filter(|causes| causes.is_available())
    }

    /// Records a cause of a request, if the controller records causes. Must be called before the request is
    /// added to the queue.
    pub(super) fn record_cause(&self, request: &R, cause: ReconcileCause) {
        if let Some(causes) = self.causes().filter(|causes| causes.is_on()) {
            causes.record(request, cause);
        }
    }

    /// Adds a request to the queue, with a cause.
    pub(super) fn enqueue(&self, request: R, cause: ReconcileCause) {
        self.record_cause(&request, cause);
        self.queue.add(request);
    }

    fn controller(&self) -> String {
        self.name().to_owned()
    }

    pub(super) async fn run(self: Arc<Self>, stop: CancellationToken) -> Result<(), ControllerError> {
        if !self.lifecycle.lock().run() {
            return Err(ControllerError::StartedTwice { controller: self.controller() });
        }
        let _workers = self.instruments.start_workers(self.settings.workers);
        let _detach = DetachOnDrop { engine: &self, only_unused: false };
        let ended = self.clone().start_and_work(&stop).await;
        self.end().await;
        self.lifecycle.lock().end();
        ended
    }

    /// Starts the sources of the controller while this process is a standby (warm-up), and keeps them for the
    /// run. If the controller is stopped before it runs, the sources are stopped.
    pub(super) async fn warm_up(self: Arc<Self>, stop: CancellationToken) -> Result<(), ControllerError> {
        let _detach = DetachOnDrop { engine: &self, only_unused: true };
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            started = self.start_sources() => {
                started?;
                stop.cancelled().await;
            }
        }
        let unused = self.lifecycle.lock().phase() == ControllerPhase::Created;
        if unused {
            self.end().await;
        }
        Ok(())
    }

    async fn start_and_work(self: Arc<Self>, stop: &CancellationToken) -> Result<(), ControllerError> {
        tokio::select! {
            biased;
            () = stop.cancelled() => return Ok(()),
            started = self.start_sources() => started?,
        }
        tracing::info!(
            controller = self.name(),
            workers = self.settings.workers,
            "the controller's sources have synced; starting workers"
        );
        if !self.lifecycle.lock().start_reconciling() {
            return Err(ControllerError::SourcesFailed { controller: self.controller() });
        }
        if self.sharded.is_some() {
            self.enqueuer.spawn(follow_shares(Arc::clone(&self), self.enqueuer.clone()));
        }
        let mut workers = JoinSet::new();
        for slot in 0..self.settings.workers {
            workers.spawn(work(Arc::clone(&self), slot));
        }
        tokio::select! {
            biased;
            failed = self.join(&mut workers) => return failed,
            () = stop.cancelled() => {}
        }
        self.lifecycle.lock().stop(Instant::now().into_std());
        self.detach();
        self.queue.shut_down();
        self.drain(workers).await
    }

    /// Waits until all workers have ended, or until the first worker fails.
    async fn join(&self, workers: &mut JoinSet<Result<(), ControllerError>>) -> Result<(), ControllerError> {
        while let Some(joined) = workers.join_next().await {
            match joined {
                Ok(ended) => ended?,
                Err(error) if error.is_panic() => {
                    let panic = error.into_panic();
                    let (controller, message) = (self.controller(), panic_text(&*panic).to_owned());
                    return Err(ControllerError::WorkerPanicked { controller, message });
                }
                // The task of a worker was cancelled because the tokio runtime shuts down. This is not an
                // error of the controller.
                Err(_) => {}
            }
        }
        Ok(())
    }

    /// Ends the reconciles of a stopped controller: lets running ones finish within the drain time, then
    /// cancels the remaining ones, and finally drops them.
    async fn drain(&self, mut workers: JoinSet<Result<(), ControllerError>>) -> Result<(), ControllerError> {
        loop {
            let deadline = self.lifecycle.lock().next_deadline();
            tokio::select! {
                biased;
                ended = self.join(&mut workers) => return ended,
                () = sleep_until(deadline) => {}
            }
            let drain = self.lifecycle.lock().tick(Instant::now().into_std());
            match drain {
                Some(DrainStep::Cancel) => self.context.cancel.cancel(),
                Some(DrainStep::Drop) => break,
                None => {}
            }
        }
        let left: Vec<String> = self.slots.iter().filter_map(WorkerSlot::request).collect();
        workers.shutdown().await;
        let Some(request) = left.first().cloned() else { return Ok(()) };
        let after = self.settings.drain_within + CANCEL_GRACE;
        Err(ControllerError::NotDrained { controller: self.controller(), count: left.len(), after, request })
    }

    /// Starts all sources of the controller concurrently and waits until they have synced. A second caller
    /// waits until the first has finished.
    async fn start_sources(&self) -> Result<(), ControllerError> {
        let _gate = self.starting.lock().await;
        let sources = {
            // The method `watch` adds a source under the same lock of `sources`. If it does so before this
            // block, the added source is started here; otherwise `watch` starts it.
            let sources = self.sources.lock();
            match self.lifecycle.lock().start_sources() {
                SourceStart::Start => sources.clone(),
                SourceStart::Started => return Ok(()),
                SourceStart::Failed => {
                    return Err(ControllerError::SourcesFailed { controller: self.controller() });
                }
            }
        };
        let started = try_join_all(sources.iter().map(|source| self.start_source(&**source))).await;
        self.lifecycle.lock().sources_started(started.is_ok());
        started.map(drop)
    }

    async fn start_source(&self, source: &dyn Source<R>) -> Result<(), ControllerError> {
        let (controller, name, after) = (self.controller(), source.name(), self.settings.sync_timeout);
        let enqueuer = Enqueuer { deadline: Instant::now() + after, ..self.enqueuer.clone() };
        let start = AssertUnwindSafe(async { source.start(enqueuer).await }).catch_unwind();
        let cause = match tokio::time::timeout(after + REASON_GRACE, start).await {
            Ok(Ok(Ok(()))) => return Ok(()),
            Ok(Ok(Err(cause))) => cause,
            Ok(Err(panic)) => format!("it panicked: {}", panic_text(&*panic)).into(),
            Err(_) => return Err(ControllerError::NotSynced { controller, name, after }),
        };
        Err(ControllerError::Source { controller, name, cause })
    }

    pub(super) async fn watch(self: Arc<Self>, source: Arc<dyn Source<R>>) -> Result<(), ControllerError> {
        {
            let mut sources = self.sources.lock();
            sources.push(Arc::clone(&source));
            if self.lifecycle.lock().sources_not_started() {
                return Ok(());
            }
        }
        let (result_sender, result) = tokio::sync::oneshot::channel();
        let engine = Arc::clone(&self);
        // A spawned task starts the added source, so that the start continues even if the caller drops the
        // future of `watch`.
        self.enqueuer.spawn(async move {
            let started = engine.start_source(&*source).await;
            if let Err(error) = &started {
                let (controller, error) = (engine.name(), error as &dyn std::error::Error);
                tracing::error!(controller, error, "cannot start an added source");
            }
            let _ = result_sender.send(started);
        });
        // The task that starts the added source sends no result if the controller stops before that source
        // has started. This is not an error.
        result.await.unwrap_or(Ok(()))
    }

    pub(super) fn accepts_requests(&self) -> bool {
        self.lifecycle.lock().accepts_requests()
    }

    pub(super) fn sources(&self) -> Vec<Arc<dyn Source<R>>> {
        self.sources.lock().clone()
    }

    /// Detaches the sources of the controller, so that they add no more requests to its queue.
    fn detach(&self) {
        self.enqueuer.stop.cancel();
        let sources = std::mem::take(&mut *self.sources.lock());
        for source in sources {
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| source.stop())) {
                self.enqueuer.panics.fetch_add(1, Ordering::Relaxed);
                let (controller, panic) = (self.name(), panic_text(&*panic));
                tracing::error!(controller, panic, "a source panicked in `stop`; stopping the next one");
            }
        }
    }

    async fn end(&self) {
        self.detach();
        self.queue.shut_down();
        self.enqueuer.tasks.close();
        self.enqueuer.tasks.wait().await;
    }

    pub(super) fn state(&self) -> ControllerState {
        // The methods of a source are called under no lock, not even one that a temporary value holds. A
        // source may read the state of the controller, which would deadlock.
        let sources = self.sources().iter().map(|source| source.name()).collect();
        let phase = self.lifecycle.lock().phase();
        ControllerState {
            name: self.controller(),
            kind: self.kind.to_string(),
            phase,
            workers: self.settings.workers,
            reconciles: self.instruments.counters.counts(),
            trigger_panics: self.enqueuer.panics.load(Ordering::Relaxed),
            queue: self.queue.stats(),
            shard: self.sharded.as_ref().map(Sharded::state),
            sources,
            busy: self.slots.iter().filter_map(WorkerSlot::busy).collect(),
        }
    }
}

impl<R: ReconcileRequest> ControllerPage for Engine<R> {
    fn name(&self) -> &str {
        self.name()
    }

    fn causes(&self) -> Option<Value> {
        let causes = self.causes().filter(|causes| causes.records_for_program())?;
        Some(causes.page(self.run))
    }

    #[cfg(feature = "console")]
    fn run(&self) -> u64 {
        self.run
    }

    #[cfg(feature = "console")]
    fn state(&self, now: std::time::Instant) -> Value {
        let running = self.causes().map(|causes| causes.running(self.run, now));
        let mut page = self.state().page(running.unwrap_or_default());
        // The methods of a source are called under no lock.
        page["watches"] = self.sources().iter().map(|source| super::state_page::source(&**source)).collect();
        page["writes"] = self.console.writes.page();
        let failing = self.causes().map(|causes| causes.failing(now));
        page["failing"] = failing.map(|(keys, _)| keys).into();
        page["failingSeconds"] = failing.and_then(|(_, time)| time).map(|time| time.as_secs_f64()).into();
        page
    }

    #[cfg(feature = "console")]
    fn reconciles(&self, after: u64, max: usize, now: std::time::Instant) -> (Vec<Value>, u64) {
        self.causes().map_or((Vec::new(), 0), |causes| causes.ended(after, max, self.run, now))
    }

    #[cfg(feature = "console")]
    fn kept_reconciles(&self, after: u64) -> usize {
        self.causes().map_or(0, |causes| causes.kept(after))
    }

    #[cfg(feature = "console")]
    fn history(&self, key: &str, now: std::time::Instant) -> Option<Value> {
        self.causes()?.history(key, self.run, now)
    }

    #[cfg(feature = "console")]
    fn object(&self, key: &str) -> Option<crate::EventSubject> {
        self.console.object(&self.context.services.cache, key)
    }

    #[cfg(feature = "console")]
    fn enqueue_key(&self, key: &str) -> Result<(), crate::causes::EnqueueError> {
        use crate::causes::EnqueueError;

        if !self.accepts_requests() {
            return Err(EnqueueError::NotRunning);
        }
        let request = parse_request(key).or_else(|| self.causes()?.find(key)).or_else(|| {
            self.slots.iter().filter_map(WorkerSlot::running).find(|request| request.to_string() == key)
        });
        let request = request.ok_or(EnqueueError::UnknownKey)?;
        if self.sharded.as_ref().is_some_and(|sharded| !sharded.may_own(&request)) {
            return Err(EnqueueError::OtherReplica);
        }
        self.enqueue(request, ReconcileCause::Console);
        Ok(())
    }
}

/// Parses a request; `None` if the controller has its own type of requests.
#[cfg(feature = "console")]
fn parse_request<R: ReconcileRequest>(key: &str) -> Option<R> {
    let request: Box<dyn std::any::Any> = Box::new(key.parse::<crate::Request>().ok()?);
    request.downcast::<R>().ok().map(|request| *request)
}

/// A guard that detaches the sources of a controller when a run or a warm-up ends. If the future of the run
/// is dropped early, for example at the deadline of the manager, it cannot detach the sources itself, and
/// attached sources keep their tasks and the cache alive.
struct DetachOnDrop<'a, R: ReconcileRequest> {
    engine: &'a Engine<R>,
    /// True for the guard of a warm-up. Once a run has started, the sources belong to the run, and this guard
    /// does not detach them.
    only_unused: bool,
}

impl<R: ReconcileRequest> Drop for DetachOnDrop<'_, R> {
    fn drop(&mut self) {
        let unused = self.engine.lifecycle.lock().phase() == ControllerPhase::Created;
        if unused || !self.only_unused {
            self.engine.detach();
            self.engine.queue.shut_down();
        }
    }
}

impl<R: ReconcileRequest> fmt::Debug for Engine<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine")
            .field("name", &self.name())
            .field("phase", &self.lifecycle.lock().phase())
            .finish_non_exhaustive()
    }
}

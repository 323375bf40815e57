//! A controller while it runs: its sources, its workers, its end.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::try_join_all;
use informer_control::controller::{CANCEL_GRACE, ControllerPhase, Drain, Feeding, LifeState};
use informer_core::panics::panic_text;
use informer_workqueue::WorkQueue;
use parking_lot::Mutex;
use tokio::sync::Mutex as AsyncMutex;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::context::Surroundings;
use super::metrics::Instruments;
use super::options::Settings;
use super::reconciler::DynReconciler;
use super::sharded::{Sharded, follow};
use super::worker::{Slot, work};
use super::{ControllerError, ControllerState};
use crate::leader::driver::sleep_until;
use crate::source::{Feed, Source};
use crate::{ReconcileRequest, Services};

/// How much longer than the sync timeout a source may take to say what it waited for.
const REASON_GRACE: Duration = Duration::from_secs(1);

/// What a controller is made of.
pub(super) struct Parts<R: ReconcileRequest> {
    pub(super) name: Arc<str>,
    pub(super) kind: Arc<str>,
    pub(super) settings: Settings,
    pub(super) queue: WorkQueue<R>,
    pub(super) reconciler: Box<dyn DynReconciler<R>>,
    pub(super) services: Services,
    pub(super) instruments: Instruments,
    pub(super) sources: Vec<Arc<dyn Source<R>>>,
    pub(super) sharded: Option<Sharded<R>>,
}

pub(super) struct Engine<R: ReconcileRequest> {
    pub(super) kind: Arc<str>,
    pub(super) settings: Settings,
    pub(super) queue: WorkQueue<R>,
    pub(super) reconciler: Box<dyn DynReconciler<R>>,
    pub(super) surroundings: Arc<Surroundings>,
    pub(super) instruments: Instruments,
    pub(super) sharded: Option<Sharded<R>>,
    /// What each worker works on.
    pub(super) slots: Vec<Slot<R>>,
    /// Tells this run's reconciles from those of others.
    pub(super) run: u64,
    pub(super) next: AtomicU64,
    life: Mutex<LifeState>,
    sources: Mutex<Vec<Arc<dyn Source<R>>>>,
    /// Held by whoever starts the sources, so that others wait for it.
    starting: AsyncMutex<()>,
    feed: Feed<R>,
}

impl<R: ReconcileRequest> Engine<R> {
    pub(super) fn new(parts: Parts<R>) -> Self {
        let Parts { name, kind, settings, queue, reconciler, services, instruments, sources, sharded } =
            parts;
        let feed = Feed {
            controller: Arc::clone(&name),
            queue: queue.clone(),
            services: services.clone(),
            stop: CancellationToken::new(),
            tasks: TaskTracker::new(),
            panics: Arc::default(),
            deadline: Instant::now(),
            only: None,
        };
        let surroundings = Surroundings { controller: name, services, cancel: CancellationToken::new() };
        Self {
            kind,
            slots: (0..settings.workers).map(|_| Slot::default()).collect(),
            life: Mutex::new(LifeState::new(settings.drain_within)),
            settings,
            queue,
            reconciler,
            surroundings: Arc::new(surroundings),
            instruments,
            sharded,
            run: RandomState::new().hash_one(0_u8),
            next: AtomicU64::new(1),
            sources: Mutex::new(sources),
            starting: AsyncMutex::new(()),
            feed,
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.surroundings.controller
    }

    fn controller(&self) -> String {
        self.name().to_owned()
    }

    /// Runs until `stop` is cancelled and what is worked on has ended.
    pub(super) async fn run(self: Arc<Self>, stop: CancellationToken) -> Result<(), ControllerError> {
        if !self.life.lock().run() {
            return Err(ControllerError::StartedTwice { controller: self.controller() });
        }
        let _employed = self.instruments.employ(self.settings.workers);
        let _detaches = DetachesOnDrop { engine: &self, only_unused: false };
        let ended = self.clone().start_and_work(&stop).await;
        self.end().await;
        self.life.lock().end();
        ended
    }

    /// Starts the sources ahead of the run, and keeps them for it; ends them where it does not come.
    pub(super) async fn warm_up(self: Arc<Self>, stop: CancellationToken) -> Result<(), ControllerError> {
        let _detaches = DetachesOnDrop { engine: &self, only_unused: true };
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            started = self.start_sources() => {
                started?;
                stop.cancelled().await;
            }
        }
        let unused = self.life.lock().phase() == ControllerPhase::Created;
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
            "the controller has its sources and starts"
        );
        if !self.life.lock().work() {
            return Err(ControllerError::SourcesFailed { controller: self.controller() });
        }
        if self.sharded.is_some() {
            self.feed.spawn(follow(Arc::clone(&self), self.feed.clone()));
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
        self.life.lock().stop(Instant::now().into_std());
        self.detach();
        self.queue.shut_down();
        self.drain(workers).await
    }

    /// Waits for all workers, or the first that fails.
    async fn join(&self, workers: &mut JoinSet<Result<(), ControllerError>>) -> Result<(), ControllerError> {
        while let Some(joined) = workers.join_next().await {
            match joined {
                Ok(ended) => ended?,
                Err(error) if error.is_panic() => {
                    let panic = error.into_panic();
                    let (controller, message) = (self.controller(), panic_text(&*panic).to_owned());
                    return Err(ControllerError::WorkerPanicked { controller, message });
                }
                // The runtime shuts down.
                Err(_) => {}
            }
        }
        Ok(())
    }

    /// Reconciles that go on are let finish, then told to, then dropped.
    async fn drain(&self, mut workers: JoinSet<Result<(), ControllerError>>) -> Result<(), ControllerError> {
        loop {
            let deadline = self.life.lock().next_deadline();
            tokio::select! {
                biased;
                ended = self.join(&mut workers) => return ended,
                () = sleep_until(deadline) => {}
            }
            let drain = self.life.lock().tick(Instant::now().into_std());
            match drain {
                Some(Drain::Cancel) => self.surroundings.cancel.cancel(),
                Some(Drain::Drop) => break,
                None => {}
            }
        }
        let left: Vec<String> = self.slots.iter().filter_map(Slot::request).collect();
        workers.shutdown().await;
        let Some(request) = left.first().cloned() else { return Ok(()) };
        let after = self.settings.drain_within + CANCEL_GRACE;
        Err(ControllerError::NotDrained { controller: self.controller(), count: left.len(), after, request })
    }

    /// Starts all sources, together, and waits until they are synced. Whoever comes second waits for the first.
    async fn start_sources(&self) -> Result<(), ControllerError> {
        let _gate = self.starting.lock().await;
        let sources = {
            // Whoever adds a source sees either that they were not wanted yet, or starts it himself.
            let sources = self.sources.lock();
            match self.life.lock().feed() {
                Feeding::Start => sources.clone(),
                Feeding::Started => return Ok(()),
                Feeding::Failed => {
                    return Err(ControllerError::SourcesFailed { controller: self.controller() });
                }
            }
        };
        let started = try_join_all(sources.iter().map(|source| self.start_source(&**source))).await;
        self.life.lock().fed(started.is_ok());
        started.map(drop)
    }

    async fn start_source(&self, source: &dyn Source<R>) -> Result<(), ControllerError> {
        let (controller, name, after) = (self.controller(), source.name(), self.settings.sync_timeout);
        let feed = Feed { deadline: Instant::now() + after, ..self.feed.clone() };
        let start = AssertUnwindSafe(async { source.start(feed).await }).catch_unwind();
        let cause = match tokio::time::timeout(after + REASON_GRACE, start).await {
            Ok(Ok(Ok(()))) => return Ok(()),
            Ok(Ok(Err(cause))) => cause,
            Ok(Err(panic)) => format!("it panicked: {}", panic_text(&*panic)).into(),
            Err(_) => return Err(ControllerError::NotSynced { controller, name, after }),
        };
        Err(ControllerError::Source { controller, name, cause })
    }

    /// Adds a source: to those that will be started, or at once where they were.
    pub(super) async fn watch(self: Arc<Self>, source: Arc<dyn Source<R>>) -> Result<(), ControllerError> {
        {
            let mut sources = self.sources.lock();
            sources.push(Arc::clone(&source));
            if self.life.lock().is_unfed() {
                return Ok(());
            }
        }
        let (told, heard) = tokio::sync::oneshot::channel();
        let engine = Arc::clone(&self);
        // In a task, so that a caller who does not wait loses nothing.
        self.feed.spawn(async move {
            let started = engine.start_source(&*source).await;
            if let Err(error) = &started {
                let (controller, error) = (engine.name(), error as &dyn std::error::Error);
                tracing::error!(controller, error, "a source that was added cannot be started");
            }
            let _ = told.send(started);
        });
        // Where nobody answers, the controller stopped.
        heard.await.unwrap_or(Ok(()))
    }

    /// True while requests are worked on.
    pub(super) fn takes_requests(&self) -> bool {
        self.life.lock().takes_requests()
    }

    pub(super) fn sources(&self) -> Vec<Arc<dyn Source<R>>> {
        self.sources.lock().clone()
    }

    /// Takes the sources away, so that nothing reaches the queue any more.
    fn detach(&self) {
        self.feed.stop.cancel();
        let sources = std::mem::take(&mut *self.sources.lock());
        for source in sources {
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| source.stop())) {
                self.feed.panics.fetch_add(1, Ordering::Relaxed);
                let (controller, panic) = (self.name(), panic_text(&*panic));
                tracing::error!(
                    controller,
                    panic,
                    "a source panicked while it was stopped; the next one follows"
                );
            }
        }
    }

    async fn end(&self) {
        self.detach();
        self.queue.shut_down();
        self.feed.tasks.close();
        self.feed.tasks.wait().await;
    }

    pub(super) fn state(&self) -> ControllerState {
        // Under no lock, not even one that lives as long as the expression below: a source may ask for the state.
        let sources = self.sources().iter().map(|source| source.name()).collect();
        let phase = self.life.lock().phase();
        ControllerState {
            name: self.controller(),
            kind: self.kind.to_string(),
            phase,
            workers: self.settings.workers,
            reconciles: self.instruments.counters.counts(),
            trigger_panics: self.feed.panics.load(Ordering::Relaxed),
            queue: self.queue.stats(),
            shard: self.sharded.as_ref().map(Sharded::state),
            sources,
            busy: self.slots.iter().filter_map(Slot::busy).collect(),
        }
    }
}

/// Detaches the sources when a run or a warm-up ends. A future that is dropped before it was stopped, as at the deadline of the
/// manager, cannot do it itself, and sources that stay attached keep their tasks and the cache alive.
struct DetachesOnDrop<'a, R: ReconcileRequest> {
    engine: &'a Engine<R>,
    /// Leaves the sources to a run that has begun.
    only_unused: bool,
}

impl<R: ReconcileRequest> Drop for DetachesOnDrop<'_, R> {
    fn drop(&mut self) {
        let unused = self.engine.life.lock().phase() == ControllerPhase::Created;
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
            .field("phase", &self.life.lock().phase())
            .finish_non_exhaustive()
    }
}

//! A controller while it runs: its sources, its workers, its end.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::try_join_all;
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
use super::worker::{Slot, work};
use super::{ControllerError, ControllerState};
use crate::panics::panic_text;
use crate::source::{Feed, Source};
use crate::{ReconcileRequest, Services};

/// How long reconciles may take to end after they were told to tidy up.
const CANCEL_GRACE: Duration = Duration::from_secs(5);

/// How much longer than the sync timeout a source may take to say what it waited for.
const REASON_GRACE: Duration = Duration::from_secs(1);

/// Where a controller is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ControllerPhase {
    /// It has not started; its sources may have, to warm up.
    Created,
    /// It waits for its sources.
    Starting,
    /// It reconciles.
    Running,
    /// It ends its reconciles.
    Stopping,
    /// It has ended.
    Stopped,
}

/// How far the sources are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Feeding {
    Pending,
    Starting,
    Started,
    Failed,
}

struct Sources<R: ReconcileRequest> {
    feeding: Feeding,
    list: Vec<Arc<dyn Source<R>>>,
}

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
}

pub(super) struct Engine<R: ReconcileRequest> {
    pub(super) kind: Arc<str>,
    pub(super) settings: Settings,
    pub(super) queue: WorkQueue<R>,
    pub(super) reconciler: Box<dyn DynReconciler<R>>,
    pub(super) surroundings: Arc<Surroundings>,
    pub(super) instruments: Instruments,
    /// What each worker works on.
    pub(super) slots: Vec<Slot<R>>,
    /// Tells this run's reconciles from those of others.
    pub(super) run: u64,
    pub(super) next: AtomicU64,
    /// Keys are not worked on any more.
    pub(super) stopping: AtomicBool,
    phase: Mutex<ControllerPhase>,
    sources: Mutex<Sources<R>>,
    /// Held by whoever starts the sources, so that others wait for it.
    starting: AsyncMutex<()>,
    feed: Feed<R>,
}

impl<R: ReconcileRequest> Engine<R> {
    pub(super) fn new(parts: Parts<R>) -> Self {
        let Parts { name, kind, settings, queue, reconciler, services, instruments, sources } = parts;
        let feed = Feed {
            controller: Arc::clone(&name),
            queue: queue.clone(),
            services: services.clone(),
            stop: CancellationToken::new(),
            tasks: TaskTracker::new(),
            panics: Arc::default(),
            deadline: Instant::now(),
        };
        let surroundings = Surroundings { controller: name, services, cancel: CancellationToken::new() };
        Self {
            kind,
            slots: (0..settings.workers).map(|_| Slot::default()).collect(),
            settings,
            queue,
            reconciler,
            surroundings: Arc::new(surroundings),
            instruments,
            run: RandomState::new().hash_one(0_u8),
            next: AtomicU64::new(1),
            stopping: AtomicBool::new(false),
            phase: Mutex::new(ControllerPhase::Created),
            sources: Mutex::new(Sources { feeding: Feeding::Pending, list: sources }),
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
        {
            let mut phase = self.phase.lock();
            if *phase != ControllerPhase::Created {
                return Err(ControllerError::StartedTwice { controller: self.controller() });
            }
            *phase = ControllerPhase::Starting;
        }
        let ended = self.clone().start_and_work(&stop).await;
        self.end().await;
        *self.phase.lock() = ControllerPhase::Stopped;
        ended
    }

    /// Starts the sources ahead of the run, and keeps them for it; ends them where it does not come.
    pub(super) async fn warm_up(self: Arc<Self>, stop: CancellationToken) -> Result<(), ControllerError> {
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            started = self.start_sources() => {
                started?;
                stop.cancelled().await;
            }
        }
        if *self.phase.lock() == ControllerPhase::Created {
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
        *self.phase.lock() = ControllerPhase::Running;
        let mut workers = JoinSet::new();
        for slot in 0..self.settings.workers {
            workers.spawn(work(Arc::clone(&self), slot));
        }
        tokio::select! {
            biased;
            failed = self.join(&mut workers) => return failed,
            () = stop.cancelled() => {}
        }
        *self.phase.lock() = ControllerPhase::Stopping;
        self.stopping.store(true, Ordering::Release);
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
        if let Ok(ended) = tokio::time::timeout(self.settings.drain_within, self.join(&mut workers)).await {
            return ended;
        }
        self.surroundings.cancel.cancel();
        if let Ok(ended) = tokio::time::timeout(CANCEL_GRACE, self.join(&mut workers)).await {
            return ended;
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
            let mut sources = self.sources.lock();
            match sources.feeding {
                Feeding::Started => return Ok(()),
                Feeding::Starting | Feeding::Failed => {
                    return Err(ControllerError::SourcesFailed { controller: self.controller() });
                }
                Feeding::Pending => sources.feeding = Feeding::Starting,
            }
            sources.list.clone()
        };
        let started = try_join_all(sources.iter().map(|source| self.start_source(&**source))).await;
        let feeding = if started.is_ok() { Feeding::Started } else { Feeding::Failed };
        self.sources.lock().feeding = feeding;
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
            sources.list.push(Arc::clone(&source));
            if sources.feeding == Feeding::Pending {
                return Ok(());
            }
        }
        let (told, heard) = tokio::sync::oneshot::channel();
        let engine = Arc::clone(&self);
        // In a task, so that a caller who does not wait loses nothing.
        self.feed.spawn(async move {
            let started = engine.start_source(&*source).await;
            if let Err(error) = &started {
                tracing::error!(controller = engine.name(), %error, "a source that was added cannot be started");
            }
            let _ = told.send(started);
        });
        // Where nobody answers, the controller stopped.
        heard.await.unwrap_or(Ok(()))
    }

    /// Takes the sources away, so that nothing reaches the queue any more.
    fn detach(&self) {
        self.feed.stop.cancel();
        let sources = std::mem::take(&mut self.sources.lock().list);
        sources.iter().for_each(|source| source.stop());
    }

    async fn end(&self) {
        self.stopping.store(true, Ordering::Release);
        self.detach();
        self.queue.shut_down();
        self.feed.tasks.close();
        self.feed.tasks.wait().await;
    }

    pub(super) fn state(&self) -> ControllerState {
        ControllerState {
            name: self.controller(),
            kind: self.kind.to_string(),
            phase: *self.phase.lock(),
            workers: self.settings.workers,
            reconciles: self.instruments.counters.counts(),
            trigger_panics: self.feed.panics.load(Ordering::Relaxed),
            queue: self.queue.stats(),
            sources: self.sources.lock().list.iter().map(|source| source.name()).collect(),
            busy: self.slots.iter().filter_map(Slot::busy).collect(),
        }
    }
}

impl<R: ReconcileRequest> fmt::Debug for Engine<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine")
            .field("name", &self.name())
            .field("phase", &*self.phase.lock())
            .finish_non_exhaustive()
    }
}

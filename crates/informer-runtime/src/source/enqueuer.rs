use std::cell::LazyCell;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use informer_cache::Event;
use informer_core::Object;
use informer_core::panics::panic_text;
use informer_workqueue::WorkQueue;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::causes::CauseLog;
use crate::handler::{CauseRecorder, Enqueue, Handler, RequestFilter};
use crate::predicate::Predicate;
use crate::{ReconcileCause, ReconcileRequest, Request, Services, Trigger};

/// Gives a source access to its controller: to the queue, to the services of the manager, and to tasks that
/// end with the controller. Clones refer to the same controller.
pub struct Enqueuer<R: ReconcileRequest = Request> {
    pub(crate) controller: Arc<str>,
    pub(crate) queue: WorkQueue<R>,
    pub(crate) services: Services,
    pub(crate) stop: CancellationToken,
    pub(crate) tasks: TaskTracker,
    pub(crate) panics: Arc<AtomicU64>,
    pub(crate) deadline: Instant,
    /// If set, only requests for which this function returns true are added to the queue. When a sharded
    /// controller gains keys, it replays its sources with a filter for these keys.
    pub(crate) only: Option<Arc<RequestFilter<R>>>,
    /// The causes of the queued requests, if the controller can record them.
    pub(crate) causes: Option<Arc<CauseLog<R>>>,
}

impl<R: ReconcileRequest> Enqueuer<R> {
    /// Returns the name of the controller to whose queue the source adds requests.
    pub fn controller(&self) -> &str {
        &self.controller
    }

    /// Returns access to the controller's queue. `priority` is the default priority of requests that are
    /// added through the returned value.
    pub fn enqueue(&self, priority: i32) -> Enqueue<'_, R> {
        self.enqueue_for(priority, None)
    }

    /// Returns access to the controller's queue that records this cause of the added requests, if the
    /// controller records causes.
    fn enqueue_for<'a>(
        &'a self,
        priority: i32,
        cause: Option<&'a (dyn Fn() -> ReconcileCause + 'a)>,
    ) -> Enqueue<'a, R> {
        let causes = self.causes.as_deref().filter(|log| log.is_on());
        let causes = causes.map(|log| CauseRecorder { log, cause });
        Enqueue::new(&self.queue, priority).only(self.only.as_deref()).recording(causes)
    }

    /// Returns the services that the manager's runnables share, such as the cached client.
    pub fn services(&self) -> &Services {
        &self.services
    }

    /// Returns the time that is left for the source to deliver its initial objects. When it has elapsed, a
    /// source should return its own error, which is more specific than that of the controller. One second
    /// later, the controller stops waiting for the source.
    pub fn sync_within(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    /// Returns a token that is cancelled when the controller stops, so that tasks of the source can end.
    pub fn stop(&self) -> &CancellationToken {
        &self.stop
    }

    /// Spawns a task that is dropped at its next await when the controller stops. If the task panics, the
    /// panic is logged and counted in [`trigger_panics`](crate::ControllerState::trigger_panics), and the
    /// controller keeps running.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let enqueuer = self.clone();
        // The task is boxed: tokio compiles a task twice for each type of its future.
        let task: BoxFuture<'static, ()> = Box::pin(task);
        self.tasks.spawn(async move {
            let task = enqueuer.contain("a task of a source", task);
            enqueuer.stop.run_until_cancelled(task).await
        });
    }

    /// Runs a future of a source, such as a task or the replay of stored objects. If it panics, the panic is
    /// logged and counted, and the controller keeps running. `task` names the future in the log.
    pub(crate) async fn contain(&self, task: &str, work: impl Future<Output = ()>) {
        if let Err(panic) = AssertUnwindSafe(work).catch_unwind().await {
            self.panics.fetch_add(1, Ordering::Relaxed);
            let (controller, panic) = (&*self.controller, panic_text(&*panic));
            tracing::error!(controller, panic, "{task} panicked and has ended");
        }
    }
}

impl<R: ReconcileRequest> Clone for Enqueuer<R> {
    fn clone(&self) -> Self {
        Self {
            controller: Arc::clone(&self.controller),
            queue: self.queue.clone(),
            services: self.services.clone(),
            stop: self.stop.clone(),
            tasks: self.tasks.clone(),
            panics: Arc::clone(&self.panics),
            deadline: self.deadline,
            only: self.only.clone(),
            causes: self.causes.clone(),
        }
    }
}

impl<R: ReconcileRequest> fmt::Debug for Enqueuer<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Enqueuer").field("controller", &self.controller).finish_non_exhaustive()
    }
}

/// The number of stored objects that a source delivers again before it yields to other tasks. Without
/// yielding, the replay of a large cache would block its thread.
const REPLAY_BATCH: usize = 64;

/// The path of a trigger (for example an added object) from a source to the controller's queue: first the
/// predicates, which may reject it, then the handler.
pub(crate) struct Route<O, R: ReconcileRequest> {
    predicates: Vec<Box<dyn Predicate<O>>>,
    handler: Box<dyn Handler<O, R>>,
    /// The kind of the objects or the name of the source, for the causes of reconciles.
    kind: Arc<str>,
}

impl<O: Object, R: ReconcileRequest> Route<O, R> {
    pub(crate) fn new(kind: impl Into<Arc<str>>, handler: impl Handler<O, R>) -> Self {
        Self { predicates: Vec::new(), handler: Box::new(handler), kind: kind.into() }
    }

    pub(crate) fn filter(&mut self, predicate: impl Predicate<O>) {
        self.predicates.push(Box::new(predicate));
    }

    /// Passes a trigger to the handler if all predicates accept it. If a predicate or the handler panics, the
    /// panic is logged and counted, and the source continues with its next trigger.
    pub(crate) fn deliver(&self, trigger: &Trigger<O>, enqueuer: &Enqueuer<R>) {
        let delivered = catch_unwind(AssertUnwindSafe(|| {
            if self.predicates.iter().all(|predicate| predicate.holds(trigger)) {
                // A trigger that enqueues several requests has one cause, whose changed fields are compared
                // once.
                let may_compare = || enqueuer.causes.as_deref().is_some_and(CauseLog::may_compare);
                let cause = LazyCell::new(|| ReconcileCause::of(trigger, &self.kind, may_compare));
                let cause = || cause.clone();
                self.handler.handle(trigger, &mut enqueuer.enqueue_for(trigger.priority(), Some(&cause)));
            }
        }));
        if let Err(panic) = delivered {
            enqueuer.panics.fetch_add(1, Ordering::Relaxed);
            let (controller, key, panic) = (&*enqueuer.controller, trigger.key(), panic_text(&*panic));
            tracing::error!(controller, %key, panic, "a predicate or handler panicked; continuing with the next trigger");
        }
    }

    /// Delivers stored objects again, as if they were in an initial list. The requests that the handler adds
    /// therefore have a low priority.
    pub(crate) async fn replay(&self, objects: Vec<Arc<O>>, enqueuer: &Enqueuer<R>) {
        for batch in objects.chunks(REPLAY_BATCH) {
            for object in batch {
                let added = Event::Added { object: Arc::clone(object), initial: true };
                self.deliver(&Trigger::Event(added), enqueuer);
            }
            tokio::task::yield_now().await;
        }
    }
}

impl<O, R: ReconcileRequest> fmt::Debug for Route<O, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Route").field("predicates", &self.predicates.len()).finish_non_exhaustive()
    }
}

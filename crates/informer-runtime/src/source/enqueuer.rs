use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use informer_cache::Event;
use informer_core::Object;
use informer_core::panics::panic_text;
use informer_workqueue::WorkQueue;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::handler::{Enqueue, Handler, RequestFilter};
use crate::predicate::Predicate;
use crate::{ReconcileRequest, Request, Services, Trigger};

/// Gives a source access to its controller: to the queue, and to a task tracker. Clones refer to the same
/// controller.
pub struct Enqueuer<R: ReconcileRequest = Request> {
    pub(crate) controller: Arc<str>,
    pub(crate) queue: WorkQueue<R>,
    pub(crate) services: Services,
    pub(crate) stop: CancellationToken,
    pub(crate) tasks: TaskTracker,
    pub(crate) panics: Arc<AtomicU64>,
    pub(crate) deadline: Instant,
    /// If set, only requests for which this function returns true are enqueued. A sharded controller sets it
    /// to enqueue the requests of gained keys.
    pub(crate) only: Option<Arc<RequestFilter<R>>>,
}

impl<R: ReconcileRequest> Enqueuer<R> {
    /// Returns the name of the controller.
    pub fn controller(&self) -> &str {
        &self.controller
    }

    /// Returns the queue, with `priority` as the default priority of requests.
    pub fn enqueue(&self, priority: i32) -> Enqueue<'_, R> {
        Enqueue::new(&self.queue, priority).only(self.only.as_deref())
    }

    /// Returns the shared services of the manager.
    pub fn services(&self) -> &Services {
        &self.services
    }

    /// Returns how long the source may still take to deliver its initial objects. When this time has elapsed,
    /// a source should return its own, more specific error. One second later the controller stops waiting for
    /// the source.
    pub fn sync_within(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    /// Returns a token that is cancelled when the controller stops.
    pub fn stop(&self) -> &CancellationToken {
        &self.stop
    }

    /// Spawns a task that is dropped at its next await when the controller stops. If the task panics, the
    /// panic is logged and counted in [`trigger_panics`](crate::ControllerState::trigger_panics), and the
    /// controller keeps running.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let enqueuer = self.clone();
        self.tasks.spawn(async move {
            let task = enqueuer.contain("a task of a source", task);
            enqueuer.stop.run_until_cancelled(task).await
        });
    }

    /// Runs a task of a source, or the replay of a source's objects. If the future panics, the panic is
    /// logged and counted, and the controller keeps running.
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
        }
    }
}

impl<R: ReconcileRequest> fmt::Debug for Enqueuer<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Enqueuer").field("controller", &self.controller).finish_non_exhaustive()
    }
}

/// The number of objects that are delivered again between two yields to other tasks, so that the replay of a
/// large cache does not block its thread.
const REPLAY_BATCH: usize = 64;

/// The route of a trigger from a source to the queue: predicates, then the handler.
pub(crate) struct Route<O, R: ReconcileRequest> {
    predicates: Vec<Box<dyn Predicate<O>>>,
    handler: Box<dyn Handler<O, R>>,
}

impl<O: Object, R: ReconcileRequest> Route<O, R> {
    pub(crate) fn new(handler: impl Handler<O, R>) -> Self {
        Self { predicates: Vec::new(), handler: Box::new(handler) }
    }

    pub(crate) fn filter(&mut self, predicate: impl Predicate<O>) {
        self.predicates.push(Box::new(predicate));
    }

    /// Calls the handler if all predicates accept the trigger. A panic of a predicate or of the handler is
    /// logged and counted, and the next trigger is delivered.
    pub(crate) fn deliver(&self, trigger: &Trigger<O>, enqueuer: &Enqueuer<R>) {
        let delivered = catch_unwind(AssertUnwindSafe(|| {
            if self.predicates.iter().all(|predicate| predicate.holds(trigger)) {
                self.handler.handle(trigger, &mut enqueuer.enqueue(trigger.priority()));
            }
        }));
        if let Err(panic) = delivered {
            enqueuer.panics.fetch_add(1, Ordering::Relaxed);
            let (controller, key, panic) = (&*enqueuer.controller, trigger.key(), panic_text(&*panic));
            tracing::error!(controller, %key, panic, "a predicate or handler panicked; continuing with the next trigger");
        }
    }

    /// Delivers stored objects again, as if they were in an initial list, so that their requests have a low
    /// priority.
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

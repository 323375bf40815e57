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

use crate::handler::{Enqueue, Handler};
use crate::predicate::Predicate;
use crate::{ReconcileRequest, Request, Services, Trigger};

/// A controller as its sources see it: a queue to feed, and the place for their tasks. Clones mean the same controller.
pub struct Feed<R: ReconcileRequest = Request> {
    pub(crate) controller: Arc<str>,
    pub(crate) queue: WorkQueue<R>,
    pub(crate) services: Services,
    pub(crate) stop: CancellationToken,
    pub(crate) tasks: TaskTracker,
    pub(crate) panics: Arc<AtomicU64>,
    pub(crate) deadline: Instant,
    /// Lets only these requests through.
    pub(crate) only: Option<Arc<Only<R>>>,
}

/// Whether a request is let through.
pub(crate) type Only<R> = dyn Fn(&R) -> bool + Send + Sync;

impl<R: ReconcileRequest> Feed<R> {
    /// The name of the controller.
    pub fn controller(&self) -> &str {
        &self.controller
    }

    /// The queue, with a priority for what names none.
    pub fn enqueue(&self, priority: i32) -> Enqueue<'_, R> {
        Enqueue::new(&self.queue, priority).only(self.only.as_deref())
    }

    /// What the manager shares.
    pub fn services(&self) -> &Services {
        &self.services
    }

    /// How long the source may still take to deliver what was there at the beginning. One that gives up then, and says what it
    /// waited for, makes for a better error than a controller that gives up on it, a second later.
    pub fn sync_within(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    /// Cancelled when the controller stops.
    pub fn stop(&self) -> &CancellationToken {
        &self.stop
    }

    /// Runs a task until it ends or the controller stops; then it is dropped at its next await. Where it panics it is over, which is
    /// counted among the [`trigger_panics`](crate::ControllerState::trigger_panics) and logged; the controller goes on.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let feed = self.clone();
        self.tasks.spawn(async move {
            let task = feed.contain("a task of a source", task);
            feed.stop.run_until_cancelled(task).await
        });
    }

    /// Runs what is the program's own; a panic ends it and nothing else.
    pub(crate) async fn contain(&self, what: &str, work: impl Future<Output = ()>) {
        if let Err(panic) = AssertUnwindSafe(work).catch_unwind().await {
            self.panics.fetch_add(1, Ordering::Relaxed);
            let (controller, panic) = (&*self.controller, panic_text(&*panic));
            tracing::error!(controller, panic, "{what} panicked and is over");
        }
    }
}

impl<R: ReconcileRequest> Clone for Feed<R> {
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

impl<R: ReconcileRequest> fmt::Debug for Feed<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Feed").field("controller", &self.controller).finish_non_exhaustive()
    }
}

/// Between so many objects that are replayed, other tasks have their turn.
const REPLAY_BATCH: usize = 64;

/// The way of a trigger from a source into the queue: predicates, then the handler.
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

    /// Where the predicates hold, the handler is asked. A panic of either is contained.
    pub(crate) fn deliver(&self, trigger: &Trigger<O>, feed: &Feed<R>) {
        let delivered = catch_unwind(AssertUnwindSafe(|| {
            if self.predicates.iter().all(|predicate| predicate.holds(trigger)) {
                self.handler.handle(trigger, &mut feed.enqueue(trigger.priority()));
            }
        }));
        if let Err(panic) = delivered {
            feed.panics.fetch_add(1, Ordering::Relaxed);
            let (controller, key, panic) = (&*feed.controller, trigger.key(), panic_text(&*panic));
            tracing::error!(controller, %key, panic, "a predicate or handler panicked; the next trigger follows");
        }
    }

    /// Delivers objects as those of a first list.
    pub(crate) async fn replay(&self, objects: Vec<Arc<O>>, feed: &Feed<R>) {
        for batch in objects.chunks(REPLAY_BATCH) {
            for object in batch {
                let added = Event::Added { object: Arc::clone(object), initial: true };
                self.deliver(&Trigger::Event(added), feed);
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

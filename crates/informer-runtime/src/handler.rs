//! Event handlers. A handler maps a trigger (an added, updated or deleted object) to requests, which it adds
//! to a controller's queue.
//!
//! | handler | enqueues |
//! |---|---|
//! | [`enqueue_object`] | the object |
//! | [`enqueue_owner`] | its owners of one kind; with [`EnqueueOwner::only_controller`] its controller owner |
//! | [`map`] | the requests that a function returns |
//! | a closure `Fn(&Trigger<O>, &mut Enqueue<'_, R>)` | anything |
//!
//! For an update, owner and map handlers use the old and the new object, so that a former owner is notified,
//! too. Requests from initial lists and resyncs have [`LOW_PRIORITY`](informer_workqueue::LOW_PRIORITY), so
//! that changes are handled first.
//!
//! Upstream: [`handler`](https://pkg.go.dev/sigs.k8s.io/controller-runtime/pkg/handler).

mod map;
mod owner;
#[cfg(test)]
mod tests;

use std::fmt;
use std::time::Duration;

use informer_core::Object;
use informer_workqueue::{AddOptions, WorkQueue};
pub use map::{Map, Mapper, map};
pub use owner::{EnqueueOwner, enqueue_owner, enqueue_owner_of};

use crate::causes::CauseLog;
use crate::{ReconcileCause, ReconcileRequest, Request, Trigger};

/// Maps a trigger, such as a changed object, to the requests that a controller reconciles.
///
/// A handler runs in the task that delivers events, one trigger of a watch at a time, and must not block. If
/// it panics, the panic is counted and logged with the object's key, and the handler is called for the next
/// trigger.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not map events of `{O}` to `{R}`",
    label = "not a handler of a controller",
    note = "use `enqueue_object()`, `enqueue_owner::<K>()` or `map(|object: &{O}| ..)`",
    note = "a closure takes `&Trigger<{O}>` and `&mut Enqueue<'_, {R}>`"
)]
pub trait Handler<O, R: ReconcileRequest = Request>: Send + Sync + 'static {
    /// Adds the requests for `trigger` to the controller's queue, by calling methods of `enqueue`.
    fn handle(&self, trigger: &Trigger<O>, enqueue: &mut Enqueue<'_, R>);
}

impl<O, R, F> Handler<O, R> for F
where
    R: ReconcileRequest,
    F: Fn(&Trigger<O>, &mut Enqueue<'_, R>) + Send + Sync + 'static,
{
    fn handle(&self, trigger: &Trigger<O>, enqueue: &mut Enqueue<'_, R>) {
        self(trigger, enqueue);
    }
}

/// A filter that returns true for the requests that may be added to a controller's queue. When a replica of a
/// sharded controller gains keys, the filter accepts only requests with those keys.
pub(crate) type RequestFilter<R> = dyn Fn(&R) -> bool + Send + Sync;

/// Adds requests to the queue of a controller. Handlers and sources receive it as an argument.
pub struct Enqueue<'a, R: ReconcileRequest> {
    queue: &'a WorkQueue<R>,
    priority: i32,
    only: Option<&'a RequestFilter<R>>,
    causes: Option<CauseRecorder<'a, R>>,
}

/// The log that records the causes of added requests, and a function that creates the cause; `None` if the
/// program itself adds the requests. The cause is created only for a request, because many triggers enqueue
/// none.
#[derive(Clone, Copy)]
pub(crate) struct CauseRecorder<'a, R> {
    pub(crate) log: &'a CauseLog<R>,
    pub(crate) cause: Option<&'a (dyn Fn() -> ReconcileCause + 'a)>,
}

impl<'a, R: ReconcileRequest> Enqueue<'a, R> {
    /// Creates an adapter that adds requests to `queue`. They get `priority` unless another one is given.
    pub fn new(queue: &'a WorkQueue<R>, priority: i32) -> Self {
        Self { queue, priority, only: None, causes: None }
    }

    pub(crate) fn only(self, only: Option<&'a RequestFilter<R>>) -> Self {
        Self { only, ..self }
    }

    pub(crate) fn recording(self, causes: Option<CauseRecorder<'a, R>>) -> Self {
        Self { causes, ..self }
    }

    /// Returns the priority of requests that are added without an explicit one. In an event handler it
    /// depends on the event: objects of initial lists and resyncs have a lower priority than changes.
    pub fn priority(&self) -> i32 {
        self.priority
    }

    /// Adds a request with the default priority, which is that of the trigger. Has no effect after the
    /// controller stopped.
    pub fn add(&mut self, request: R) {
        self.add_with(request, AddOptions::new().priority(self.priority));
    }

    /// Adds a request after a delay, with the default priority, which is that of the trigger.
    pub fn add_after(&mut self, request: R, delay: Duration) {
        self.add_with(request, AddOptions::new().priority(self.priority).after(delay));
    }

    /// Adds a request with explicit `options`, for example with another priority than that of the trigger.
    pub fn add_with(&mut self, request: R, options: AddOptions) {
        if self.only.is_none_or(|only| only(&request)) {
            if let Some(CauseRecorder { log, cause }) = self.causes {
                match cause {
                    Some(cause) => log.record_event(&request, cause),
                    None => log.record(&request, ReconcileCause::Enqueued),
                }
            }
            self.queue.add_with(request, options);
        }
    }
}

impl<R: ReconcileRequest> fmt::Debug for Enqueue<'_, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Enqueue").field("priority", &self.priority).finish_non_exhaustive()
    }
}

/// Returns a handler that enqueues a request for the changed object itself.
pub fn enqueue_object() -> EnqueueObject {
    EnqueueObject
}

/// The handler returned by [`enqueue_object`]. It enqueues a request for the changed object itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EnqueueObject;

impl<O: Object> Handler<O> for EnqueueObject {
    fn handle(&self, trigger: &Trigger<O>, enqueue: &mut Enqueue<'_, Request>) {
        enqueue.add(Request::new(trigger.key().clone()));
    }
}

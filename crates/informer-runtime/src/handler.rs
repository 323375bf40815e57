//! What is to be looked at because something happened.
//!
//! | handler | puts into the queue |
//! |---|---|
//! | [`enqueue_object`] | the object itself |
//! | [`enqueue_owner`] | its owners of one kind; by [`EnqueueOwner::only_controller`] the one that manages it |
//! | [`map`] | what a function makes of the object |
//! | a closure `Fn(&Trigger<O>, &mut Enqueue<'_, R>)` | whatever it likes |
//!
//! Of an update, owner and map look at the old and at the new state, so that who lost the object is told, too. What follows from the
//! first list or a resync has [`LOW_PRIORITY`](informer_workqueue::LOW_PRIORITY), so that news come first.
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
pub use map::{Map, map};
pub use owner::{EnqueueOwner, enqueue_owner, enqueue_owner_of};

use crate::source::Only;
use crate::{ReconcileRequest, Request, Trigger};

/// Decides what is to be looked at because of a trigger.
///
/// It runs in the task that delivers events, one trigger of a watch at a time, and must not block. A panic is contained, counted
/// and logged with the key, and the next trigger follows.
pub trait Handler<O, R: ReconcileRequest = Request>: Send + Sync + 'static {
    /// Puts into `enqueue` what is to be looked at.
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

/// The queue of a controller, as handlers and sources see it.
pub struct Enqueue<'a, R: ReconcileRequest> {
    queue: &'a WorkQueue<R>,
    priority: i32,
    only: Option<&'a Only<R>>,
}

impl<'a, R: ReconcileRequest> Enqueue<'a, R> {
    /// Into this queue, with this priority unless the handler names another.
    pub fn new(queue: &'a WorkQueue<R>, priority: i32) -> Self {
        Self { queue, priority, only: None }
    }

    pub(crate) fn only(self, only: Option<&'a Only<R>>) -> Self {
        Self { only, ..self }
    }

    /// The priority with which requests are added unless told otherwise.
    pub fn priority(&self) -> i32 {
        self.priority
    }

    /// Adds a request, now, with the priority of the trigger. Does nothing after the controller stopped.
    pub fn add(&mut self, request: R) {
        self.add_with(request, AddOptions::new().priority(self.priority));
    }

    /// Adds a request after a delay, with the priority of the trigger.
    pub fn add_after(&mut self, request: R, delay: Duration) {
        self.add_with(request, AddOptions::new().priority(self.priority).after(delay));
    }

    /// Adds a request as `options` say; the priority of the trigger does not count.
    pub fn add_with(&mut self, request: R, options: AddOptions) {
        if self.only.is_none_or(|only| only(&request)) {
            self.queue.add_with(request, options);
        }
    }
}

impl<R: ReconcileRequest> fmt::Debug for Enqueue<'_, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Enqueue").field("priority", &self.priority).finish_non_exhaustive()
    }
}

/// The object itself is looked at.
pub fn enqueue_object() -> EnqueueObject {
    EnqueueObject
}

/// Made by [`enqueue_object`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EnqueueObject;

impl<O: Object> Handler<O> for EnqueueObject {
    fn handle(&self, trigger: &Trigger<O>, enqueue: &mut Enqueue<'_, Request>) {
        enqueue.add(Request::new(trigger.key().clone()));
    }
}

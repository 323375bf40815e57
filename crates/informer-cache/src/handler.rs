//! Event handlers: the trait, and adapters for closures.
//!
//! # Order and delivery
//!
//! A handler is called for one event at a time, in the order in which the cache changed. Handlers do not wait
//! for each other. When a handler is called, the cache already shows the state of the event or a later one. A
//! panic in a handler is contained: it is counted and logged with the object's key, and the next event
//! follows.
//!
//! # Threads
//!
//! [`on_event`] and [`HandlerFuncs`] run on a runtime thread and must not block it. A call that holds the
//! thread for longer than [`MAX_BLOCKING_TIME`] is counted and logged. Use [`blocking`] for code that blocks;
//! it runs on its own thread. Use [`on_event_async`] for code that awaits.

mod blocking;
mod funcs;

use std::fmt;
use std::future::Future;
use std::time::Duration;

pub use blocking::{Blocking, blocking};
pub use funcs::{Filtered, HandlerFuncs, filtered, handler_funcs};

use crate::Event;

/// If a call of a handler holds a runtime thread for longer than this time, the call is counted as blocking.
/// Two blocking handlers on a runtime with two threads stop all other tasks.
pub const MAX_BLOCKING_TIME: Duration = Duration::from_millis(100);

/// Receives every change of a cache.
///
/// Implement this trait for stateful handlers, or use [`on_event`], [`on_event_async`], [`handler_funcs`],
/// [`blocking`] and [`filtered`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not handle events of `{O}`",
    label = "not an event handler",
    note = "wrap a closure: `on_event(|event| ..)`, or `on_event_async(|event| async move {{ .. }})`",
    note = "for one callback per type of event, use `handler_funcs().on_add(..).on_update(..).on_delete(..)`"
)]
pub trait EventHandler<O>: Send + 'static {
    /// Handles one event. The next event is delivered when the returned future is ready.
    ///
    /// # Cancel safety
    ///
    /// The returned future is polled to completion unless the runtime shuts down. Stopping the informer does
    /// not cancel it.
    fn handle(&mut self, event: Event<O>) -> impl Future<Output = ()> + Send;
}

/// Returns a handler that calls a synchronous closure. The closure must not block.
///
/// A closure that reads the object of the event names its type. That of
/// [`SharedInformer::on_event`](crate::SharedInformer::on_event) needs no type.
///
/// ```
/// use informer_cache::{handler::on_event, testing::TestObject};
///
/// let handler = on_event(|event: informer_cache::Event<TestObject>| println!("{event}"));
/// # let _ = handler;
/// ```
pub fn on_event<O, F: FnMut(Event<O>) + Send + 'static>(callback: F) -> OnEvent<F> {
    OnEvent(callback)
}

/// Returns a handler that calls a closure and awaits the returned future. The closure of
/// [`SharedInformer::on_event_async`](crate::SharedInformer::on_event_async) needs no type.
pub fn on_event_async<O, F, R>(callback: F) -> OnEventAsync<F>
where
    F: FnMut(Event<O>) -> R + Send + 'static,
    R: Future<Output = ()> + Send,
{
    OnEventAsync(callback)
}

/// The handler returned by [`on_event`].
pub struct OnEvent<F>(F);

/// The handler returned by [`on_event_async`].
pub struct OnEventAsync<F>(F);

impl<O: Send + Sync + 'static, F: FnMut(Event<O>) + Send + 'static> EventHandler<O> for OnEvent<F> {
    fn handle(&mut self, event: Event<O>) -> impl Future<Output = ()> + Send {
        (self.0)(event);
        std::future::ready(())
    }
}

impl<O, F, R> EventHandler<O> for OnEventAsync<F>
where
    O: Send + Sync + 'static,
    F: FnMut(Event<O>) -> R + Send + 'static,
    R: Future<Output = ()> + Send,
{
    fn handle(&mut self, event: Event<O>) -> impl Future<Output = ()> + Send {
        (self.0)(event)
    }
}

impl<F> fmt::Debug for OnEvent<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OnEvent")
    }
}

impl<F> fmt::Debug for OnEventAsync<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OnEventAsync")
    }
}

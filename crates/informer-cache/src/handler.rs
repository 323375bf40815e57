//! What is told about changes: handlers and how they are called.
//!
//! # Order and delivery
//!
//! One handler is called for one event at a time, in the order of the cache; different handlers wait for nobody but
//! themselves. When it is called, the cache already shows the state of the event or a later one. A panic in a handler
//! is contained: it is counted, logged with the key, and the next event follows.
//!
//! # Threads
//!
//! [`on_event`] and [`HandlerFuncs`] run on a thread of the runtime and must not block it; a call that held one longer
//! than [`MAX_BLOCKING_TIME`] is counted and named. What has to block goes into [`blocking`], which gives it a thread of its
//! own; what waits for something asynchronous goes into [`on_event_async`].

mod blocking;
mod funcs;

use std::fmt;
use std::future::Future;
use std::time::Duration;

pub use blocking::{Blocking, blocking};
pub use funcs::{Filtered, HandlerFuncs, filtered, handler_funcs};

use crate::Event;

/// The longest time that a handler may hold a thread of the runtime before it is counted as blocking. A runtime of two
/// threads with two such handlers serves nobody else meanwhile.
pub const MAX_BLOCKING_TIME: Duration = Duration::from_millis(100);

/// Something that wants to know of every change in a cache.
///
/// Implement it for state of your own, or use [`on_event`], [`on_event_async`], [`handler_funcs`], [`blocking`] and
/// [`filtered`].
pub trait EventHandler<O>: Send + 'static {
    /// Handles one event. The next one is delivered when the future is ready.
    ///
    /// # Cancel safety
    ///
    /// The future is not dropped before it is ready unless the runtime shuts down: a stopped informer lets it finish.
    fn handle(&mut self, event: Event<O>) -> impl Future<Output = ()> + Send;
}

/// A handler from a closure that returns at once. It must not block.
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

/// A handler from a closure that returns a future.
pub fn on_event_async<O, F, R>(callback: F) -> OnEventAsync<F>
where
    F: FnMut(Event<O>) -> R + Send + 'static,
    R: Future<Output = ()> + Send,
{
    OnEventAsync(callback)
}

/// Made by [`on_event`].
pub struct OnEvent<F>(F);

/// Made by [`on_event_async`].
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

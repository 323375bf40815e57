//! The task that delivers events from the buffer of one listener to its handler.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Duration;

use futures_util::FutureExt;
use informer_core::Object;
use informer_core::panics::panic_text;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::ProcessorListener;
use crate::Event;
use crate::handler::{EventHandler, MAX_BLOCKING_TIME};

/// The maximum number of consecutive events that are delivered to a handler that never waits. After that, the
/// task yields, so that other tasks of its thread can run.
const MAX_BURST: u32 = 256;

/// The state of a burst: consecutive events that were delivered to a handler that did not wait between them.
/// After a long burst the task yields to other tasks.
#[derive(Default)]
struct Burst {
    events: u32,
    /// The duration of the call for the last event of the burst, while the event was not reported as
    /// finished. The event is counted when the next one is taken, so that the buffer is locked only once per
    /// event.
    unreported: Option<Duration>,
    /// The time at which the handler returned from the last event. The same time is used as the start of the
    /// next event, so that the clock is read only once per event.
    end: Option<Instant>,
}

impl<O: Object> ProcessorListener<O> {
    /// Delivers events to `handler` until the listener is closed or `cancel` is cancelled.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the event in flight, if there is one. Cancelling `cancel` lets the handler
    /// finish that event.
    pub async fn run<H: EventHandler<O>>(&self, handler: &mut H, cancel: &CancellationToken) {
        let mut burst = Burst::default();
        while !self.is_closed() && !cancel.is_cancelled() {
            let Some(event) = self.pop_next(burst.unreported) else {
                burst = Burst::default();
                self.wait(cancel).await;
                continue;
            };
            let begin = burst.end.unwrap_or_else(Instant::now);
            let end = self.deliver(handler, event, begin).await;
            let took = end - begin;
            burst = Burst { events: burst.events + 1, unreported: Some(took), end: Some(end) };
            if burst.events == MAX_BURST {
                self.finished_with_duration(took);
                burst = Burst::default();
                tokio::task::yield_now().await;
            }
        }
        if let Some(took) = burst.unreported {
            self.finished_with_duration(took);
        }
        // Several tasks may wait for events of this listener, and closing it wakes only one of them. Each
        // woken task therefore wakes the next one, so that all of them end.
        if self.is_closed() {
            self.wake.notify_one();
        }
    }

    /// Delivers the pending events to the handler and returns when no event is pending. Used by informers
    /// with a single handler, which is called by the task that writes the cache.
    pub(crate) async fn drain<H: EventHandler<O>>(&self, handler: &mut H) {
        while let Some(event) = self.pop() {
            let begin = Instant::now();
            let end = self.deliver(handler, event, begin).await;
            self.finished_with_duration(end - begin);
        }
    }

    pub(crate) async fn wait(&self, cancel: &CancellationToken) {
        // `notify_one` stores a permit if no task waits, so an event that is added before this line wakes the
        // task.
        tokio::select! {
            biased;
            () = cancel.cancelled() => {}
            () = self.wake.notified() => {}
        }
    }

    /// Delivers one event to the handler, and returns the time at which the handler has returned. `begin` is
    /// the time of the delivery, or the time at which the handler returned from the previous event.
    async fn deliver<H: EventHandler<O>>(&self, handler: &mut H, event: Event<O>, begin: Instant) -> Instant {
        let key = event.key().clone();
        // `catch_unwind` around the call catches panics in the synchronous part of a handler, which runs
        // before the handler returns its future.
        let called = catch_unwind(AssertUnwindSafe(|| handler.handle(event)));
        let outcome = match called {
            Ok(future) => AssertUnwindSafe(self.timed(future, &key, begin)).catch_unwind().await,
            Err(panic) => Err(panic),
        };
        outcome.unwrap_or_else(|panic| {
            self.panics.fetch_add(1, Ordering::Relaxed);
            let (informer, handler, panic) = (&*self.informer, &*self.name, panic_text(&*panic));
            tracing::error!(
                informer,
                handler,
                %key,
                panic,
                "a handler panicked; continuing with the next event"
            );
            Instant::now()
        })
    }

    /// Polls a handler's future to completion, records polls that blocked the thread for too long, and
    /// returns the time at which the last poll ended. The synchronous call that creates the future counts as
    /// part of the first poll.
    async fn timed(
        &self,
        future: impl Future<Output = ()>,
        key: &informer_core::ObjectKey,
        begin: Instant,
    ) -> Instant {
        let (mut future, mut begin) = (pin!(future), Some(begin));
        std::future::poll_fn(|context| {
            let begin = begin.take().unwrap_or_else(Instant::now);
            let poll: Poll<()> = future.as_mut().poll(context);
            let end = Instant::now();
            self.note_blocked(end - begin, key);
            poll.map(|()| end)
        })
        .await
    }

    fn note_blocked(&self, held: Duration, key: &informer_core::ObjectKey) {
        if held > MAX_BLOCKING_TIME {
            self.blocked.fetch_add(1, Ordering::Relaxed);
            let (informer, handler) = (&*self.informer, &*self.name);
            tracing::warn!(informer, handler, %key, ?held, "a handler blocked a thread of the runtime; use `blocking(..)`");
        }
    }
}

//! The task of one listener.

use std::any::Any;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::atomic::Ordering;
use std::task::Poll;

use futures_util::FutureExt;
use informer_core::Object;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::ProcessorListener;
use crate::Event;
use crate::handler::{BLOCKED_MAX, EventHandler};

/// How many events in a row a handler that never waits is given before the task lets others run.
const BURST_MAX: u32 = 256;

impl<O: Object> ProcessorListener<O> {
    /// Delivers events to `handler` until the listener is closed or `cancel` is cancelled.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the event in flight, if there is one; cancelling the token does not.
    pub async fn run<H: EventHandler<O>>(&self, handler: &mut H, cancel: &CancellationToken) {
        let mut burst = 0;
        while !self.is_closed() && !cancel.is_cancelled() {
            let Some(event) = self.pop() else {
                burst = 0;
                self.wait(cancel).await;
                continue;
            };
            self.deliver(handler, event).await;
            burst += 1;
            if burst == BURST_MAX {
                burst = 0;
                tokio::task::yield_now().await;
            }
        }
        // Several may wait, and closing wakes one of them: each passes it on.
        if self.is_closed() {
            self.wake.notify_one();
        }
    }

    /// Delivers what waits, and returns when nothing does: the way of an informer whose loop calls its handler itself.
    pub(crate) async fn drain<H: EventHandler<O>>(&self, handler: &mut H) {
        while let Some(event) = self.pop() {
            self.deliver(handler, event).await;
        }
    }

    pub(crate) async fn wait(&self, cancel: &CancellationToken) {
        // `notify_one` leaves a permit where nobody waits, so an event added before this line wakes it.
        tokio::select! {
            biased;
            () = cancel.cancelled() => {}
            () = self.wake.notified() => {}
        }
    }

    async fn deliver<H: EventHandler<O>>(&self, handler: &mut H, event: Event<O>) {
        let key = event.key().clone();
        // The part of a handler before its future runs here, too.
        let called = catch_unwind(AssertUnwindSafe(|| {
            let begin = Instant::now();
            let future = handler.handle(event);
            self.note_blocked(begin, &key);
            future
        }));
        let outcome = match called {
            Ok(future) => AssertUnwindSafe(self.timed(future, &key)).catch_unwind().await,
            Err(panic) => Err(panic),
        };
        if let Err(panic) = outcome {
            self.panics.fetch_add(1, Ordering::Relaxed);
            let text = panic_text(&*panic);
            tracing::error!(handler = %self.name, %key, panic = text, "a handler panicked; the next event follows");
        }
        self.finished();
    }

    /// Polls a handler's future and notes polls that held the thread for too long.
    async fn timed(&self, future: impl Future<Output = ()>, key: &informer_core::ObjectKey) {
        let mut future = pin!(future);
        std::future::poll_fn(|context| {
            let begin = Instant::now();
            let poll: Poll<()> = future.as_mut().poll(context);
            self.note_blocked(begin, key);
            poll
        })
        .await;
    }

    fn note_blocked(&self, begin: Instant, key: &informer_core::ObjectKey) {
        let held = begin.elapsed();
        if held > BLOCKED_MAX {
            self.blocked.fetch_add(1, Ordering::Relaxed);
            tracing::warn!(handler = %self.name, %key, ?held, "a handler blocked a thread of the runtime; use `blocking(..)`");
        }
    }
}

pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> &str {
    match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
        (Some(text), _) => text,
        (_, Some(text)) => text,
        _ => "(no text)",
    }
}

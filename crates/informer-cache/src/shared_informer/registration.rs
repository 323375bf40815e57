//! Handlers that come and go.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_core::Stream;
use informer_core::Object;
use tokio::sync::{Mutex as AsyncMutex, watch};
use tokio_util::sync::CancellationToken;

use super::core::Shared;
use crate::handler::EventHandler;
use crate::listener::ProcessorListener;
use crate::sync::{CacheSynced, SyncError, Unsynced};
use crate::{Event, HandlerOptions, HandlerState};

/// How many handlers an informer takes, streams of events among them: each one costs a buffer and most a task, and a program
/// that adds them in a loop should hear of it.
pub const MAX_HANDLERS: usize = 10_000;

/// A handler with its listener: what a run needs of it.
pub(super) trait Attached<O: Object>: Send + Sync {
    fn listener(&self) -> &Arc<ProcessorListener<O>>;

    /// The task that delivers until the listener closes or the run ends. `None`: somebody else takes the events out.
    fn deliver(
        self: Arc<Self>,
        cancel: CancellationToken,
    ) -> Option<Pin<Box<dyn Future<Output = ()> + Send>>>;

    /// Resolves when no delivery is going on.
    fn idle(self: Arc<Self>) -> Pin<Box<dyn Future<Output = ()> + Send>>;
}

/// A handler that the pump has yet to take in.
pub(super) struct Joining<O> {
    pub(super) listener: Arc<ProcessorListener<O>>,
    pub(super) resync: Option<Duration>,
}

struct Handled<O, H> {
    listener: Arc<ProcessorListener<O>>,
    /// A run has it from beginning to end, as it has the core.
    handler: AsyncMutex<H>,
}

impl<O: Object, H: EventHandler<O>> Attached<O> for Handled<O, H> {
    fn listener(&self) -> &Arc<ProcessorListener<O>> {
        &self.listener
    }

    fn deliver(
        self: Arc<Self>,
        cancel: CancellationToken,
    ) -> Option<Pin<Box<dyn Future<Output = ()> + Send>>> {
        Some(Box::pin(async move {
            let mut handler = self.handler.lock().await;
            self.listener.run(&mut *handler, &cancel).await;
        }))
    }

    fn idle(self: Arc<Self>) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        // A delivery has the handler from beginning to end.
        Box::pin(async move { drop(self.handler.lock().await) })
    }
}

/// A stream: its owner takes the events out.
struct Streamed<O> {
    listener: Arc<ProcessorListener<O>>,
}

impl<O: Object> Attached<O> for Streamed<O> {
    fn listener(&self) -> &Arc<ProcessorListener<O>> {
        &self.listener
    }

    fn deliver(self: Arc<Self>, _: CancellationToken) -> Option<Pin<Box<dyn Future<Output = ()> + Send>>> {
        None
    }

    fn idle(self: Arc<Self>) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(std::future::ready(()))
    }
}

/// A handler or a stream of events could not be added.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "informer {informer}: it has {MAX_HANDLERS} handlers and streams; remove some, or serve several needs with one"
)]
pub struct AddHandlerError {
    informer: String,
}

pub(super) fn add<O: Object>(
    shared: &Arc<Shared<O>>,
    options: HandlerOptions,
    handler: impl EventHandler<O>,
) -> Result<HandlerRegistration<O>, AddHandlerError> {
    let listener = listener(shared, &options);
    let attached = Arc::new(Handled { listener: Arc::clone(&listener), handler: AsyncMutex::new(handler) });
    attach(shared, attached, &options)?;
    Ok(HandlerRegistration { listener, shared: Arc::clone(shared) })
}

pub(super) fn stream<O: Object>(
    shared: &Arc<Shared<O>>,
    options: HandlerOptions,
) -> Result<EventStream<O>, AddHandlerError> {
    let listener = listener(shared, &options);
    attach(shared, Arc::new(Streamed { listener: Arc::clone(&listener) }), &options)?;
    let registration = HandlerRegistration { listener, shared: Arc::clone(shared) };
    Ok(EventStream { registration, wait: None })
}

fn listener<O: Object>(shared: &Shared<O>, options: &HandlerOptions) -> Arc<ProcessorListener<O>> {
    let number = shared.next_handler.fetch_add(1, Ordering::Relaxed);
    let name = options.name.clone().unwrap_or_else(|| format!("handler-{number}"));
    Arc::new(ProcessorListener::new(name, options).of_informer(&*shared.name))
}

/// The one way in. There is room or there is not in the same hold of the lock in which a handler takes its place, so that no two
/// take the last one. What is refused is dropped by the caller, outside of the locks: its `drop` is not ours.
fn attach<O: Object>(
    shared: &Shared<O>,
    attached: Arc<dyn Attached<O>>,
    options: &HandlerOptions,
) -> Result<(), AddHandlerError> {
    let resync = options.resync.or(shared.resync);
    let listener = Arc::clone(attached.listener());
    let lifecycle = shared.lifecycle.lock();
    let mut all = shared.attached.lock();
    if all.len() >= MAX_HANDLERS {
        drop((all, lifecycle));
        return Err(AddHandlerError { informer: shared.name.clone() });
    }
    if let Some(run) = lifecycle.running() {
        run.deliver_to(&attached);
    }
    all.push(attached);
    drop(all);
    shared.joining.lock().push(Joining { listener, resync });
    drop(lifecycle);
    shared.handlers_changed.notify_one();
    Ok(())
}

/// One handler of an informer. Dropping it changes nothing; [`remove`](Self::remove) takes the handler away.
pub struct HandlerRegistration<O: Object> {
    listener: Arc<ProcessorListener<O>>,
    shared: Arc<Shared<O>>,
}

impl<O: Object> HandlerRegistration<O> {
    /// True once the handler has handled every object of the first list, or of what the cache held when it came.
    pub fn has_synced(&self) -> bool {
        self.listener.has_synced()
    }

    /// Waits until [`has_synced`](Self::has_synced).
    ///
    /// # Errors
    ///
    /// After `timeout`: how far the handler is, and what the informer does.
    pub async fn wait_for_sync(&self, timeout: Duration) -> Result<(), SyncError> {
        crate::sync::wait_for_cache_sync([self as &dyn CacheSynced], timeout).await
    }

    /// Takes the handler away: no call begins after this returns; the one in flight, if there is one, finishes. What waits
    /// is dropped. A second call does nothing. A handler may remove itself.
    pub fn remove(&self) {
        // Outside of every lock: this may be the end of the handler, and its `drop` is not ours.
        drop(self.take());
    }

    /// As [`remove`](Self::remove), and waits until the call in flight, if there is one, has returned. A handler must not
    /// await it, since it would wait for itself.
    ///
    /// # Cancel safety
    ///
    /// The handler is removed when the future is first polled; dropping it after that only ends the wait.
    pub async fn remove_and_wait(&self) {
        if let Some(attached) = self.take() {
            attached.idle().await;
        }
    }

    fn take(&self) -> Option<Arc<dyn Attached<O>>> {
        self.listener.close();
        let removed = {
            let mut attached = self.shared.attached.lock();
            let ours = attached.iter().position(|each| Arc::ptr_eq(each.listener(), &self.listener));
            ours.map(|index| attached.remove(index))
        };
        self.shared.joining.lock().retain(|joining| !Arc::ptr_eq(&joining.listener, &self.listener));
        self.shared.handlers_changed.notify_one();
        removed
    }

    /// Depth, calls, panics.
    pub fn state(&self) -> HandlerState {
        self.listener.state()
    }
}

impl<O: Object> CacheSynced for HandlerRegistration<O> {
    fn synced(&self) -> watch::Receiver<bool> {
        self.listener.subscribe_synced()
    }

    fn describe(&self) -> Unsynced {
        let informer = self.shared.unsynced();
        let HandlerState { name, depth, calls, .. } = self.listener.state();
        let doing = match *self.shared.synced.borrow() {
            true => format!("behind by {depth} events after {calls} calls"),
            false => format!("waiting for its informer, which is {}", informer.doing),
        };
        Unsynced::new(format!("handler {name} of {}", informer.name), doing, informer.last_error)
    }
}

impl<O: Object> fmt::Debug for HandlerRegistration<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HandlerRegistration").field("state", &self.listener.state()).finish_non_exhaustive()
    }
}

/// The events of an informer as a stream. While the informer is stopped it yields what it had been told before, then
/// waits: the informer may start again. It ends when its [`registration`](Self::registration) is removed.
///
/// Events wait in a buffer of the stream's own, by its [`BufferPolicy`](crate::BufferPolicy), until they are taken.
#[must_use = "a stream of events does nothing unless it is polled, and its buffer grows"]
pub struct EventStream<O: Object> {
    registration: HandlerRegistration<O>,
    /// The wait for the next event, while there is none.
    wait: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl<O: Object> EventStream<O> {
    /// The stream as a handler, to be asked whether it is synced.
    pub fn registration(&self) -> &HandlerRegistration<O> {
        &self.registration
    }

    /// The next event.
    ///
    /// # Cancel safety
    ///
    /// A dropped future loses no event.
    pub async fn next(&mut self) -> Option<Event<O>> {
        std::future::poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await
    }
}

impl<O: Object> Stream for EventStream<O> {
    type Item = Event<O>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Event<O>>> {
        loop {
            if let Some(event) = self.registration.listener.pop() {
                self.wait = None;
                // Handing it out is all the handling that the buffer sees.
                self.registration.listener.finished();
                return Poll::Ready(Some(event));
            }
            if self.registration.listener.is_closed() {
                return Poll::Ready(None);
            }
            let listener = Arc::clone(&self.registration.listener);
            let wait = self.wait.get_or_insert_with(|| {
                Box::pin(async move { listener.wait(&CancellationToken::new()).await })
            });
            match wait.as_mut().poll(context) {
                Poll::Ready(()) => self.wait = None,
                Poll::Pending => return Poll::Pending,
            }
        }
    }
}

impl<O: Object> Drop for EventStream<O> {
    fn drop(&mut self) {
        self.registration.remove();
    }
}

impl<O: Object> fmt::Debug for EventStream<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("EventStream").field(&self.registration).finish()
    }
}

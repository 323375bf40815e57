//! Registrations of handlers and event streams at a shared informer.

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

use super::core::InformerCore;
use crate::handler::EventHandler;
use crate::listener::ProcessorListener;
use crate::sync::{CacheSynced, SyncError, Unsynced};
use crate::{Event, HandlerOptions, HandlerState};

/// The maximum number of handlers and event streams of an informer. Each handler or stream has a buffer and
/// usually a task; the limit detects programs that add handlers in a loop.
pub const MAX_HANDLERS: usize = 10_000;

/// A handler or an event stream of an informer, together with its listener. The trait hides the type of the
/// handler, so that one list can contain all handlers of the informer.
pub(super) trait Attached<O: Object>: Send + Sync {
    fn listener(&self) -> &Arc<ProcessorListener<O>>;

    /// Returns a task that delivers events to the handler until the listener is closed or the run of the
    /// informer ends. Returns `None` for a stream, whose owner takes the events itself.
    fn deliver(
        self: Arc<Self>,
        cancel: CancellationToken,
    ) -> Option<Pin<Box<dyn Future<Output = ()> + Send>>>;

    /// Returns a future that resolves when no task delivers events to the handler, so that no call of the
    /// handler is in flight. It is used to wait for the end of a removed handler.
    fn idle(self: Arc<Self>) -> Pin<Box<dyn Future<Output = ()> + Send>>;
}

/// A new handler or stream whose listener the pump's task has not added to the processor yet. The task adds
/// it between two batches of changes.
pub(super) struct Joining<O> {
    pub(super) listener: Arc<ProcessorListener<O>>,
    pub(super) resync: Option<Duration>,
}

struct Handled<O, H> {
    listener: Arc<ProcessorListener<O>>,
    /// The handler. A delivery task holds this lock from its start to its end, so that at most one task calls
    /// the handler.
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
        // A delivery task holds the lock of the handler from its start to its end, so locking `handler` waits
        // until that task has ended.
        Box::pin(async move { drop(self.handler.lock().await) })
    }
}

/// An event stream registered at the informer. The owner of the stream takes the events itself.
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

/// The error for a handler or an event stream that could not be added to an informer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "informer {informer}: it has {MAX_HANDLERS} handlers and streams; remove some, or serve several needs with one"
)]
pub struct AddHandlerError {
    informer: String,
}

pub(super) fn add<O: Object>(
    shared: &Arc<InformerCore<O>>,
    options: HandlerOptions,
    handler: impl EventHandler<O>,
) -> Result<HandlerRegistration<O>, AddHandlerError> {
    let listener = listener(shared, &options);
    let attached = Arc::new(Handled { listener: Arc::clone(&listener), handler: AsyncMutex::new(handler) });
    attach(shared, attached, &options)?;
    Ok(HandlerRegistration { listener, shared: Arc::clone(shared) })
}

pub(super) fn stream<O: Object>(
    shared: &Arc<InformerCore<O>>,
    options: HandlerOptions,
) -> Result<EventStream<O>, AddHandlerError> {
    let listener = listener(shared, &options);
    attach(shared, Arc::new(Streamed { listener: Arc::clone(&listener) }), &options)?;
    let registration = HandlerRegistration { listener, shared: Arc::clone(shared) };
    Ok(EventStream { registration, wait: None })
}

fn listener<O: Object>(shared: &InformerCore<O>, options: &HandlerOptions) -> Arc<ProcessorListener<O>> {
    let number = shared.next_handler.fetch_add(1, Ordering::Relaxed);
    let name = options.name.clone().unwrap_or_else(|| format!("handler-{number}"));
    Arc::new(ProcessorListener::new(name, options).of_informer(&*shared.name))
}

/// Adds a handler or a stream to the informer. The limit is checked and the handler added under one lock, so
/// that two callers cannot both take the last slot. The caller drops a rejected handler outside of the locks,
/// because its `drop` is user code.
fn attach<O: Object>(
    shared: &InformerCore<O>,
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

/// The registration of one handler. Dropping the registration does not remove the handler;
/// [`remove`](Self::remove) does.
pub struct HandlerRegistration<O: Object> {
    listener: Arc<ProcessorListener<O>>,
    shared: Arc<InformerCore<O>>,
}

impl<O: Object> HandlerRegistration<O> {
    /// Returns true once the handler has handled every object of the informer's first list. For a handler
    /// that was added later, these are the objects that were cached at that time.
    pub fn has_synced(&self) -> bool {
        self.listener.has_synced()
    }

    /// Waits until [`has_synced`](Self::has_synced) is true.
    ///
    /// # Errors
    ///
    /// Returns an error after `timeout`. The error contains the progress of the handler and the current
    /// activity of the informer.
    pub async fn wait_for_sync(&self, timeout: Duration) -> Result<(), SyncError> {
        crate::sync::wait_for_cache_sync([self as &dyn CacheSynced], timeout).await
    }

    /// Removes the handler from the informer. No call of the handler begins after this method returns; a call
    /// in flight finishes. Pending events of the handler are dropped. A second call has no effect. A handler
    /// may remove itself.
    pub fn remove(&self) {
        // The handler is dropped outside of every lock, because its `drop` is user code.
        drop(self.take());
    }

    /// Removes the handler like [`remove`](Self::remove), then waits until a call in flight has returned. A
    /// handler must not await this for itself, since it would never resolve.
    ///
    /// # Cancel safety
    ///
    /// The handler is removed when the future is first polled. Dropping the future after that only ends the
    /// wait.
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

    /// Returns the number of pending events of the handler, and its numbers of calls and panics.
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
        let doing = if *self.shared.synced.borrow() {
            format!("behind by {depth} events after {calls} calls")
        } else {
            format!("waiting for its informer, which is {}", informer.doing)
        };
        Unsynced::new(format!("handler {name} of {}", informer.name), doing, informer.last_error)
    }
}

impl<O: Object> fmt::Debug for HandlerRegistration<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HandlerRegistration").field("state", &self.listener.state()).finish_non_exhaustive()
    }
}

/// The events of an informer as a stream. While the informer is stopped, the stream yields the pending
/// events, then waits, since the informer may start again. The stream ends when its
/// [`registration`](Self::registration) is removed.
///
/// Pending events are buffered for each stream according to its [`BufferPolicy`](crate::BufferPolicy).
#[must_use = "a stream of events does nothing unless it is polled, and its buffer grows"]
pub struct EventStream<O: Object> {
    registration: HandlerRegistration<O>,
    /// The future that waits for the next event of the stream. It is set while the buffer is empty.
    wait: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl<O: Object> EventStream<O> {
    /// Returns the registration of the stream, for example to check whether the stream has synced.
    pub fn registration(&self) -> &HandlerRegistration<O> {
        &self.registration
    }

    /// Waits for the next event; `None` once the stream's registration was removed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future of `next` loses no event.
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
                // An event of a stream counts as handled once it is returned to the owner of the stream,
                // since the informer cannot know when the owner has processed it.
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

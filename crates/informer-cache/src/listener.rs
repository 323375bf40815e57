//! One handler's side of an informer: its buffer, and the task that empties it into the handler.
//!
//! # Invariants
//!
//! 1. Events reach the handler in the order in which they were added, one at a time.
//! 2. A handler is synced once the informer's first list was added in full and every initial event that was added has
//!    returned, whether by success or by panic, or was taken back by a coalesced delete.
//! 3. After [`ProcessorListener::close`] no call begins; the one in flight finishes.
//!
//! # Lock order
//!
//! The lock around the buffer, then that of `synced` inside tokio. Neither is held while the handler runs.
//!
//! # Shutdown
//!
//! `run` ends when the listener is closed or its token is cancelled, after the call in flight, and hands the handler back,
//! so that a restarted informer goes on with it. What was not delivered stays in the buffer and is delivered first in
//! the next run: the cache is kept, too, and the handler's view must not miss a step. A closed listener drops it.

mod buffer;
mod coalesce;
mod run;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

pub use buffer::{EventBatch, ListenerBuffer};
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

use crate::Event;

/// What a slow handler's buffer does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum BufferPolicy {
    /// Every event is delivered; the buffer grows as long as the handler is slower than the changes. Its depth is a
    /// metric, and a warning is logged at the high-water mark and at each doubling of it.
    #[default]
    Unbounded,
    /// Pending changes of one key merge: oldest old, newest new. The memory is bounded by the number of keys that the
    /// handler knows or that are in the cache.
    ///
    /// What is promised is the difference: at rest, what the handler was told adds up to what is in the cache, and a delete of
    /// what it was told of is never lost. It is no record of what the cache has shown meanwhile: an object that came and went
    /// before the handler was told of it is not mentioned, and to announce its deletion alone would announce the end of
    /// something that never began. So what acts upon the cache and not upon the events must not merge here: the workers of a
    /// queue may have seen that object, for an earlier event of its key, and nobody would call them again. Handlers that feed a
    /// work queue take [`HandlerOptions::for_work_queue`]; the sources of controllers do.
    Coalesce,
}

/// How a handler wants to be served.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct HandlerOptions {
    /// The name in logs, states and metrics; by default `handler-N`.
    pub name: Option<String>,
    /// How often every object is told again. `None`: the informer's default; zero: never. Periods under
    /// [`MIN_RESYNC_PERIOD`](crate::MIN_RESYNC_PERIOD) are raised to it.
    pub resync: Option<Duration>,
    /// What happens while the handler is slow.
    pub buffer: BufferPolicy,
    /// The depth at which a warning is logged.
    pub high_water: usize,
}

/// The depth at which a handler's buffer is reported: at 100,000 pending events something is wrong, and it costs some
/// megabytes, not yet the process.
const DEFAULT_HIGH_WATER: usize = 100_000;

impl Default for HandlerOptions {
    fn default() -> Self {
        Self { name: None, resync: None, buffer: BufferPolicy::default(), high_water: DEFAULT_HIGH_WATER }
    }
}

impl HandlerOptions {
    /// For a handler that only puts keys into a work queue: it is told of everything, whatever the defaults are, since what is
    /// merged away here could have been seen by a worker (see [`BufferPolicy::Coalesce`]). The queue merges, and its memory is
    /// bounded by the number of keys; the buffer before it stays as good as empty, since such a handler does not wait.
    ///
    /// ```
    /// use informer_cache::{BufferPolicy, HandlerOptions};
    ///
    /// assert_eq!(HandlerOptions::for_work_queue().name("queue").buffer, BufferPolicy::Unbounded);
    /// ```
    pub fn for_work_queue() -> Self {
        Self { buffer: BufferPolicy::Unbounded, ..Self::default() }
    }

    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the name.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Sets the resync period; zero for never.
    pub fn resync(mut self, period: Duration) -> Self {
        self.resync = Some(period);
        self
    }

    /// Sets what happens while the handler is slow.
    pub fn buffer(mut self, policy: BufferPolicy) -> Self {
        self.buffer = policy;
        self
    }

    /// Sets the depth at which a warning is logged.
    pub fn high_water(mut self, depth: usize) -> Self {
        self.high_water = depth;
        self
    }
}

/// A handler's buffer and its counters, shared by the processor that fills it and the task that empties it.
pub struct ProcessorListener<O> {
    name: String,
    /// The name of the informer in logs.
    informer: Arc<str>,
    buffer: Mutex<Held<O>>,
    wake: Notify,
    synced: watch::Sender<bool>,
    closed: AtomicBool,
    calls: AtomicU64,
    panics: AtomicU64,
    blocked: AtomicU64,
}

/// A buffer, and what was last said of it.
struct Held<O> {
    buffer: ListenerBuffer<O>,
    synced: bool,
}

/// What a listener did so far, as [`InformerState`](crate::InformerState) shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct HandlerState {
    /// The handler's name.
    pub name: String,
    /// Events that wait.
    pub depth: usize,
    /// The largest depth so far.
    pub max_depth: usize,
    /// Calls that returned.
    pub calls: u64,
    /// Calls that panicked.
    pub panics: u64,
    /// Calls that held a runtime thread for longer than [`MAX_BLOCKING_TIME`](crate::handler::MAX_BLOCKING_TIME).
    pub blocked: u64,
    /// True once every object of the first list was handled.
    pub synced: bool,
}

impl<O> ProcessorListener<O> {
    /// A listener with an empty buffer.
    pub fn new(name: String, options: &HandlerOptions) -> Self {
        Self {
            name,
            informer: Arc::default(),
            buffer: Mutex::new(Held {
                buffer: ListenerBuffer::new(options.buffer, options.high_water),
                synced: false,
            }),
            wake: Notify::new(),
            synced: watch::Sender::new(false),
            closed: AtomicBool::new(false),
            calls: AtomicU64::new(0),
            panics: AtomicU64::new(0),
            blocked: AtomicU64::new(0),
        }
    }

    /// Sets the name of the informer. Warnings carry it alongside the name of the handler.
    #[must_use]
    pub fn of_informer(mut self, informer: impl Into<Arc<str>>) -> Self {
        self.informer = informer.into();
        self
    }

    /// The handler's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Events to deliver, shared with the other listeners.
    pub fn add(&self, batch: &Arc<EventBatch<O>>)
    where
        O: informer_core::Object,
    {
        let warning = {
            let mut held = self.buffer.lock();
            // Under the lock: `close` empties the buffer after it has said so, and nothing may come in behind it.
            if self.is_closed() {
                return;
            }
            held.buffer.push(batch);
            // What is taken back needs no handling any more.
            self.publish(&mut held);
            held.buffer.high_water_crossed()
        };
        if let Some(depth) = warning {
            let (informer, handler) = (&*self.informer, &*self.name);
            tracing::warn!(
                informer,
                handler,
                depth,
                "a slow handler: its buffer is at a new high-water mark"
            );
        }
        self.wake.notify_one();
    }

    /// Says that all initial events were added.
    pub fn initial_complete(&self) {
        let mut held = self.buffer.lock();
        held.buffer.initial_complete();
        self.publish(&mut held);
    }

    /// A new run begins: the handler is not synced until the run says so. What waits stays.
    pub fn begin_run(&self) {
        let mut held = self.buffer.lock();
        held.buffer.begin_run();
        self.publish(&mut held);
    }

    /// Ends delivery for good and drops what waits.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.wake.notify_one();
        let pending = self.buffer.lock().buffer.take_pending();
        drop(pending);
    }

    /// True after [`close`](Self::close).
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// True once every initial event was handled.
    pub fn has_synced(&self) -> bool {
        *self.synced.borrow()
    }

    pub(crate) fn subscribe_synced(&self) -> watch::Receiver<bool> {
        self.synced.subscribe()
    }

    /// The counters.
    pub fn state(&self) -> HandlerState {
        let (depth, max_depth) = {
            let held = self.buffer.lock();
            (held.buffer.depth(), held.buffer.max_depth())
        };
        HandlerState {
            name: self.name.clone(),
            depth,
            max_depth,
            calls: self.calls.load(Ordering::Relaxed),
            panics: self.panics.load(Ordering::Relaxed),
            blocked: self.blocked.load(Ordering::Relaxed),
            synced: self.has_synced(),
        }
    }

    /// The next event, if one waits. [`finished`](Self::finished) follows once it was handled.
    pub fn pop(&self) -> Option<Event<O>>
    where
        O: informer_core::Object,
    {
        self.pop_next(false)
    }

    /// The event that `pop` returned was handled.
    pub fn finished(&self) {
        self.finish(&mut self.buffer.lock());
    }

    /// Both: the event in flight was handled, if there is one, and what is next?
    fn pop_next(&self, in_flight: bool) -> Option<Event<O>>
    where
        O: informer_core::Object,
    {
        let mut held = self.buffer.lock();
        if in_flight {
            self.finish(&mut held);
        }
        let event = held.buffer.pop();
        // An event that was in flight when its delivery was dropped is waited for no more.
        self.publish(&mut held);
        event
    }

    fn finish(&self, held: &mut Held<O>) {
        held.buffer.finished();
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.publish(held);
    }

    /// Under the lock: two that publish what they saw after they have let go of it could do so in the wrong order.
    fn publish(&self, held: &mut Held<O>) {
        let synced = held.buffer.is_synced();
        if std::mem::replace(&mut held.synced, synced) != synced {
            self.synced.send_replace(synced);
        }
    }
}

impl<O> fmt::Debug for ProcessorListener<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProcessorListener").field("state", &self.state()).finish_non_exhaustive()
    }
}

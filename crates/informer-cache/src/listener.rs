//! The listener of one handler: a buffer of events, and the task that delivers them to the handler.
//!
//! # Invariants
//!
//! 1. Events reach the handler in the order in which they were added, one at a time.
//! 2. A handler is synced once all objects of the informer's first list were added to its buffer and every
//!    initial event was handled (with or without a panic) or was removed by a coalesced delete.
//! 3. After [`ProcessorListener::close`] no call of the handler begins; a call in flight finishes.
//!
//! # Lock order
//!
//! The lock of the buffer is taken first, then the internal lock of `synced`, a tokio `watch` channel.
//! Neither is held while the handler runs.
//!
//! # Shutdown
//!
//! `run` ends when the listener is closed or its token is cancelled, after the call in flight. The caller
//! keeps the handler, so that a restarted informer continues with it. Undelivered events stay in the buffer
//! and are delivered first in the next run, because the cache is kept too and the handler must not miss an
//! event. A closed listener drops undelivered events.

mod buffer;
mod coalesce;
mod latency;
mod run;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

pub use buffer::{EventBatch, ListenerBuffer};
pub use latency::HandlerLatency;
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

use crate::Event;

/// The policies for the buffer of a handler that is slower than the changes of the cache.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum BufferPolicy {
    /// Every event is delivered. The buffer grows while the handler is slower than the changes. The depth of
    /// the buffer is a metric, and a warning is logged when the depth reaches the high-water mark and at each
    /// doubling.
    #[default]
    Unbounded,
    /// Pending changes of one object are merged into one event with the oldest old state and the newest new
    /// state. A delete and the add of another object with the same key stay two events. The memory is bounded
    /// by the number of keys that the handler has seen or that are in the cache.
    ///
    /// This policy guarantees only the difference: once the buffer is empty, the delivered events add up to
    /// the content of the cache, and a delete of an announced object is never lost. An object that was added
    /// and deleted before its add was delivered is not announced. Do not use this policy for handlers whose
    /// consumers read the cache instead of the events: the workers of a queue may have seen that object
    /// because of an earlier event of its key, and no event would make them process the key again. Handlers
    /// that feed a work queue use [`HandlerOptions::for_work_queue`], as the controllers of
    /// `informer-runtime` do.
    Coalesce,
}

/// The options of a handler: name, resync period and buffer.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct HandlerOptions {
    /// The name of the handler in logs, states and metrics; by default `handler-N`.
    pub name: Option<String>,
    /// The resync period of the handler. `None`: the informer's default; zero: never. Periods shorter than
    /// [`MIN_RESYNC_PERIOD`](crate::MIN_RESYNC_PERIOD) are raised to it.
    pub resync: Option<Duration>,
    /// The policy of the handler's buffer while the handler is slow.
    pub buffer: BufferPolicy,
    /// The number of pending events of the handler at which a warning is logged.
    pub high_water: usize,
}

/// The default number of pending events at which a warning is logged. 100,000 pending events indicate a
/// problem, but cost only some megabytes.
const DEFAULT_HIGH_WATER: usize = 100_000;

impl Default for HandlerOptions {
    fn default() -> Self {
        Self { name: None, resync: None, buffer: BufferPolicy::default(), high_water: DEFAULT_HIGH_WATER }
    }
}

impl HandlerOptions {
    /// Returns the options for a handler that only adds keys to a work queue. The handler receives every
    /// event, since a worker could have seen a state that would be merged away (see
    /// [`BufferPolicy::Coalesce`]). The work queue merges keys, so the number of keys bounds its memory. The
    /// handler's buffer stays nearly empty, since such a handler does not wait.
    ///
    /// ```
    /// use informer_cache::{BufferPolicy, HandlerOptions};
    ///
    /// assert_eq!(HandlerOptions::for_work_queue().name("queue").buffer, BufferPolicy::Unbounded);
    /// ```
    pub fn for_work_queue() -> Self {
        Self { buffer: BufferPolicy::Unbounded, ..Self::default() }
    }

    /// Returns the default options of a handler.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the name of the handler.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Sets the resync period of the handler; zero disables resyncs.
    pub fn resync(mut self, period: Duration) -> Self {
        self.resync = Some(period);
        self
    }

    /// Sets how the buffer behaves while the handler is slow.
    pub fn buffer(mut self, policy: BufferPolicy) -> Self {
        self.buffer = policy;
        self
    }

    /// Sets the number of pending events at which a warning is logged.
    pub fn high_water(mut self, depth: usize) -> Self {
        self.high_water = depth;
        self
    }
}

/// A handler's buffer and counters, shared by the processor that fills the buffer and the task that empties
/// it.
pub struct ProcessorListener<O> {
    name: String,
    informer: Arc<str>,
    buffer: Mutex<Held<O>>,
    wake: Notify,
    synced: watch::Sender<bool>,
    closed: AtomicBool,
    calls: AtomicU64,
    panics: AtomicU64,
    blocked: AtomicU64,
}

/// The buffer of a listener, and the synced state of which waiting tasks were last notified. One lock guards
/// both, so that changes of the synced state are published in order. It also guards the histogram, so that a
/// call is counted without another lock.
struct Held<O> {
    buffer: ListenerBuffer<O>,
    synced: bool,
    latency: HandlerLatency,
}

/// The counters of one handler, as in [`InformerState`](crate::InformerState).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct HandlerState {
    /// The name of the handler.
    pub name: String,
    /// Number of pending events of the handler.
    pub depth: usize,
    /// The largest number of pending events of the handler so far.
    pub max_depth: usize,
    /// Number of calls of the handler that returned.
    pub calls: u64,
    /// Number of calls of the handler that panicked.
    pub panics: u64,
    /// Number of calls of the handler that held a runtime thread for longer than
    /// [`MAX_BLOCKING_TIME`](crate::handler::MAX_BLOCKING_TIME).
    pub blocked: u64,
    /// The durations of the calls. Empty for a stream, whose consumer takes the events itself.
    pub latency: HandlerLatency,
    /// True once the handler has handled every object of the first list.
    pub synced: bool,
}

impl<O> ProcessorListener<O> {
    /// Returns a listener that has an empty buffer.
    pub fn new(name: String, options: &HandlerOptions) -> Self {
        Self {
            name,
            informer: Arc::default(),
            buffer: Mutex::new(Held {
                buffer: ListenerBuffer::new(options.buffer, options.high_water),
                synced: false,
                latency: HandlerLatency::default(),
            }),
            wake: Notify::new(),
            synced: watch::Sender::new(false),
            closed: AtomicBool::new(false),
            calls: AtomicU64::new(0),
            panics: AtomicU64::new(0),
            blocked: AtomicU64::new(0),
        }
    }

    /// Sets the name of the informer. Warnings contain it in addition to the name of the handler.
    #[must_use]
    pub fn of_informer(mut self, informer: impl Into<Arc<str>>) -> Self {
        self.informer = informer.into();
        self
    }

    /// Returns the name of the handler.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Adds a batch of events to the buffer. The batch is shared with the other listeners, not copied.
    pub fn add(&self, batch: &Arc<EventBatch<O>>)
    where
        O: informer_core::Object,
    {
        let warning = {
            let mut held = self.buffer.lock();
            // The closed flag is read while the buffer is locked: `close` sets the flag, then empties the
            // buffer, and no event may be added after that.
            if self.is_closed() {
                return;
            }
            held.buffer.push(batch);
            // If events were merged, initial events may have been removed from the buffer, so that the
            // handler may now be synced.
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

    /// Reports that all objects of the first list were added to the buffer as initial events.
    pub fn initial_complete(&self) {
        let mut held = self.buffer.lock();
        held.buffer.initial_complete();
        self.publish(&mut held);
    }

    /// Begins a new run of the informer: the handler is not synced until it has handled the first list of
    /// that run. Pending events stay in the buffer.
    pub fn begin_run(&self) {
        let mut held = self.buffer.lock();
        held.buffer.begin_run();
        self.publish(&mut held);
    }

    /// Closes the listener permanently: no further event is delivered to the handler, and pending events are
    /// dropped.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.wake.notify_one();
        let pending = self.buffer.lock().buffer.take_pending();
        drop(pending);
    }

    /// Returns true once the listener was closed by [`close`](Self::close).
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Returns true once the handler has handled every initial event.
    pub fn has_synced(&self) -> bool {
        *self.synced.borrow()
    }

    pub(crate) fn subscribe_synced(&self) -> watch::Receiver<bool> {
        self.synced.subscribe()
    }

    /// Returns the counters of the handler.
    pub fn state(&self) -> HandlerState {
        let (depth, max_depth, latency) = {
            let held = self.buffer.lock();
            (held.buffer.depth(), held.buffer.max_depth(), held.latency.clone())
        };
        HandlerState {
            name: self.name.clone(),
            depth,
            max_depth,
            calls: self.calls.load(Ordering::Relaxed),
            panics: self.panics.load(Ordering::Relaxed),
            blocked: self.blocked.load(Ordering::Relaxed),
            latency,
            synced: self.has_synced(),
        }
    }

    /// Returns the next pending event. The caller must call [`finished`](Self::finished) once it has handled
    /// the event.
    pub fn pop(&self) -> Option<Event<O>>
    where
        O: informer_core::Object,
    {
        self.pop_next(None)
    }

    /// Reports that the handler has handled the event that [`pop`](Self::pop) returned last. The call is
    /// counted, and the handler may now be synced.
    pub fn finished(&self) {
        self.finish(&mut self.buffer.lock());
    }

    /// Reports, like [`finished`](Self::finished), that the handler has handled an event, and the duration of
    /// its call.
    fn finished_with_duration(&self, took: Duration) {
        let mut held = self.buffer.lock();
        held.latency.record(took);
        self.finish(&mut held);
    }

    /// Returns the next pending event, like [`pop`](Self::pop). If `took` is set, first records that the
    /// previous event was handled and how long its call took. The buffer is locked only once for both.
    fn pop_next(&self, took: Option<Duration>) -> Option<Event<O>>
    where
        O: informer_core::Object,
    {
        let mut held = self.buffer.lock();
        if let Some(took) = took {
            held.latency.record(took);
            self.finish(&mut held);
        }
        let event = held.buffer.pop();
        // If the future that delivered the previous event was dropped, `pop` has counted that event as
        // handled, which may change the synced state.
        self.publish(&mut held);
        event
    }

    fn finish(&self, held: &mut Held<O>) {
        held.buffer.finished();
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.publish(held);
    }

    /// Notifies the tasks that wait for the handler's sync if its synced state has changed. The caller holds
    /// the lock of the buffer; without it, two callers could publish their states in the wrong order.
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

//! Distribution of events to the listeners of an informer.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use informer_core::Object;
use informer_core::deadline::MAX_WAIT;

use crate::listener::{EventBatch, ProcessorListener};
use crate::{Event, HandlerState};

/// The shortest resync period. Replaying a whole cache more than once a second would keep the processor busy
/// all the time.
pub const MIN_RESYNC_PERIOD: Duration = Duration::from_secs(1);

/// The listeners of one informer. This type is pure state: the current time is an argument (`now`), and no
/// method waits.
///
/// # Invariants
///
/// 1. Every listener receives every event, in the same order. Two exceptions: a replay goes only to a new
///    listener, and a resync only to listeners whose resync is due.
/// 2. Only the owner of this value adds and removes listeners and distributes events. A listener that joins
///    between two batches receives the snapshot between them, then every later batch.
pub struct SharedProcessor<O> {
    listeners: Vec<ListenerEntry<O>>,
    initial_complete: bool,
}

struct ListenerEntry<O> {
    listener: Arc<ProcessorListener<O>>,
    /// The resync timer of the listener; `None` for a listener without a resync period.
    resync: Option<Resync>,
}

struct Resync {
    period: Duration,
    next: Instant,
}

impl<O: Object> SharedProcessor<O> {
    /// Returns a processor without listeners.
    pub fn new() -> Self {
        Self { listeners: Vec::new(), initial_complete: false }
    }

    /// Adds a listener to the processor. The listener first receives `present`, the cached objects, as
    /// initial adds.
    pub fn join(
        &mut self,
        listener: Arc<ProcessorListener<O>>,
        resync: Option<Duration>,
        present: impl Iterator<Item = Arc<O>>,
        now: Instant,
    ) {
        let replay: Box<[_]> = present.map(|object| Event::Added { object, initial: true }).collect();
        if !replay.is_empty() {
            listener.add(&Arc::new(EventBatch::new(replay)));
        }
        self.admit(listener, resync, now);
    }

    fn admit(&mut self, listener: Arc<ProcessorListener<O>>, resync: Option<Duration>, now: Instant) {
        if self.initial_complete {
            listener.initial_complete();
        }
        let resync = resync.filter(|period| !period.is_zero()).map(|period| {
            let period = period.clamp(MIN_RESYNC_PERIOD, MAX_WAIT);
            Resync { period, next: now + period }
        });
        self.listeners.push(ListenerEntry { listener, resync });
    }

    /// Removes the listeners that were closed.
    pub fn remove_closed(&mut self) {
        self.listeners.retain(|entry| !entry.listener.is_closed());
    }

    /// Adds events to the buffers of all listeners.
    pub fn distribute(&self, events: Vec<Event<O>>) {
        if events.is_empty() {
            return;
        }
        let batch = Arc::new(EventBatch::new(events));
        for entry in &self.listeners {
            entry.listener.add(&batch);
        }
    }

    /// Begins a new run of the informer. No listener is synced before the first list of the run was
    /// distributed, and resyncs that were due while the informer was stopped are skipped.
    pub fn begin_run(&mut self, now: Instant) {
        self.initial_complete = false;
        for entry in &mut self.listeners {
            entry.listener.begin_run();
            if let Some(resync) = &mut entry.resync {
                resync.next = now + resync.period;
            }
        }
    }

    /// Reports that the events of the first list were distributed. From now on a listener is synced once it
    /// has handled its initial events.
    pub fn initial_complete(&mut self) {
        self.initial_complete = true;
        for entry in &self.listeners {
            entry.listener.initial_complete();
        }
    }

    /// Returns the time of the earliest next resync of the listeners; `None` if no listener has a resync
    /// period.
    pub fn next_resync(&self) -> Option<Instant> {
        self.listeners.iter().filter_map(|entry| Some(entry.resync.as_ref()?.next)).min()
    }

    /// Replays `present`, the cached objects, to the listeners whose resync is due. If several resyncs of a
    /// listener were missed, the objects are replayed once.
    pub fn resync<'a>(&mut self, present: impl Fn() -> Vec<Arc<O>> + 'a, now: Instant) {
        let mut batch = None;
        for entry in &mut self.listeners {
            let Some(resync) = entry.resync.as_mut().filter(|resync| resync.next <= now) else { continue };
            let next = resync.next + resync.period;
            resync.next = if next > now { next } else { now + resync.period };
            let batch = batch.get_or_insert_with(|| Arc::new(EventBatch::new(replay(present()))));
            entry.listener.add(batch);
        }
    }

    /// Returns the counters of all listeners.
    pub fn states(&self) -> Vec<HandlerState> {
        self.listeners.iter().map(|entry| entry.listener.state()).collect()
    }
}

fn replay<O>(present: Vec<Arc<O>>) -> Vec<Event<O>> {
    let event = |object: Arc<O>| Event::Updated { old: Arc::clone(&object), new: object, resync: true };
    present.into_iter().map(event).collect()
}

impl<O: Object> Default for SharedProcessor<O> {
    fn default() -> Self {
        Self::new()
    }
}

impl<O> fmt::Debug for SharedProcessor<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedProcessor")
            .field("listeners", &self.listeners.len())
            .field("initial_complete", &self.initial_complete)
            .finish_non_exhaustive()
    }
}

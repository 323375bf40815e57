use std::collections::VecDeque;
use std::sync::Arc;

use informer_core::Object;

use super::BufferPolicy;
use super::coalesce::CoalescedEvents;
use crate::Event;

/// The events of one store transaction, shared by all listeners of an informer.
pub struct EventBatch<O> {
    events: Box<[Event<O>]>,
    initial: usize,
}

impl<O> EventBatch<O> {
    /// Creates a batch of events. The events must be in the order in which the cache changed.
    pub fn new(events: impl Into<Box<[Event<O>]>>) -> Self {
        let events = events.into();
        let initial = events.iter().filter(|event| is_initial(event)).count();
        Self { events, initial }
    }

    /// Returns the events of the batch, in order.
    pub fn events(&self) -> &[Event<O>] {
        &self.events
    }
}

fn is_initial<O>(event: &Event<O>) -> bool {
    matches!(event, Event::Added { initial: true, .. })
}

/// The pending events of one handler. This type is pure state: it has no lock and no clock, and never waits.
pub struct ListenerBuffer<O> {
    pending: Pending<O>,
    /// Number of initial events (adds of objects in the first list, or replayed to a new handler) that are
    /// pending or in flight.
    initial_left: usize,
    initial_complete: bool,
    in_flight_initial: bool,
    max_depth: usize,
    /// The number of pending events at which the next warning is logged. It doubles with each warning, so
    /// that a slow handler causes few of them.
    high_water: usize,
}

enum Pending<O> {
    /// The buffer of a handler whose events are not merged. It holds whole batches; some events of the first
    /// batch may already be delivered.
    Unbounded {
        batches: VecDeque<Arc<EventBatch<O>>>,
        next: usize,
        depth: usize,
    },
    Coalesce(CoalescedEvents<O>),
}

impl<O> Pending<O> {
    fn new(policy: BufferPolicy) -> Self {
        match policy {
            BufferPolicy::Unbounded => Self::Unbounded { batches: VecDeque::new(), next: 0, depth: 0 },
            BufferPolicy::Coalesce => Self::Coalesce(CoalescedEvents::default()),
        }
    }

    fn emptied(&self) -> Self {
        Self::new(match self {
            Self::Unbounded { .. } => BufferPolicy::Unbounded,
            Self::Coalesce(_) => BufferPolicy::Coalesce,
        })
    }

    fn depth(&self) -> usize {
        match self {
            Self::Unbounded { depth, .. } => *depth,
            Self::Coalesce(events) => events.len(),
        }
    }
}

/// Events that were removed from the buffer. The caller of the buffer drops them outside of any lock, because
/// dropping an object may run user code.
pub(super) struct Discarded<O>(#[expect(dead_code, reason = "held to be dropped")] Pending<O>);

impl<O> ListenerBuffer<O> {
    /// Creates an empty buffer with a policy and a high-water mark.
    pub fn new(policy: BufferPolicy, high_water: usize) -> Self {
        Self {
            pending: Pending::new(policy),
            initial_left: 0,
            initial_complete: false,
            in_flight_initial: false,
            max_depth: 0,
            high_water: high_water.max(1),
        }
    }

    /// Adds a batch of events to the buffer.
    pub fn push(&mut self, batch: &Arc<EventBatch<O>>)
    where
        O: Object,
    {
        match &mut self.pending {
            Pending::Unbounded { batches, depth, .. } => {
                if !batch.events.is_empty() {
                    *depth += batch.events.len();
                    self.initial_left += batch.initial;
                    batches.push_back(Arc::clone(batch));
                }
            }
            Pending::Coalesce(events) => {
                for event in batch.events() {
                    self.initial_left += usize::from(is_initial(event));
                    self.initial_left -= events.push(event);
                }
            }
        }
        self.max_depth = self.max_depth.max(self.pending.depth());
    }

    /// Returns the next event. The event is in flight until [`finished`](Self::finished) or the next call of
    /// this method. If `pop` is called again without `finished`, the future that delivered the earlier event
    /// was dropped, and that event counts as handled.
    pub fn pop(&mut self) -> Option<Event<O>>
    where
        O: Object,
    {
        self.finished();
        let event = match &mut self.pending {
            Pending::Coalesce(events) => events.pop()?,
            Pending::Unbounded { batches, next, depth } => {
                let batch = batches.front()?;
                let event = batch.events[*next].clone();
                (*next, *depth) = (*next + 1, *depth - 1);
                if *next == batch.events.len() {
                    batches.pop_front();
                    *next = 0;
                }
                event
            }
        };
        self.in_flight_initial = is_initial(&event);
        Some(event)
    }

    /// Reports that the handler has handled the event that [`pop`](Self::pop) returned last.
    pub fn finished(&mut self) {
        if std::mem::take(&mut self.in_flight_initial) {
            self.initial_left -= 1;
        }
    }

    /// Reports that all initial events were added to the buffer.
    pub fn initial_complete(&mut self) {
        self.initial_complete = true;
    }

    /// Returns true once all initial events were added to the buffer and handled.
    pub fn is_synced(&self) -> bool {
        self.initial_complete && self.initial_left == 0
    }

    /// Returns the number of pending events of the handler.
    pub fn depth(&self) -> usize {
        self.pending.depth()
    }

    /// Returns the largest number of pending events so far, for metrics.
    pub fn max_depth(&self) -> usize {
        self.max_depth
    }

    /// Returns the number of pending events if it has just reached the high-water mark, so that the caller
    /// logs a warning. The next high-water mark is twice as high.
    pub fn high_water_crossed(&mut self) -> Option<usize> {
        let depth = self.depth();
        (depth >= self.high_water).then(|| {
            self.high_water = depth.saturating_mul(2);
            depth
        })
    }

    /// Begins a new run of the informer. The handler is not synced until it has handled the initial events
    /// that follow.
    pub fn begin_run(&mut self) {
        self.initial_complete = false;
    }

    /// Removes all pending events, because the listener is being closed. If the event in flight is an initial
    /// event, it counts as not handled until [`finished`](Self::finished).
    pub(super) fn take_pending(&mut self) -> Discarded<O> {
        self.initial_left = usize::from(self.in_flight_initial);
        let empty = self.pending.emptied();
        Discarded(std::mem::replace(&mut self.pending, empty))
    }
}

impl<O> std::fmt::Debug for EventBatch<O> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EventBatch").field("len", &self.events.len()).field("initial", &self.initial).finish()
    }
}

impl<O> std::fmt::Debug for ListenerBuffer<O> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ListenerBuffer")
            .field("depth", &self.depth())
            .field("initial_left", &self.initial_left)
            .field("initial_complete", &self.initial_complete)
            .finish_non_exhaustive()
    }
}

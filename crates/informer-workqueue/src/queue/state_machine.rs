//! The sans-io state machine of a queue, for simulated time and single-threaded drivers.

use std::fmt;
use std::hash::BuildHasher;
use std::time::{Duration, Instant};

use foldhash::fast::FixedState;

use super::groups::NO_GROUP;
use super::index::KeyHash;
use super::order::{FifoOrder, Order, PriorityOrder, ReadyKeys};
use super::slots::NewKey;
use super::state::{Effect, Phase, Schedule, State, Ticket};
use super::{Aging, MAX_KEYS, QueueKey, deadline};
use crate::clock::Nanos;

/// The state behind a [`WorkQueue`](super::WorkQueue) without lock, clock, timer, rate limiter and waiting
/// tasks. It follows the rules of a `WorkQueue`; use it in a simulator or inside another state machine. `now`
/// is an argument; an instant before that passed to [`new`](Self::new) counts as the latter.
///
/// The driver (the code that uses this state) calls [`take`](Self::take) for a worker and
/// [`finish`](Self::finish) with each [`Handout`]. It wakes as many waiting workers as
/// [`QueueEffect::pushed`] says and calls `take` again at [`next_due`](Self::next_due), a deadline that it
/// reads again after every [`QueueEffect::rearm`].
///
/// ```
/// use std::time::Duration;
/// use informer_workqueue::proto::QueueState;
///
/// let start = tokio::time::Instant::now().into_std();
/// let mut queue = QueueState::new(start);
/// assert_eq!(queue.add("a", None, 0, start).map(|effect| effect.pushed), Some(1));
/// assert_eq!(queue.add("a", None, 0, start).map(|effect| effect.pushed), Some(0));
///
/// let (handout, _) = queue.take(start);
/// let handout = handout.expect("one is ready");
/// assert_eq!(*handout.key(), "a");
/// queue.finish(handout, Some((Duration::from_secs(5), 0)), start);
/// assert!(queue.take(start).0.is_none());
/// let due = queue.next_due().expect("it waits");
/// assert_eq!(due, start + Duration::from_secs(5));
/// assert!(queue.take(due).0.is_some());
/// ```
pub struct QueueState<K> {
    state: State<K>,
    epoch: Instant,
}

/// The effects of a call of a [`QueueState`] that its caller, the driver, has to carry out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueueEffect {
    /// Number of keys that became ready. The code that drives the queue wakes as many waiting workers.
    pub pushed: usize,
    /// True if the next deadline has become earlier. The code that drives the queue then resets its timer.
    pub rearm: bool,
}

/// A key that was handed out by a [`QueueState`] and is in process until [`QueueState::finish`].
#[derive(Debug)]
#[must_use = "a key that is not finished stays in process forever"]
pub struct Handout<K> {
    key: K,
    ticket: Ticket,
    priority: i32,
}

impl<K> Handout<K> {
    /// Returns the key that was handed out.
    pub fn key(&self) -> &K {
        &self.key
    }

    /// Returns the highest priority with which the key was added.
    pub fn priority(&self) -> i32 {
        self.priority
    }
}

impl<K: QueueKey> QueueState<K> {
    /// Creates an empty FIFO queue.
    pub fn new(now: Instant) -> Self {
        Self::with(Box::<FifoOrder>::default(), now)
    }

    /// Creates an empty queue that hands out higher priorities first.
    pub fn with_priorities(aging: Aging, now: Instant) -> Self {
        Self::with(Box::new(PriorityOrder::<FifoOrder>::new(aging)), now)
    }

    fn with(order: Box<dyn Order>, now: Instant) -> Self {
        Self { state: State::new(ReadyKeys::trusted(order), MAX_KEYS, false), epoch: now }
    }

    /// Adds a key like [`WorkQueue::add_with`](super::WorkQueue::add_with). Returns `None` and adds nothing
    /// if the queue is shut down or full.
    pub fn add(
        &mut self,
        key: K,
        after: Option<Duration>,
        priority: i32,
        now: Instant,
    ) -> Option<QueueEffect> {
        if self.state.phase != Phase::Open {
            return None;
        }
        let now = self.nanos(now);
        let hash = KeyHash::new(FixedState::default().hash_one(&key));
        let id = match self.state.find(hash, &key) {
            Some(id) => id,
            None => {
                let newcomer = NewKey { key, hash: hash.0, group: NO_GROUP, rank: None };
                self.state.insert(newcomer).ok()?
            }
        };
        let wish = Schedule { due: after.and_then(|delay| deadline(now.after(delay), delay)), priority };
        // Keys whose delay was over before this add are handed out before the added key.
        let due_before = self.state.promote(now);
        Some(self.state.mark(id, wish, now).and(due_before).into())
    }

    /// Makes the keys ready whose delay is over, and hands out the next ready key. [`QueueEffect::pushed`]
    /// does not count the returned key.
    pub fn take(&mut self, now: Instant) -> (Option<Handout<K>>, QueueEffect) {
        let now = self.nanos(now);
        let mut effect = self.state.promote(now);
        let taken = self.state.take(now);
        effect.pushed = effect.pushed.saturating_sub(u32::from(taken.is_some()));
        let handout =
            taken.map(|taken| Handout { key: taken.key, ticket: taken.ticket, priority: taken.priority });
        (handout, effect.into())
    }

    /// Finishes a hand-out; `again` requests another one with a delay and a priority. Returns whether the key
    /// will be handed out again.
    pub fn finish(
        &mut self,
        handout: Handout<K>,
        again: Option<(Duration, i32)>,
        now: Instant,
    ) -> (bool, QueueEffect) {
        let now = self.nanos(now);
        let wish =
            again.map(|(delay, priority)| Schedule { due: deadline(now.after(delay), delay), priority });
        let due_before = self.state.promote(now);
        match self.state.finish(handout.ticket, wish, now) {
            Some(finished) => (finished.kept, finished.effect.and(due_before).into()),
            None => (false, due_before.into()),
        }
    }

    /// Shuts the queue down: further adds are rejected, waiting keys are dropped, and ready keys are still
    /// handed out.
    pub fn shut_down(&mut self, now: Instant) {
        let now = self.nanos(now);
        // Keys whose delay is over become ready; the other waiting keys are dropped afterwards.
        while self.state.promote(now).added > 0 {}
        self.state.phase = Phase::Closed;
        while self.state.cancel_any().is_some() {}
    }

    /// Returns the deadline at which the first waiting key becomes ready; `None` if no key waits.
    pub fn next_due(&self) -> Option<Instant> {
        let due = self.state.next_due()?;
        self.epoch.checked_add(Duration::from_nanos(due.0))
    }

    /// Returns the number of ready keys. A key whose delay is over counts as ready after the next call that
    /// takes `now`.
    pub fn ready(&self) -> usize {
        self.state.ready()
    }

    /// Returns the number of keys in process.
    pub fn processing(&self) -> usize {
        self.state.processing()
    }

    /// Returns the number of keys that wait for a deadline.
    pub fn waiting(&self) -> usize {
        self.state.delays.len()
    }

    /// Returns true if no key is ready, waiting or in process.
    pub fn is_empty(&self) -> bool {
        self.state.is_empty()
    }

    /// Returns true if the queue is shut down and will hand out no more keys.
    pub fn is_finished(&self) -> bool {
        self.state.is_finished()
    }

    fn nanos(&self, now: Instant) -> Nanos {
        Nanos::default().after(now.saturating_duration_since(self.epoch))
    }
}

impl From<Effect> for QueueEffect {
    fn from(effect: Effect) -> Self {
        Self { pushed: effect.pushed as usize, rearm: effect.rearm }
    }
}

impl<K: QueueKey> fmt::Debug for QueueState<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueueState")
            .field("phase", &self.state.phase)
            .field("ready", &self.ready())
            .field("waiting", &self.waiting())
            .field("processing", &self.processing())
            .finish()
    }
}

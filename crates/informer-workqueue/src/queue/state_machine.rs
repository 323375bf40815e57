//! The rules of a queue by themselves, for whoever drives them by hand: in one thread, in made-up time.

use std::fmt;
use std::hash::BuildHasher;
use std::time::{Duration, Instant};

use foldhash::fast::FixedState;

use super::groups::NO_GROUP;
use super::index::KeyHash;
use super::order::{FifoOrder, Order, PriorityOrder, ReadyKeys};
use super::slots::Newcomer;
use super::state::{Effect, Phase, State, Ticket, Wish};
use super::{Aging, MAX_KEYS, QueueKey, deadline};
use crate::clock::Nanos;

/// The state behind a [`WorkQueue`](super::WorkQueue), without its lock, clock, timer, rate limiter and waiting tasks: the
/// same rules, for a simulator or for a queue inside of another state machine. `now` is an argument; an instant before the
/// one of [`new`](Self::new) counts as that.
///
/// Whoever drives it does what a driver does: [`take`](Self::take) for a worker, [`finish`](Self::finish) with each
/// [`Handout`], wake as many waiting workers as [`QueueEffect::pushed`] says, and come back at
/// [`next_due`](Self::next_due), which is to be asked again after [`QueueEffect::rearm`].
///
/// ```
/// use std::time::Duration;
/// use informer_workqueue::QueueState;
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

/// What the driver of a [`QueueState`] is to do after a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueueEffect {
    /// So many keys became ready to be handed out: as many workers that wait are to be woken.
    pub pushed: usize,
    /// The next deadline came nearer: a timer that is set is to be set anew.
    pub rearm: bool,
}

/// A key that was handed out by a [`QueueState`], until [`QueueState::finish`].
#[derive(Debug)]
#[must_use = "a key that is not finished stays in process for ever"]
pub struct Handout<K> {
    key: K,
    ticket: Ticket,
    priority: i32,
}

impl<K> Handout<K> {
    /// The key.
    pub fn key(&self) -> &K {
        &self.key
    }

    /// The highest priority with which it was added.
    pub fn priority(&self) -> i32 {
        self.priority
    }
}

impl<K: QueueKey> QueueState<K> {
    /// An empty queue: first in, first out.
    pub fn new(now: Instant) -> Self {
        Self::with(Box::<FifoOrder>::default(), now)
    }

    /// An empty queue: higher priorities first.
    pub fn with_priorities(aging: Aging, now: Instant) -> Self {
        Self::with(Box::new(PriorityOrder::<FifoOrder>::new(aging)), now)
    }

    fn with(order: Box<dyn Order>, now: Instant) -> Self {
        Self { state: State::new(ReadyKeys::trusted(order), MAX_KEYS, false), epoch: now }
    }

    /// Adds a key, as [`WorkQueue::add_with`](super::WorkQueue::add_with) does. `None`, and nothing is added, if the queue is
    /// shut down or full.
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
        let id = match self.state.find_or_place(hash, &key) {
            Ok(id) => id,
            Err(place) => {
                let newcomer = Newcomer { key, hash: hash.0, group: NO_GROUP, rank: None };
                self.state.insert(place, newcomer).ok()?
            }
        };
        let wish = Wish { due: after.and_then(|delay| deadline(now.after(delay), delay)), priority };
        // What was due before this add comes before it.
        let due_before = self.state.promote(now);
        Some(self.state.mark(id, wish, now).and(due_before).into())
    }

    /// Makes ready what is due, and hands out the next key. The effect does not count the key that is handed out.
    pub fn take(&mut self, now: Instant) -> (Option<Handout<K>>, QueueEffect) {
        let now = self.nanos(now);
        let mut effect = self.state.promote(now);
        let taken = self.state.take(now);
        effect.pushed = effect.pushed.saturating_sub(u32::from(taken.is_some()));
        let handout =
            taken.map(|taken| Handout { key: taken.key, ticket: taken.ticket, priority: taken.priority });
        (handout, effect.into())
    }

    /// Ends a hand-out; `again` with a delay and a priority asks for another. Returns whether the key is still to come.
    pub fn finish(
        &mut self,
        handout: Handout<K>,
        again: Option<(Duration, i32)>,
        now: Instant,
    ) -> (bool, QueueEffect) {
        let now = self.nanos(now);
        let wish = again.map(|(delay, priority)| Wish { due: deadline(now.after(delay), delay), priority });
        let due_before = self.state.promote(now);
        match self.state.finish(handout.ticket, wish, now) {
            Some(finished) => (finished.kept, finished.effect.and(due_before).into()),
            None => (false, due_before.into()),
        }
    }

    /// Takes no more keys, and drops those that wait. What is ready is still handed out.
    pub fn shut_down(&mut self, now: Instant) {
        let now = self.nanos(now);
        // A key that is due is ready, even if nobody has looked yet.
        while self.state.promote(now).added > 0 {}
        self.state.phase = Phase::Closed;
        while self.state.cancel_any().is_some() {}
    }

    /// When the first of the keys that wait is due.
    pub fn next_due(&self) -> Option<Instant> {
        let due = self.state.next_due()?;
        self.epoch.checked_add(Duration::from_nanos(due.0))
    }

    /// How many keys are ready, of those that were due when it was last called with a time.
    pub fn ready(&self) -> usize {
        self.state.ready()
    }

    /// How many keys are handed out.
    pub fn processing(&self) -> usize {
        self.state.processing()
    }

    /// How many keys wait for a deadline.
    pub fn waiting(&self) -> usize {
        self.state.delays.len()
    }

    /// True where no key is ready, waits or is handed out.
    pub fn is_empty(&self) -> bool {
        self.state.is_empty()
    }

    /// True where nothing will be handed out any more.
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

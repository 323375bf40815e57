//! The state of the queue. It is pure: it uses no clock, no lock and no await.
//!
//! ```text
//!              add                 take                       done
//!   (absent) ───────▶ Ready ───────────────▶ processing ──────────────▶ (absent)
//!      │                ▲ ▲                      │  ▲
//!      │ add_after      │ └──────── done ────────┘  │ add: Ready as well, pushed at done
//!      └────────▶ Waiting (due, or add)             │ add_after: Waiting as well
//! ```
//!
//! A key waits for the earliest requested time. client-go keeps a delayed and an immediate add separately and
//! hands the key out twice (kubernetes#126027); here, as in controller-runtime, the immediate add replaces
//! the delayed one.
//!
//! # Invariants
//! 1. Every slot is in `index` under its hash, and is pending or in process; otherwise it is removed.
//! 2. A slot is in the order iff it is `Ready` and not in process. It is in `delays` iff it is `Waiting`.
//! 3. `processing` counts the slots in process, and `dirty` those of them that are `Ready`.
//! 4. `times` exist iff the queue is timed; `started` holds exactly the slots in process.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Duration;

use hashbrown::HashMap;

use super::delays::Delays;
use super::groups::Groups;
use super::index::{Index, KeyHash};
use super::order::ReadyKeys;
use super::slots::{EntryId, NewKey, Pending, SlotId, Slots};
use crate::clock::Nanos;

/// The maximum number of waiting keys that become ready while the lock is held once. The lock is then
/// released and taken again for the remaining keys, so that other callers do not wait until all keys are
/// ready.
const PROMOTED_AT_ONCE: usize = 64;

/// The number of slots that are searched for the oldest ready key while the lock is held once. Such a search
/// takes about ten microseconds.
const SEARCHED_AT_ONCE: usize = 8_192;

/// The phases of a queue. A queue that was shut down never accepts keys again, but a drain may begin and fail
/// in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Open,
    /// The queue rejects new keys and hands out ready keys, and a caller waits until all of them are done.
    Draining,
    /// The queue rejects new keys and hands out ready keys; no caller waits until they are done.
    Closed,
}

/// The notifications that a caller of the state has to send after it has released the lock.
#[derive(Clone, Copy, Debug, Default)]
#[must_use]
pub(super) struct Effect {
    /// Number of keys that entered the order. The caller wakes as many getters.
    pub(super) pushed: u32,
    /// Number of keys that became ready. A key in process that was added again counts too, although it enters
    /// the order later.
    pub(super) added: u32,
    /// True if the next deadline has become earlier, so that the timer must be reset.
    pub(super) rearm: bool,
}

impl Effect {
    pub(super) fn and(self, other: Self) -> Self {
        Self {
            pushed: self.pushed + other.pushed,
            added: self.added + other.added,
            rearm: self.rearm || other.rearm,
        }
    }
}

#[derive(Debug)]
pub(super) struct Taken<K> {
    pub(super) key: K,
    pub(super) ticket: Ticket,
    pub(super) priority: i32,
    pub(super) waited: Duration,
}

/// Identifies one hand-out of a key (from its pop until it is finished), so that the hand-out can be finished
/// once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ticket {
    slot: SlotId,
    handout: u32,
}

/// A request to hand out a key, at a given time and with a given priority.
#[derive(Clone, Copy, Debug)]
pub(super) struct Schedule {
    /// The time at which the key becomes ready; `None` means immediately.
    pub(super) due: Option<Nanos>,
    pub(super) priority: i32,
}

#[derive(Debug)]
pub(super) struct Finished<K> {
    /// The finished key if it left the queue. The caller drops it after releasing the lock.
    pub(super) key: Option<K>,
    pub(super) effect: Effect,
    /// True if the key was added again and will be handed out again.
    pub(super) kept: bool,
    /// How long the key was in process; `None` in a queue that measures no times.
    pub(super) worked: Option<Duration>,
}

/// The times at which keys became ready or were handed out, for metrics.
#[derive(Default)]
struct Times {
    /// The times at which keys became ready, indexed by slot.
    ready: Vec<Nanos>,
    started: HashMap<SlotId, Nanos>,
}

impl Times {
    #[inline]
    fn make_ready(&mut self, id: SlotId, since: Nanos) {
        if self.ready.len() <= id as usize {
            self.ready.resize(id as usize + 1, Nanos::default());
        }
        self.ready[id as usize] = since;
    }

    /// Records that the key of a slot is now in process. Returns how long the key was ready before.
    fn start(&mut self, id: SlotId, now: Nanos) -> Duration {
        self.started.insert(id, now);
        now.since(self.ready[id as usize])
    }
}

pub(super) struct State<K> {
    pub(super) slots: Slots<K>,
    index: Index,
    pub(super) order: ReadyKeys,
    max_keys: u32,
    pub(super) delays: Delays,
    pub(super) groups: Groups,
    pub(super) phase: Phase,
    processing: usize,
    dirty: usize,
    times: Option<Times>,
}

impl<K: Eq + Clone> State<K> {
    pub(super) fn new(order: ReadyKeys, max_keys: u32, timed: bool) -> Self {
        Self {
            slots: Slots::new(),
            index: Index::default(),
            order,
            max_keys,
            delays: Delays::default(),
            groups: Groups::default(),
            phase: Phase::Open,
            processing: 0,
            dirty: 0,
            times: timed.then(Times::default),
        }
    }

    pub(super) fn ready(&self) -> usize {
        self.order.len()
    }

    pub(super) fn processing(&self) -> usize {
        self.processing
    }

    pub(super) fn is_empty(&self) -> bool {
        self.index.len() == 0
    }

    pub(super) fn is_finished(&self) -> bool {
        self.phase != Phase::Open && self.dirty == 0 && self.order.len() == 0
    }

    /// Returns true if the queue is shut down and no key is ready or in process.
    pub(super) fn is_drained(&self) -> bool {
        self.phase != Phase::Open && self.processing == 0 && self.order.len() == 0
    }

    pub(super) fn next_due(&self) -> Option<Nanos> {
        self.delays.next_due().filter(|_| self.phase == Phase::Open)
    }

    // Eq of the key runs before the state is changed, so a panic in Eq leaves the state unchanged.
    #[inline]
    pub(super) fn find(&self, hash: KeyHash, key: &K) -> Option<SlotId> {
        self.index.find(hash, |slot| self.slots.key(slot) == Some(key))
    }

    /// Inserts a key that has no slot; returns the key if the queue is full. The caller must call `mark` for
    /// the new slot before it releases the lock.
    #[inline]
    pub(super) fn insert(&mut self, newcomer: NewKey<K>) -> Result<SlotId, K> {
        let hash = KeyHash(newcomer.hash);
        let id = self.slots.insert(newcomer, self.max_keys)?;
        self.index.insert(hash, id);
        Ok(id)
    }

    /// Applies a request to the key of a slot. If the key was already requested, the earlier time and the
    /// higher priority of the two requests count.
    #[inline]
    pub(super) fn mark(&mut self, id: SlotId, wish: Schedule, now: Nanos) -> Effect {
        let slot = &mut self.slots[id];
        if slot.pending == Pending::Ready {
            self.raise(id, wish.priority);
            return Effect::default();
        }
        let waiting = slot.pending == Pending::Waiting;
        slot.priority = if waiting { slot.priority.max(wish.priority) } else { wish.priority };
        match wish.due {
            None => {
                self.delays.remove(id);
                self.make_ready(id, now)
            }
            Some(due) if waiting => Effect { rearm: self.delays.advance(id, due), ..Effect::default() },
            Some(due) => {
                slot.pending = Pending::Waiting;
                Effect { rearm: self.delays.push(id, due), ..Effect::default() }
            }
        }
    }

    fn raise(&mut self, id: SlotId, priority: i32) {
        let slot = &mut self.slots[id];
        if priority <= slot.priority {
            return;
        }
        let before = std::mem::replace(&mut slot.priority, priority);
        if !slot.processing {
            self.order.raised(&mut self.slots.entries, id, before);
        }
    }

    fn make_ready(&mut self, id: SlotId, since: Nanos) -> Effect {
        let slot = &mut self.slots[id];
        slot.pending = Pending::Ready;
        let processing = slot.processing;
        if let Some(times) = &mut self.times {
            times.make_ready(id, since);
        }
        if processing {
            self.dirty += 1;
            return Effect { added: 1, ..Effect::default() };
        }
        self.order.push(&mut self.slots.entries, id);
        Effect { pushed: 1, added: 1, rearm: false }
    }

    /// Makes waiting keys ready whose delay is over, at most [`PROMOTED_AT_ONCE`] keys per call.
    pub(super) fn promote(&mut self, now: Nanos) -> Effect {
        let mut total = Effect::default();
        if self.phase != Phase::Open {
            return total;
        }
        for _ in 0..PROMOTED_AT_ONCE {
            let Some((id, due)) = self.delays.pop_due(now) else { break };
            total = total.and(self.make_ready(id, due));
        }
        total
    }

    /// Hands out the next key. If Clone of the key panics, the key moves to the end of the queue so that it
    /// does not block the others, and the panic is resumed.
    // `take` and `finish` are inlined: copying the result would cost more than the function itself.
    #[inline(always)]
    pub(super) fn take(&mut self, now: Nanos) -> Option<Taken<K>> {
        let id = self.order.peek(&mut self.slots.entries)?;
        let cloned = catch_unwind(AssertUnwindSafe(|| self.slots.key(id).cloned()));
        self.order.take(&mut self.slots.entries, id);
        let key = match cloned {
            Ok(key) => key?,
            Err(panic) => {
                self.order.push(&mut self.slots.entries, id);
                resume_unwind(panic)
            }
        };
        let slot = &mut self.slots[id];
        slot.pending = Pending::Idle;
        slot.processing = true;
        // Reads the fields `handout` and `priority` once, before storing `handout`. A load directly after
        // that store would wait for it, which is measurable in so short a function.
        let (handout, priority) = (slot.handout.wrapping_add(1), slot.priority);
        slot.handout = handout;
        self.processing += 1;
        let waited = self.times.as_mut().map_or(Duration::ZERO, |times| times.start(id, now));
        Some(Taken { key, ticket: Ticket { slot: id, handout }, priority, waited })
    }

    /// Returns the ticket of the current hand-out of a key; `None` if the key is not in process.
    pub(super) fn ticket(&self, hash: KeyHash, key: &K) -> Option<Ticket> {
        let slot = self.find(hash, key).filter(|&id| self.slots[id].processing)?;
        Some(Ticket { slot, handout: self.slots[slot].handout })
    }

    /// Finishes a hand-out, optionally with a new request for its key. Returns `None` if the hand-out was
    /// already finished.
    #[inline(always)]
    pub(super) fn finish(
        &mut self,
        ticket: Ticket,
        wish: Option<Schedule>,
        now: Nanos,
    ) -> Option<Finished<K>> {
        let id = ticket.slot;
        let slot = &self.slots[id];
        if !slot.processing || slot.handout != ticket.handout {
            return None;
        }
        let mut effect = match wish.filter(|_| self.phase == Phase::Open) {
            Some(wish) => self.mark(id, wish, now),
            None => Effect::default(),
        };
        let worked =
            self.times.as_mut().and_then(|times| times.started.remove(&id)).map(|start| now.since(start));
        self.slots[id].processing = false;
        self.processing -= 1;
        if self.slots[id].pending == Pending::Ready {
            self.dirty -= 1;
            self.order.push(&mut self.slots.entries, id);
            effect.pushed += 1;
        }
        let kept = self.slots[id].pending != Pending::Idle;
        Some(Finished { key: self.release_if_idle(id), effect, kept, worked })
    }

    /// Cancels the delay of the key in a slot. Returns whether the key was waiting, and the key itself if it
    /// was removed from the queue.
    pub(super) fn cancel_waiting(&mut self, id: SlotId) -> (bool, Option<K>) {
        if !self.delays.remove(id) {
            return (false, None);
        }
        self.slots[id].pending = Pending::Idle;
        (true, self.release_if_idle(id))
    }

    /// Cancels the delay of the waiting key that is cheapest to remove from the delay heap. Returns `None` if
    /// no key is waiting.
    pub(super) fn cancel_any(&mut self) -> Option<Option<K>> {
        let id = self.delays.pop_any()?;
        self.slots[id].pending = Pending::Idle;
        Some(self.release_if_idle(id))
    }

    #[inline]
    fn release_if_idle(&mut self, id: SlotId) -> Option<K> {
        let slot = &self.slots[id];
        if slot.processing || slot.pending != Pending::Idle {
            return None;
        }
        self.index.remove(KeyHash(slot.hash), id);
        self.groups.leave(self.slots.entries.group(EntryId(id)));
        self.slots.remove(id)
    }

    /// Returns for how long the keys that are now in process have been in process: the sum and the maximum.
    pub(super) fn in_process(&self, now: Nanos) -> (Duration, Duration) {
        let spans = self.times.iter().flat_map(|times| times.started.values()).map(|&start| now.since(start));
        spans.fold((Duration::ZERO, Duration::ZERO), |(sum, longest), span| {
            (sum.saturating_add(span), longest.max(span))
        })
    }

    /// Returns the earliest time at which a ready key of the slots from `begin` on became ready, and the slot
    /// at which the search continues; `None` after the last slot. Searches at most [`SEARCHED_AT_ONCE`]
    /// slots. A key counts if it is in the order, and not while it is in process.
    pub(super) fn search_oldest(&self, begin: usize) -> (Option<Nanos>, Option<usize>) {
        let ready = self.times.as_ref().map_or(&[][..], |times| &times.ready);
        let end = ready.len().min(begin.saturating_add(SEARCHED_AT_ONCE));
        let slots = (begin..end).filter(|&id| self.slots.entries.is_ready(id as SlotId));
        (slots.map(|id| ready[id]).min(), (end < ready.len()).then_some(end))
    }

    #[cfg(test)]
    pub(super) fn assert_invariants(&mut self) {
        self.delays.assert_invariants();
        let (mut ready, mut waiting, mut processing, mut dirty, mut grouped) = (0, 0, 0, 0, 0);
        for (id, slot) in self.slots.occupied() {
            assert!(slot.processing || slot.pending != Pending::Idle, "slot {id} is in no set");
            assert_eq!(self.find(KeyHash(slot.hash), self.slots.key(id).unwrap()), Some(id));
            assert_eq!(self.delays.due(id).is_some(), slot.pending == Pending::Waiting);
            ready += usize::from(slot.pending == Pending::Ready && !slot.processing);
            waiting += usize::from(slot.pending == Pending::Waiting);
            processing += usize::from(slot.processing);
            dirty += usize::from(slot.pending == Pending::Ready && slot.processing);
            grouped += usize::from(self.slots.entries.group(EntryId(id)) != super::groups::NO_GROUP);
        }
        assert_eq!(self.index.len(), self.slots.occupied().count());
        assert_eq!((ready, waiting), (self.order.len(), self.delays.len()));
        assert_eq!((processing, dirty), (self.processing, self.dirty));
        assert_eq!(grouped, self.groups.users());
        if let Some(times) = &self.times {
            assert_eq!(times.started.len(), processing);
        }
        let mut rows = 0;
        self.order.depths(&mut self.slots.entries, &mut |_, _, len| rows += len);
        assert_eq!(rows, ready, "depths add up");
    }
}

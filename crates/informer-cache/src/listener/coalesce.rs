//! The buffer of a handler whose pending events are merged per key.
//!
//! The pending events of a key are always one of: an add, an update, a delete, or a delete followed by an add
//! (the object was replaced by another object with the same name). The table shows how a new event is merged
//! with them:
//!
//! | pending | + added | + updated | + deleted |
//! |---|---|---|---|
//! | nothing | added | updated | deleted |
//! | added | (impossible) | added, newest | nothing |
//! | updated | (impossible) | updated, oldest old to newest new | deleted |
//! | deleted | deleted, added | (impossible) | (impossible) |
//! | deleted, added | (impossible) | deleted, added newest | deleted |
//!
//! The pump never emits the combinations marked as impossible, because its history per key is legal. If one
//! occurs, the newer event replaces the pending one.

use std::collections::VecDeque;
use std::sync::Arc;

use hashbrown::HashMap;
use informer_core::{Object, ObjectKey};

use crate::Event;

/// # Invariants
///
/// 1. `order` contains each key of `by_key` once, in the order in which the keys' first events were added. It
///    also contains stale entries of keys whose events were canceled; `pop` skips those.
/// 2. `len` is the number of pending events. A key has at most two.
pub(super) struct CoalescedEvents<O> {
    by_key: HashMap<ObjectKey, Slot<O>>,
    order: VecDeque<(ObjectKey, u64)>,
    /// The ticket of the next entry in `order`. Tickets distinguish the current entry of a key from its stale
    /// entries, which remain after an add and a delete canceled each other.
    next_ticket: u64,
    len: usize,
}

struct Slot<O> {
    ticket: u64,
    first: Event<O>,
    /// A pending add that follows a pending delete of the same key: the deleted object was re-created, and
    /// the two events must not be merged.
    second: Option<Event<O>>,
}

impl<O> Default for CoalescedEvents<O> {
    fn default() -> Self {
        Self { by_key: HashMap::new(), order: VecDeque::new(), next_ticket: 0, len: 0 }
    }
}

impl<O: Object> CoalescedEvents<O> {
    /// Adds an event and merges it with the pending events of its key. Returns the number of initial events
    /// that will never be delivered because of the merge, including the new event itself.
    pub(super) fn push(&mut self, event: &Event<O>) -> usize {
        let Some(slot) = self.by_key.get_mut(event.key()) else {
            self.insert(event.clone());
            return 0;
        };
        let events_before = 1 + usize::from(slot.second.is_some());
        let waiting = slot.second.as_ref().unwrap_or(&slot.first);
        let merged = merge(waiting, event);
        let taken_back = initial(waiting) + initial(event)
            - match &merged {
                Merged::Nothing => 0,
                Merged::One(merged) => initial(merged),
                Merged::Both(event) => initial(waiting) + initial(event),
            };
        match (slot.second.is_some(), merged) {
            (true, Merged::One(event)) => slot.second = Some(event),
            (true, Merged::Nothing) => slot.second = None,
            (false, Merged::One(event)) => slot.first = event,
            (false, Merged::Both(event)) | (true, Merged::Both(event)) => slot.second = Some(event),
            (false, Merged::Nothing) => {
                self.by_key.remove(event.key());
                self.len -= 1;
                self.compact();
                return taken_back;
            }
        }
        self.len = self.len + 1 + usize::from(slot.second.is_some()) - events_before;
        taken_back
    }

    fn insert(&mut self, event: Event<O>) {
        let (key, ticket) = (event.key().clone(), self.next_ticket);
        self.next_ticket += 1;
        self.order.push_back((key.clone(), ticket));
        self.by_key.insert(key, Slot { ticket, first: event, second: None });
        self.len += 1;
    }

    /// Removes stale entries from `order`. Otherwise `order` would grow without bound while the handler is
    /// blocked.
    fn compact(&mut self) {
        if self.order.len() > 2 * self.by_key.len() + 64 {
            let by_key = &self.by_key;
            self.order.retain(|(key, ticket)| by_key.get(key).is_some_and(|slot| slot.ticket == *ticket));
        }
    }

    pub(super) fn pop(&mut self) -> Option<Event<O>> {
        loop {
            let (key, ticket) = self.order.pop_front()?;
            if self.by_key.get(&key).is_none_or(|slot| slot.ticket != ticket) {
                continue;
            }
            self.len -= 1;
            let slot = self.by_key.get_mut(&key)?;
            return match slot.second.take() {
                // The key has two pending events: a delete, and the add of the object that replaced the
                // deleted one. The delete is returned now. The add stays at the head of `order`, so it is
                // returned next.
                Some(second) => {
                    let first = std::mem::replace(&mut slot.first, second);
                    self.order.push_front((key, ticket));
                    Some(first)
                }
                None => self.by_key.remove(&key).map(|slot| slot.first),
            };
        }
    }
}

impl<O> CoalescedEvents<O> {
    pub(super) fn len(&self) -> usize {
        self.len
    }
}

enum Merged<O> {
    Nothing,
    One(Event<O>),
    /// A pending delete and the new add of another object with the same key are not merged. The delete is
    /// delivered first, then the add.
    Both(Event<O>),
}

fn initial<O>(event: &Event<O>) -> usize {
    usize::from(matches!(event, Event::Added { initial: true, .. }))
}

fn merge<O>(waiting: &Event<O>, event: &Event<O>) -> Merged<O> {
    match (waiting, event) {
        (Event::Added { .. }, Event::Deleted { .. }) => Merged::Nothing,
        (Event::Added { initial, .. }, Event::Updated { new, .. }) => {
            Merged::One(Event::Added { object: Arc::clone(new), initial: *initial })
        }
        (Event::Updated { .. }, Event::Updated { resync: true, .. }) => Merged::One(waiting.clone()),
        (Event::Updated { old, .. }, Event::Updated { new, .. }) => {
            Merged::One(Event::Updated { old: Arc::clone(old), new: Arc::clone(new), resync: false })
        }
        (Event::Deleted { .. }, Event::Added { .. }) => Merged::Both(event.clone()),
        (_, event) => Merged::One(event.clone()),
    }
}

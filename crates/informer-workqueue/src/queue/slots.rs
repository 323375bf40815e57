//! A slab of keys. A key is stored once, and beside it what the queue knows about it; sets, orders and the heap of
//! delays refer to it by a number of four bytes.
//!
//! What is known of a key stands apart from the key, so that an [`Order`](super::Order) is given the one without the
//! other.
//!
//! # Invariants
//! 1. A slot without a key is in the free list, and in nothing else.
//! 2. `prev` and `next` belong to the one [`List`] that holds the slot, or to the free list.

use std::ops::{Index, IndexMut};

use super::groups::NO_GROUP;

/// The number of a slot.
pub(super) type SlotId = u32;

/// No slot.
pub(super) const NONE: SlotId = SlotId::MAX;

/// What is to come for a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pending {
    /// Nothing was asked for since the key was handed out.
    Idle,
    /// It becomes ready at a moment held by the heap of delays.
    Waiting,
    /// It is to be handed out: it is in the order, or it is processed and goes there when that is done.
    Ready,
}

#[derive(Debug)]
pub(super) struct Slot {
    pub(super) hash: u32,
    prev: SlotId,
    next: SlotId,
    pub(super) priority: i32,
    /// Counts hand-outs, so that an outcome that comes twice is told from the outcome of a later hand-out.
    pub(super) handout: u32,
    pub(super) pending: Pending,
    pub(super) processing: bool,
}

/// A key that enters the queue, and what was found out about it before the lock was taken.
#[derive(Debug)]
pub(super) struct Newcomer<K> {
    pub(super) key: K,
    pub(super) hash: u32,
    pub(super) group: u32,
    pub(super) rank: Option<u64>,
}

/// What an [`Order`](super::Order) knows of the keys it puts in order, which it names by their [`EntryId`].
#[derive(Debug, Default)]
pub struct Entries {
    list: Vec<Slot>,
    /// Empty as long as no key has a rank.
    ranks: Vec<u64>,
    /// Empty as long as no key has a group.
    groups: Vec<u32>,
}

/// The number of a key in the queue. Numbers are small, and given again to other keys after theirs are gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntryId(pub(super) SlotId);

impl EntryId {
    /// For tables that orders keep beside the entries.
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl Entries {
    /// The highest priority with which the key was added since it was last handed out.
    #[must_use]
    pub fn priority(&self, id: EntryId) -> i32 {
        self.list[id.index()].priority
    }

    /// The number of the key's group: the same for keys of one group, as long as one of them is in the queue.
    #[must_use]
    pub fn group(&self, id: EntryId) -> u32 {
        self.groups.get(id.index()).copied().unwrap_or(NO_GROUP)
    }

    /// What [`rank_by`](crate::WorkQueueBuilder::rank_by) computed from the key, 0 without it.
    #[must_use]
    pub fn rank(&self, id: EntryId) -> u64 {
        self.ranks.get(id.index()).copied().unwrap_or_default()
    }

    /// Whether a key is to be handed out, and by an order: not while it is in process.
    pub(super) fn is_ready(&self, id: SlotId) -> bool {
        self.list.get(id as usize).is_some_and(|slot| slot.pending == Pending::Ready && !slot.processing)
    }

    pub(super) fn len(&self) -> usize {
        self.list.len()
    }
}

pub(super) struct Slots<K> {
    keys: Vec<Option<K>>,
    pub(super) entries: Entries,
    free: SlotId,
}

impl<K> Slots<K> {
    pub(super) fn new() -> Self {
        Self { keys: Vec::new(), entries: Entries::default(), free: NONE }
    }

    /// `None` in a free slot.
    pub(super) fn key(&self, id: SlotId) -> Option<&K> {
        self.keys[id as usize].as_ref()
    }

    /// Gives back the key where `limit` slots are taken.
    #[inline]
    pub(super) fn insert(&mut self, newcomer: Newcomer<K>, limit: u32) -> Result<SlotId, K> {
        let Newcomer { key, hash, group, rank } = newcomer;
        let mut id = self.free;
        if id == NONE {
            id = match SlotId::try_from(self.keys.len()) {
                Ok(id) if id < limit => id,
                _ => return Err(key),
            };
            self.keys.push(Some(key));
            self.entries.list.push(Slot::new(hash));
        } else {
            self.free = self[id].next;
            let handout = self[id].handout;
            self[id] = Slot { handout, ..Slot::new(hash) };
            self.keys[id as usize] = Some(key);
        }
        if let Some(rank) = rank {
            set(&mut self.entries.ranks, id, rank, 0);
        }
        if group != NO_GROUP {
            set(&mut self.entries.groups, id, group, NO_GROUP);
        }
        Ok(id)
    }

    /// The group of the key must have been [left](super::groups::Groups::leave).
    #[inline]
    pub(super) fn remove(&mut self, id: SlotId) -> Option<K> {
        if let Some(group) = self.entries.groups.get_mut(id as usize) {
            *group = NO_GROUP;
        }
        self[id].next = self.free;
        self.free = id;
        self.keys[id as usize].take()
    }

    #[cfg(test)]
    pub(super) fn occupied(&self) -> impl Iterator<Item = (SlotId, &Slot)> {
        (0..).zip(&self.entries.list).filter(|&(id, _)| self.key(id).is_some())
    }
}

/// In a column that is as long as its last entry that differs from the `absent` ones.
fn set<T: Clone>(column: &mut Vec<T>, id: SlotId, value: T, absent: T) {
    column.resize(column.len().max(id as usize + 1), absent);
    column[id as usize] = value;
}

impl Slot {
    const fn new(hash: u32) -> Self {
        Self {
            hash,
            prev: NONE,
            next: NONE,
            priority: 0,
            handout: 0,
            pending: Pending::Idle,
            processing: false,
        }
    }
}

impl<K> Index<SlotId> for Slots<K> {
    type Output = Slot;

    #[inline]
    fn index(&self, id: SlotId) -> &Slot {
        &self.entries.list[id as usize]
    }
}

impl<K> IndexMut<SlotId> for Slots<K> {
    #[inline]
    fn index_mut(&mut self, id: SlotId) -> &mut Slot {
        &mut self.entries.list[id as usize]
    }
}

/// First in, first out, linked through the slots: no memory of its own, and any member leaves at once.
#[derive(Debug)]
pub(super) struct List {
    head: SlotId,
    tail: SlotId,
    len: usize,
}

impl List {
    pub(super) const fn new() -> Self {
        Self { head: NONE, tail: NONE, len: 0 }
    }

    pub(super) fn first(&self) -> Option<EntryId> {
        (self.head != NONE).then_some(EntryId(self.head))
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(super) fn push(&mut self, entries: &mut Entries, EntryId(id): EntryId) {
        let (tail, list) = (self.tail, &mut entries.list);
        let slot = &mut list[id as usize];
        (slot.prev, slot.next) = (tail, NONE);
        if tail == NONE {
            self.head = id;
        } else {
            list[tail as usize].next = id;
        }
        self.tail = id;
        self.len += 1;
    }

    #[inline]
    pub(super) fn remove(&mut self, entries: &mut Entries, EntryId(id): EntryId) {
        let list = &mut entries.list;
        let (prev, next) = (list[id as usize].prev, list[id as usize].next);
        if prev == NONE {
            self.head = next;
        } else {
            list[prev as usize].next = next;
        }
        if next == NONE {
            self.tail = prev;
        } else {
            list[next as usize].prev = prev;
        }
        self.len -= 1;
    }
}

//! A slab of keys with their state. Each key is stored once; sets, orders and the delay heap refer to the key
//! by the number of its slot, which has four bytes.
//!
//! The state is stored apart from the keys, so that an [`Order`](super::Order) gets access to the state but
//! not to the keys.
//!
//! # Invariants
//! 1. A slot without a key is in the free list, and in no other structure.
//! 2. `prev` and `next` belong to the one [`List`] that holds the slot, or to the free list.

use std::ops::{Index, IndexMut};

use super::groups::NO_GROUP;

pub(super) type SlotId = u32;

/// The slot number that marks the end of a list of slots. No slot has this number.
pub(super) const NONE: SlotId = SlotId::MAX;

/// Whether a key in the queue is requested again, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pending {
    /// The key was not added again since it was handed out.
    Idle,
    /// The key becomes ready at a deadline in the delay heap.
    Waiting,
    /// The key is ready: it is in the order, or it is in process and enters the order when its worker
    /// finishes it.
    Ready,
}

#[derive(Debug)]
pub(super) struct Slot {
    pub(super) hash: u32,
    prev: SlotId,
    next: SlotId,
    pub(super) priority: i32,
    /// Number of times that a key of this slot was handed out. If a hand-out is finished twice, the second
    /// call is recognized by this number and ignored.
    pub(super) handout: u32,
    pub(super) pending: Pending,
    pub(super) processing: bool,
}

/// A key to be inserted, and the hash, group and rank that were computed from the key before the lock was
/// taken.
#[derive(Debug)]
pub(super) struct NewKey<K> {
    pub(super) key: K,
    pub(super) hash: u32,
    pub(super) group: u32,
    pub(super) rank: Option<u64>,
}

/// The attributes of keys that an [`Order`](super::Order) can use, by [`EntryId`].
#[derive(Debug, Default)]
pub struct Entries {
    list: Vec<Slot>,
    /// The rank of the key in each slot. The vector ends at the last slot whose rank was set, so it needs no
    /// memory in a queue without ranks.
    ranks: Vec<u64>,
    /// The number of the group (see `WorkQueueBuilder::fair_by`) of the key in each slot. The vector is empty
    /// in a queue without groups.
    groups: Vec<u32>,
}

/// The number that an [`Order`](super::Order) uses instead of a key. Numbers are small and are reused after
/// their keys are removed from the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntryId(pub(super) SlotId);

impl EntryId {
    /// Returns the number as an index into tables of a user-defined order.
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl Entries {
    /// Returns the highest priority with which the key was added since it was last handed out.
    #[must_use]
    pub fn priority(&self, id: EntryId) -> i32 {
        self.list[id.index()].priority
    }

    /// Returns the number of the key's group. The number of a group does not change while the queue contains
    /// a key of the group.
    #[must_use]
    pub fn group(&self, id: EntryId) -> u32 {
        self.groups.get(id.index()).copied().unwrap_or(NO_GROUP)
    }

    /// Returns the result of [`rank_by`](crate::WorkQueueBuilder::rank_by) for the key; 0 without it.
    #[must_use]
    pub fn rank(&self, id: EntryId) -> u64 {
        self.ranks.get(id.index()).copied().unwrap_or_default()
    }

    /// Returns true if the key of a slot is in the order: it is ready and not in process.
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

    pub(super) fn key(&self, id: SlotId) -> Option<&K> {
        self.keys[id as usize].as_ref()
    }

    /// Inserts a key. If `limit` slots are already in use, returns the key as the error.
    #[inline]
    pub(super) fn insert(&mut self, newcomer: NewKey<K>, limit: u32) -> Result<SlotId, K> {
        let NewKey { key, hash, group, rank } = newcomer;
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

    /// Removes a key. The key must have [left](super::groups::Groups::leave) its group before.
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

/// Sets the value of a slot in `column`. If the vector is too short, it is extended with `absent`.
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

/// A FIFO list that is linked through the slots. It allocates no memory, and removes any member in constant
/// time.
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

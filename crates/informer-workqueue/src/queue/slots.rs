//! A slab of keys. A key is stored once, with everything the queue knows about it; sets, orders and the heap of
//! delays refer to it by a number of four bytes.
//!
//! # Invariants
//! 1. A slot without a key is in the free list, and in nothing else.
//! 2. `prev` and `next` belong to the one [`List`] that holds the slot, or to the free list.

use std::ops::{Index, IndexMut};

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

pub(super) struct Slot<K> {
    /// `None` in a free slot.
    pub(super) key: Option<K>,
    pub(super) hash: u32,
    prev: SlotId,
    next: SlotId,
    pub(super) priority: i32,
    pub(super) group: u32,
    /// Counts hand-outs, so that an outcome that comes twice is told from the outcome of a later hand-out.
    pub(super) handout: u32,
    pub(super) pending: Pending,
    pub(super) processing: bool,
}

pub(super) struct Slots<K> {
    list: Vec<Slot<K>>,
    free: SlotId,
}

impl<K> Slots<K> {
    pub(super) const fn new() -> Self {
        Self { list: Vec::new(), free: NONE }
    }

    /// Gives back the key where all numbers are taken.
    pub(super) fn insert(&mut self, key: K, hash: u32, group: u32) -> Result<SlotId, K> {
        let id = self.free;
        if id != NONE {
            let slot = &mut self[id];
            let (free, handout) = (slot.next, slot.handout);
            *slot = Slot { handout, ..Slot::new(key, hash, group) };
            self.free = free;
            return Ok(id);
        }
        match SlotId::try_from(self.list.len()) {
            Ok(id) if id < super::KEYS_MAX => {
                self.list.push(Slot::new(key, hash, group));
                Ok(id)
            }
            _ => Err(key),
        }
    }

    pub(super) fn remove(&mut self, id: SlotId) -> Option<K> {
        let free = self.free;
        let slot = &mut self[id];
        slot.next = free;
        let key = slot.key.take();
        self.free = id;
        key
    }

    #[cfg(test)]
    pub(super) fn occupied(&self) -> impl Iterator<Item = (SlotId, &Slot<K>)> {
        (0..).zip(&self.list).filter(|(_, slot)| slot.key.is_some())
    }
}

impl<K> Slot<K> {
    const fn new(key: K, hash: u32, group: u32) -> Self {
        Self {
            key: Some(key),
            hash,
            prev: NONE,
            next: NONE,
            priority: 0,
            group,
            handout: 0,
            pending: Pending::Idle,
            processing: false,
        }
    }
}

impl<K> Index<SlotId> for Slots<K> {
    type Output = Slot<K>;

    #[inline]
    fn index(&self, id: SlotId) -> &Slot<K> {
        &self.list[id as usize]
    }
}

impl<K> IndexMut<SlotId> for Slots<K> {
    #[inline]
    fn index_mut(&mut self, id: SlotId) -> &mut Slot<K> {
        &mut self.list[id as usize]
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

    pub(super) fn first(&self) -> Option<SlotId> {
        (self.head != NONE).then_some(self.head)
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn push<K>(&mut self, slots: &mut Slots<K>, id: SlotId) {
        let tail = self.tail;
        let slot = &mut slots[id];
        (slot.prev, slot.next) = (tail, NONE);
        if tail == NONE {
            self.head = id;
        } else {
            slots[tail].next = id;
        }
        self.tail = id;
        self.len += 1;
    }

    pub(super) fn remove<K>(&mut self, slots: &mut Slots<K>, id: SlotId) {
        let (prev, next) = (slots[id].prev, slots[id].next);
        if prev == NONE {
            self.head = next;
        } else {
            slots[prev].next = next;
        }
        if next == NONE {
            self.tail = prev;
        } else {
            slots[next].prev = prev;
        }
        self.len -= 1;
    }
}

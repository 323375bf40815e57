//! The delay heap: waiting keys ordered by deadline. It is a 4-ary heap that records the position of each
//! slot. Deadlines can therefore be changed and keys removed without leaving stale entries.
//!
//! # Invariants
//! 1. No node is due before its parent; nodes due at the same time are ordered by their adds.
//! 2. `positions[slot]` is the node of that slot, or [`NONE`].

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use super::slots::{NONE, SlotId};
use crate::clock::Nanos;

/// Number of children of a heap node. Four entries of 16 bytes share a cache line.
const ARITY: usize = 4;

/// An entry of the heap. It consists of two words, so that it is passed in registers.
#[derive(Clone, Copy, Debug)]
struct DelayEntry {
    due: Nanos,
    /// The sequence number of the entry in the high half, and its slot in the low half.
    seq_slot: u64,
}

impl DelayEntry {
    const fn new(due: Nanos, seq: u32, slot: SlotId) -> Self {
        Self { due, seq_slot: (seq as u64) << 32 | slot as u64 }
    }

    /// Returns the sequence number of the entry. Sequence numbers wrap around; they are compared only among
    /// entries with the same deadline.
    const fn seq(self) -> u32 {
        let [_, _, _, _, a, b, c, d] = self.seq_slot.to_le_bytes();
        u32::from_le_bytes([a, b, c, d])
    }

    const fn slot(self) -> SlotId {
        let [a, b, c, d, ..] = self.seq_slot.to_le_bytes();
        SlotId::from_le_bytes([a, b, c, d])
    }

    fn before(self, other: Self) -> bool {
        let tie = || self.seq().wrapping_sub(other.seq()) > u32::MAX / 2;
        self.due < other.due || (self.due == other.due && tie())
    }
}

#[derive(Debug, Default)]
pub(super) struct Delays {
    heap: Vec<DelayEntry>,
    positions: Vec<u32>,
    seq: u32,
}

impl Delays {
    pub(super) fn len(&self) -> usize {
        self.heap.len()
    }

    #[inline]
    pub(super) fn next_due(&self) -> Option<Nanos> {
        self.heap.first().map(|entry| entry.due)
    }

    pub(super) fn due(&self, slot: SlotId) -> Option<Nanos> {
        self.position(slot).map(|at| self.heap[at].due)
    }

    /// Inserts a slot that is not in the heap yet. Returns whether the earliest deadline of the heap changed.
    #[inline]
    pub(super) fn push(&mut self, slot: SlotId, due: Nanos) -> bool {
        match self.positions.len().cmp(&(slot as usize)) {
            Ordering::Equal => self.positions.push(NONE),
            Ordering::Less => self.positions.resize(slot as usize + 1, NONE),
            Ordering::Greater => {}
        }
        self.seq = self.seq.wrapping_add(1);
        let entry = DelayEntry::new(due, self.seq, slot);
        self.heap.push(entry);
        self.rise(self.heap.len() - 1, entry) == 0
    }

    /// Moves a slot to an earlier deadline; a later deadline is ignored. Returns whether the earliest
    /// deadline of the heap changed.
    pub(super) fn advance(&mut self, slot: SlotId, due: Nanos) -> bool {
        let Some(at) = self.position(slot).filter(|&at| due < self.heap[at].due) else { return false };
        self.rise(at, DelayEntry { due, ..self.heap[at] }) == 0
    }

    #[inline]
    pub(super) fn remove(&mut self, slot: SlotId) -> bool {
        let Some(at) = self.position(slot) else { return false };
        self.positions[slot as usize] = NONE;
        self.heap.swap_remove(at);
        if at < self.heap.len() {
            let at = self.rise(at, self.heap[at]);
            self.sink(at);
        }
        true
    }

    pub(super) fn pop_due(&mut self, now: Nanos) -> Option<(SlotId, Nanos)> {
        let first = *self.heap.first().filter(|entry| entry.due <= now)?;
        self.remove(first.slot());
        Some((first.slot(), first.due))
    }

    /// Removes the slot in the last node of the heap, which is the cheapest to remove. Used for emptying the
    /// heap.
    pub(super) fn pop_any(&mut self) -> Option<SlotId> {
        let last = self.heap.pop()?;
        self.positions[last.slot() as usize] = NONE;
        Some(last.slot())
    }

    /// Returns the `max` slots with the earliest deadlines, sorted by deadline, without changing the heap.
    pub(super) fn first(&self, max: usize) -> Vec<(SlotId, Nanos)> {
        // Sorts the nodes by deadline, then by age. Ages are compared instead of sequence numbers, because
        // sequence numbers wrap around.
        let turn = |node: usize| {
            let entry = self.heap[node];
            Reverse((entry.due, Reverse(self.seq.wrapping_sub(entry.seq())), node))
        };
        let max = max.min(self.heap.len());
        let mut found = Vec::with_capacity(max);
        let mut frontier = BinaryHeap::new();
        frontier.extend((max > 0).then(|| turn(0)));
        while found.len() < max
            && let Some(Reverse((due, _, node))) = frontier.pop()
        {
            found.push((self.heap[node].slot(), due));
            frontier.extend(self.children(node).map(turn));
        }
        found
    }

    #[inline]
    fn position(&self, slot: SlotId) -> Option<usize> {
        self.positions.get(slot as usize).filter(|&&at| at != NONE).map(|&at| at as usize)
    }

    fn children(&self, node: usize) -> std::ops::Range<usize> {
        let first = node * ARITY + 1;
        first.min(self.heap.len())..(first + ARITY).min(self.heap.len())
    }

    fn place(&mut self, at: usize, entry: DelayEntry) {
        self.heap[at] = entry;
        // The conversion cannot fail: the heap holds at most one entry per slot, and slots are numbered in 32
        // bits.
        self.positions[entry.slot() as usize] = u32::try_from(at).unwrap_or(NONE);
    }

    /// Moves an entry from the node `at` towards the root, as far as its deadline requires. Returns its new
    /// position.
    #[inline]
    fn rise(&mut self, mut at: usize, entry: DelayEntry) -> usize {
        while at > 0 {
            let parent = (at - 1) / ARITY;
            if !entry.before(self.heap[parent]) {
                break;
            }
            self.place(at, self.heap[parent]);
            at = parent;
        }
        self.place(at, entry);
        at
    }

    fn sink(&mut self, mut at: usize) {
        let entry = self.heap[at];
        loop {
            let children = self.children(at);
            let Some(first) = children
                .clone()
                .reduce(|best, child| if self.heap[child].before(self.heap[best]) { child } else { best })
            else {
                break;
            };
            if !self.heap[first].before(entry) {
                break;
            }
            self.place(at, self.heap[first]);
            at = first;
        }
        self.place(at, entry);
    }

    #[cfg(test)]
    pub(super) fn assert_invariants(&self) {
        for at in 1..self.heap.len() {
            assert!(!self.heap[at].before(self.heap[(at - 1) / ARITY]), "node {at} is due before its parent");
        }
        for (at, entry) in self.heap.iter().enumerate() {
            assert_eq!(self.position(entry.slot()), Some(at), "slot {} is at its position", entry.slot());
        }
        let placed = self.positions.iter().filter(|&&at| at != NONE).count();
        assert_eq!(placed, self.heap.len(), "only slots in the heap have a position");
    }
}

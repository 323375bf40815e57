//! Round-robin over groups, first in, first out within a group.
//!
//! # Invariants
//! 1. `turns` holds exactly the groups with a ready key.
//! 2. The groups in `turns` form one circular list from `front` to `back`.

use hashbrown::HashMap;

use super::{Depths, Entries, EntryId, Order};
use crate::queue::slots::List;

/// The value for "no group". Group numbers are never larger than slot numbers, which are smaller than this
/// value.
const NONE: u32 = u32::MAX;

#[derive(Debug)]
struct Turn {
    list: List,
    prev: u32,
    next: u32,
}

/// Round-robin over groups: one key of each group after another, first in, first out within a group. This is
/// the order of a queue with [`fair_by`](crate::WorkQueueBuilder::fair_by).
#[derive(Debug)]
pub struct FairOrder {
    turns: HashMap<u32, Turn>,
    front: u32,
    back: u32,
    len: usize,
}

impl Default for FairOrder {
    fn default() -> Self {
        Self { turns: HashMap::new(), front: NONE, back: NONE, len: 0 }
    }
}

impl FairOrder {
    fn append(&mut self, group: u32, list: List) {
        let prev = self.back;
        self.turns.insert(group, Turn { list, prev, next: NONE });
        match self.turns.get_mut(&prev) {
            Some(turn) => turn.next = group,
            None => self.front = group,
        }
        self.back = group;
    }

    fn detach(&mut self, group: u32) -> Option<List> {
        let Turn { list, prev, next } = self.turns.remove(&group)?;
        match self.turns.get_mut(&prev) {
            Some(turn) => turn.next = next,
            None => self.front = next,
        }
        match self.turns.get_mut(&next) {
            Some(turn) => turn.prev = prev,
            None => self.back = prev,
        }
        Some(list)
    }
}

impl Order for FairOrder {
    fn push(&mut self, entries: &mut Entries, id: EntryId) {
        let group = entries.group(id);
        match self.turns.get_mut(&group) {
            Some(turn) => turn.list.push(entries, id),
            None => {
                let mut list = List::new();
                list.push(entries, id);
                self.append(group, list);
            }
        }
        self.len += 1;
    }

    fn peek(&self, _entries: &Entries) -> Option<EntryId> {
        self.turns.get(&self.front)?.list.first()
    }

    /// Moves the group of the handed-out entry to the end of the circular list.
    fn take(&mut self, entries: &mut Entries, id: EntryId) {
        let group = entries.group(id);
        let Some(mut list) = self.detach(group) else { return };
        list.remove(entries, id);
        self.len -= 1;
        if list.len() > 0 {
            self.append(group, list);
        }
    }

    fn remove(&mut self, entries: &mut Entries, id: EntryId) {
        let group = entries.group(id);
        let Some(turn) = self.turns.get_mut(&group) else { return };
        turn.list.remove(entries, id);
        self.len -= 1;
        if turn.list.len() == 0 {
            self.detach(group);
        }
    }

    fn len(&self) -> usize {
        self.len
    }

    fn depths(&self, row: &mut Depths<'_>) {
        for (&group, turn) in &self.turns {
            row(None, Some(group), turn.list.len());
        }
    }
}

//! Higher priorities first, with a nested order within each priority.
//!
//! Aging, which prevents starvation of low priorities, counts hand-outs instead of seconds. It needs no
//! clock, costs one comparison, and its bound holds at any load. With a bound in seconds, a queue with a
//! longer backlog would hand out all keys in arrival order. A *level* is the nested order of the ready keys
//! of one priority.
//!
//! # Invariants
//! 1. A slot is in the level of its priority.
//! 2. A slot is in `ages` iff it is in a level.
//! 3. At most [`LEVELS_KEPT`] levels exist in addition to those that contain a slot.

use std::collections::BTreeMap;

use super::{Depths, Entries, EntryId, Order};
use crate::queue::slots::{NONE, SlotId};

/// Maximum number of empty levels (nested orders of one priority) that are retained for reuse, because a
/// queue uses the same few priorities repeatedly.
const LEVELS_KEPT: usize = 8;

/// The policy of a queue with priorities against starvation of low priorities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Aging {
    /// Keys of low priority may starve: the highest priority is always next.
    Off,
    /// While the key that has been ready longest is passed over for higher priorities, every n-th hand-out
    /// goes to it.
    ///
    /// A key that is ready together with m keys that became ready before it is therefore handed out after at
    /// most n·(m + 1) hand-outs, whatever is added later. 0 counts as 1, which is arrival order. In a queue
    /// that is also fair, m counts the turns of the groups that became ready before.
    Every(u32),
}

impl Default for Aging {
    /// The default is every 16th hand-out: low priorities get at least six percent of the hand-outs.
    fn default() -> Self {
        Self::Every(16)
    }
}

/// Higher priorities first, with a nested order within each priority. The order of a queue with
/// [`priorities`](crate::WorkQueueBuilder::priorities).
#[derive(Debug)]
pub struct PriorityOrder<L> {
    levels: BTreeMap<i32, L>,
    ages: Ages,
    aging: Aging,
    /// Number of hand-outs since the key that has been ready longest was first passed over for a higher
    /// priority.
    passed_over: u32,
    len: usize,
}

impl<L> PriorityOrder<L> {
    /// Creates an empty order with this policy against starvation.
    #[must_use]
    pub fn new(aging: Aging) -> Self {
        let ages = Ages { links: Vec::new(), oldest: NONE, newest: NONE };
        Self { levels: BTreeMap::new(), ages, aging, passed_over: 0, len: 0 }
    }

    fn aged(&self) -> Option<EntryId> {
        match self.aging {
            Aging::Every(n) if self.passed_over + 1 >= n => self.ages.oldest(),
            _ => None,
        }
    }
}

impl<L: Order + Default> PriorityOrder<L> {
    /// Removes an entry from the nested order of `priority`; `how` performs the removal.
    fn leave(&mut self, priority: i32, how: impl FnOnce(&mut L)) {
        let level = self.levels.entry(priority).or_default();
        how(level);
        if level.len() == 0 && self.levels.len() > LEVELS_KEPT {
            self.levels.remove(&priority);
        }
    }
}

impl<L: Order + Default> Order for PriorityOrder<L> {
    fn push(&mut self, entries: &mut Entries, id: EntryId) {
        self.levels.entry(entries.priority(id)).or_default().push(entries, id);
        self.ages.push(id.0);
        self.len += 1;
    }

    fn peek(&self, entries: &Entries) -> Option<EntryId> {
        self.aged().or_else(|| self.levels.values().rev().find_map(|level| level.peek(entries)))
    }

    fn take(&mut self, entries: &mut Entries, id: EntryId) {
        match self.ages.oldest() {
            Some(oldest) if id == oldest => self.passed_over = 0,
            Some(oldest) if entries.priority(oldest) < entries.priority(id) => {
                self.passed_over = self.passed_over.saturating_add(1);
            }
            _ => {}
        }
        self.leave(entries.priority(id), |level| level.take(entries, id));
        self.ages.remove(id.0);
        self.len -= 1;
    }

    fn remove(&mut self, entries: &mut Entries, id: EntryId) {
        self.leave(entries.priority(id), |level| level.remove(entries, id));
        self.ages.remove(id.0);
        self.len -= 1;
    }

    /// Moves the entry to the end of the nested order of its new priority. Its age stays the same.
    fn raised(&mut self, entries: &mut Entries, id: EntryId, before: i32) {
        self.leave(before, |level| level.remove(entries, id));
        self.levels.entry(entries.priority(id)).or_default().push(entries, id);
    }

    fn len(&self) -> usize {
        self.len
    }

    fn depths(&self, row: &mut Depths<'_>) {
        for (&priority, level) in self.levels.iter().rev().filter(|(_, level)| level.len() > 0) {
            level.depths(&mut |_, group, len| row(Some(priority), group, len));
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Link {
    older: SlotId,
    newer: SlotId,
}

/// The ready slots of all priorities, sorted by the time at which they became ready.
#[derive(Debug)]
struct Ages {
    links: Vec<Link>,
    oldest: SlotId,
    newest: SlotId,
}

impl Ages {
    fn oldest(&self) -> Option<EntryId> {
        (self.oldest != NONE).then_some(EntryId(self.oldest))
    }

    fn push(&mut self, id: SlotId) {
        if self.links.len() <= id as usize {
            self.links.resize(id as usize + 1, Link { older: NONE, newer: NONE });
        }
        let older = self.newest;
        self.links[id as usize] = Link { older, newer: NONE };
        match self.links.get_mut(older as usize) {
            Some(link) => link.newer = id,
            None => self.oldest = id,
        }
        self.newest = id;
    }

    fn remove(&mut self, id: SlotId) {
        let Link { older, newer } = self.links[id as usize];
        match self.links.get_mut(older as usize) {
            Some(link) => link.newer = newer,
            None => self.oldest = newer,
        }
        match self.links.get_mut(newer as usize) {
            Some(link) => link.older = older,
            None => self.newest = older,
        }
    }
}

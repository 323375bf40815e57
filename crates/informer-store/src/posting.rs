//! A posting: the slots (numbers in the store) of all objects that have the same value in an index, in
//! ascending order. A long posting is split into runs, which are vectors of limited length.
//!
//! # Invariants
//!
//! 1. Slots are strictly ascending across all runs.
//! 2. A posting that is one vector (`Few`) has at most [`RUN_SLOTS`] slots. No run of a posting of several
//!    runs (`Many`) is empty or longer than that.

use std::sync::Arc;

/// The maximum number of slots in a run before the run is split. It limits how many slots one insertion
/// moves, and how many the first change after a snapshot copies. One run takes 4 KB.
const RUN_SLOTS: usize = 1024;

/// The slots of all objects that have one value in an index. The representation depends on the number of
/// slots: most values have one (such as the uid of an owner), some have a hundred (such as the name of a
/// node), and a few have nearly all (such as a namespace).
#[derive(Clone, Debug)]
pub(crate) enum Posting {
    One(u32),
    Few(Vec<u32>),
    Many(Vec<Arc<Vec<u32>>>),
}

impl Posting {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::One(_) => 1,
            Self::Few(slots) => slots.len(),
            Self::Many(runs) => runs.iter().map(|run| run.len()).sum(),
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> {
        let (one, few, many): (_, &[u32], &[Arc<Vec<u32>>]) = match self {
            Self::One(slot) => (Some(*slot), &[], &[]),
            Self::Few(slots) => (None, slots, &[]),
            Self::Many(runs) => (None, &[], runs),
        };
        one.into_iter().chain(few.iter().copied()).chain(many.iter().flat_map(|run| run.iter().copied()))
    }

    pub(crate) fn insert(&mut self, slot: u32) {
        match self {
            Self::One(first) if *first == slot => {}
            Self::One(first) => *self = Self::Few(vec![slot.min(*first), slot.max(*first)]),
            Self::Few(slots) => {
                insert_sorted(slots, slot);
                if slots.len() > RUN_SLOTS {
                    let tail = slots.split_off(split_at(slots, slot));
                    *self = Self::Many(vec![Arc::new(std::mem::take(slots)), Arc::new(tail)]);
                }
            }
            Self::Many(runs) => {
                let at = run_of(runs, slot);
                let run = Arc::make_mut(&mut runs[at]);
                insert_sorted(run, slot);
                if run.len() > RUN_SLOTS {
                    let tail = run.split_off(split_at(run, slot));
                    runs.insert(at + 1, Arc::new(tail));
                }
            }
        }
    }

    /// Removes a slot. Returns true if no slot is left, so that the value must be removed from the index.
    pub(crate) fn remove(&mut self, slot: u32) -> bool {
        match self {
            Self::One(only) => *only == slot,
            Self::Few(slots) => {
                remove_sorted(slots, slot);
                slots.is_empty()
            }
            Self::Many(runs) => {
                let at = run_of(runs, slot);
                let run = Arc::make_mut(&mut runs[at]);
                remove_sorted(run, slot);
                if run.is_empty() {
                    runs.remove(at);
                }
                runs.is_empty()
            }
        }
    }
}

/// Returns the position of the run that contains `slot`, or into which `slot` must be inserted.
fn run_of(runs: &[Arc<Vec<u32>>], slot: u32) -> usize {
    runs.partition_point(|run| run.first().is_some_and(|first| *first <= slot)).saturating_sub(1)
}

/// Returns the position at which a full run is split. Slots mostly arrive in ascending order; then the run is
/// split at its end, which leaves full runs.
fn split_at(run: &[u32], inserted: u32) -> usize {
    if run.last() == Some(&inserted) { run.len() - 1 } else { run.len() / 2 }
}

fn insert_sorted(slots: &mut Vec<u32>, slot: u32) {
    if slots.last().is_none_or(|last| *last < slot) {
        slots.push(slot);
    } else if let Err(at) = slots.binary_search(&slot) {
        slots.insert(at, slot);
    }
}

fn remove_sorted(slots: &mut Vec<u32>, slot: u32) {
    if let Ok(at) = slots.binary_search(&slot) {
        slots.remove(at);
    }
}

#[cfg(test)]
mod tests;

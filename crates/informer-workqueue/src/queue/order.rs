//! The order in which ready keys are handed out.
//!
//! An order never sees a key: it works on numbers that were computed from the keys before the lock was taken.
//! [`ReadyKeys`] guards the queue against faults of user-defined orders.

mod fair;
mod fifo;
mod priority;
mod ready;

pub use fair::FairOrder;
pub use fifo::FifoOrder;
pub use priority::{Aging, PriorityOrder};
pub(super) use ready::ReadyKeys;

pub use super::slots::{Entries, EntryId};

/// The callback that receives the number of ready keys of each priority and group: `(priority, group, keys)`.
/// The priority is `None` in an order without priorities, and the group is `None` in one without groups.
pub type Depths<'a> = dyn FnMut(Option<i32>, Option<u32>, usize) + 'a;

/// The order in which ready keys are handed out.
///
/// [`FifoOrder`], [`FairOrder`] and [`PriorityOrder`] implement it; [`order`](crate::WorkQueueBuilder::order)
/// accepts any other implementation. An order sorts [`EntryId`]s by what it looks up in [`Entries`]: the
/// priority, the group and the rank, a number that [`rank_by`](crate::WorkQueueBuilder::rank_by) computes
/// from each key before the lock of the queue is taken. It never sees a key.
///
/// # Contract
///
/// [`peek`](Self::peek) must eventually return each entry that was pushed and not removed, and nothing else.
/// Preventing starvation is up to the order.
///
/// Orders run under the lock of their queue. They should be fast, and must not call the queue, which would
/// deadlock.
///
/// # Panics
///
/// An order that panics or violates its contract is replaced by FIFO: the queue hands out the keys that are
/// ready now in the order of their numbers, and later ones first in, first out.
/// [`QueueStats::order_failed`](crate::QueueStats::order_failed) reports it. No key is lost. The panic is
/// resumed in the caller after the operation has completed.
///
/// # Examples
///
/// The earliest deadline first:
///
/// ```
/// use std::collections::BTreeSet;
/// use informer_workqueue::{Entries, EntryId, Order, WorkQueue};
///
/// #[derive(Default)]
/// struct EarliestDeadlineFirst(BTreeSet<(u64, EntryId)>);
///
/// impl Order for EarliestDeadlineFirst {
///     fn push(&mut self, entries: &mut Entries, id: EntryId) {
///         self.0.insert((entries.rank(id), id));
///     }
///
///     fn peek(&self, _: &Entries) -> Option<EntryId> {
///         self.0.first().map(|&(_, id)| id)
///     }
///
///     fn remove(&mut self, entries: &mut Entries, id: EntryId) {
///         self.0.remove(&(entries.rank(id), id));
///     }
///
///     fn len(&self) -> usize {
///         self.0.len()
///     }
/// }
///
/// let queue = WorkQueue::builder()
///     .order(EarliestDeadlineFirst::default())
///     .rank_by(|&(_, deadline): &(&str, u64)| deadline)
///     .build();
/// queue.add_all([("report", 17), ("page", 3), ("backup", 90)]);
/// let names: Vec<_> = std::iter::from_fn(|| queue.try_get().map(|item| item.0)).collect();
/// assert_eq!(names, ["page", "report", "backup"]);
/// ```
///
/// Last in, first out:
///
/// ```
/// use informer_workqueue::{Entries, EntryId, Order, WorkQueue};
///
/// #[derive(Default)]
/// struct Lifo(Vec<EntryId>);
///
/// impl Order for Lifo {
///     fn push(&mut self, _: &mut Entries, id: EntryId) {
///         self.0.push(id);
///     }
///
///     fn peek(&self, _: &Entries) -> Option<EntryId> {
///         self.0.last().copied()
///     }
///
///     fn remove(&mut self, _: &mut Entries, id: EntryId) {
///         self.0.retain(|&other| other != id);
///     }
///
///     fn len(&self) -> usize {
///         self.0.len()
///     }
/// }
///
/// let queue = WorkQueue::builder().order(Lifo::default()).build();
/// queue.add_all([1, 2, 3]);
/// assert_eq!(*queue.try_get().expect("three are ready"), 3);
/// ```
#[expect(clippy::len_without_is_empty, reason = "the queue never needs `is_empty`")]
pub trait Order: Send + 'static {
    /// Adds an entry to the order, which does not contain it yet.
    fn push(&mut self, entries: &mut Entries, id: EntryId);

    /// Returns the entry that is to be handed out next; `None` if the order is empty. Changes nothing, so
    /// that the queue can fail before it takes the entry.
    fn peek(&self, entries: &Entries) -> Option<EntryId>;

    /// Removes the entry that `peek` returned, because it is handed out.
    fn take(&mut self, entries: &mut Entries, id: EntryId) {
        self.remove(entries, id);
    }

    /// Removes an entry from any position of the order.
    fn remove(&mut self, entries: &mut Entries, id: EntryId);

    /// Notifies the order that the priority of an entry has risen from `before` to its current value.
    fn raised(&mut self, entries: &mut Entries, id: EntryId, before: i32) {
        let _ = (entries, id, before);
    }

    /// Returns the number of entries in the order.
    fn len(&self) -> usize;

    /// Reports the number of entries for [`QueueStats::depths`](crate::QueueStats::depths). An order with
    /// priorities or groups calls `row` for each of them; the default implementation calls it once.
    fn depths(&self, row: &mut Depths<'_>) {
        row(None, None, self.len());
    }
}

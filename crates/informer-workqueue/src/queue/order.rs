//! In which order ready keys are handed out.
//!
//! An order never sees a key: it works on numbers, and on what was computed from the keys before the lock was taken.
//! [`ReadyKeys`] stands between the queue and an order that is not ours.

mod fair;
mod fifo;
mod priority;
mod ready;

pub use fair::FairOrder;
pub use fifo::FifoOrder;
pub use priority::{Aging, PriorityOrder};
pub(super) use ready::ReadyKeys;

pub use super::slots::{Entries, EntryId};

/// Receives priority, group and number of keys of each part of an order. There is no priority where the order has no
/// levels, and no group where it has none.
pub type Depths<'a> = dyn FnMut(Option<i32>, Option<u32>, usize) + 'a;

/// In which order the keys of a queue are handed out that are ready.
///
/// [`FifoOrder`], [`FairOrder`] and [`PriorityOrder`] are such orders; [`order`](crate::WorkQueueBuilder::order) takes any other. An
/// order puts [`EntryId`]s in order and looks up in [`Entries`] what it goes by: the priority, the group, and the rank,
/// a number that [`rank_by`](crate::WorkQueueBuilder::rank_by) computes from each key before the lock of the queue is
/// taken. It never sees a key.
///
/// # Contract
///
/// Each entry that was pushed and not removed is named by [`peek`](Self::peek) some time, and nothing else is. A
/// starving key is the affair of the order.
///
/// Orders run under the lock of their queue: they should be quick, and must not call the queue, which would wait for
/// itself.
///
/// # Panics
///
/// An order that panics, or that breaks the contract, is taken out of service: the queue hands out what is ready in
/// the order of its numbers, then first in, first out, and [`QueueStats::order_failed`](crate::QueueStats::order_failed)
/// says so. No key is lost. The panic reaches whoever called the queue, after what was called for is done.
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
#[expect(clippy::len_without_is_empty, reason = "nobody would ask")]
pub trait Order: Send + 'static {
    /// Takes in an entry that is not in the order.
    fn push(&mut self, entries: &mut Entries, id: EntryId);

    /// The entry that is next, `None` if there is none. Changes nothing, so that the queue may fail before it takes the
    /// entry.
    fn peek(&self, entries: &Entries) -> Option<EntryId>;

    /// Removes the entry that `peek` named, because it is handed out.
    fn take(&mut self, entries: &mut Entries, id: EntryId) {
        self.remove(entries, id);
    }

    /// Removes an entry from wherever it is.
    fn remove(&mut self, entries: &mut Entries, id: EntryId);

    /// Hears that the priority of an entry in the order rose from `before` to what it is now.
    fn raised(&mut self, entries: &mut Entries, id: EntryId, before: i32) {
        let _ = (entries, id, before);
    }

    /// How many entries are in the order.
    fn len(&self) -> usize;

    /// Calls `row` until it has had every entry, for [`QueueStats::depths`](crate::QueueStats::depths).
    fn depths(&self, row: &mut Depths<'_>) {
        row(None, None, self.len());
    }
}

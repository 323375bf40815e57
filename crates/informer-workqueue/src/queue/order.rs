//! In which order ready keys are handed out.
//!
//! An order works on slots and never sees a key, so nothing of a user runs in it. Orders compose: [`Priority`] has
//! an order per level, which is [`Fifo`] or [`Fair`].

mod fair;
mod fifo;
mod priority;

pub(super) use fair::Fair;
pub(super) use fifo::Fifo;
pub use priority::Ageing;
pub(super) use priority::Priority;

use super::slots::{SlotId, Slots};

/// Ready keys, and which of them is next.
pub(super) trait Order<K>: Send {
    /// Appends a slot, by its priority and its group. It must not be in the order.
    fn push(&mut self, slots: &mut Slots<K>, id: SlotId);

    /// The slot that is next. Changes nothing, so that a caller may fail before it takes the slot.
    fn peek(&self, slots: &Slots<K>) -> Option<SlotId>;

    /// Removes the slot that `peek` named.
    fn take(&mut self, slots: &mut Slots<K>, id: SlotId) {
        self.remove(slots, id);
    }

    /// Removes a slot from wherever it is.
    fn remove(&mut self, slots: &mut Slots<K>, id: SlotId);

    /// Sets a higher priority of a slot in the order.
    fn raise(&mut self, slots: &mut Slots<K>, id: SlotId, priority: i32) {
        slots[id].priority = priority;
    }

    fn len(&self) -> usize;

    /// Calls `row` with (priority, group, number of slots) until it has had all, highest priority first.
    /// There is no priority where the order has no levels, and no group where it has none.
    fn depths(&self, row: &mut dyn FnMut(Option<i32>, Option<u32>, usize));
}

//! First in, first out.

use super::Order;
use crate::queue::slots::{List, SlotId, Slots};

#[derive(Debug)]
pub(in crate::queue) struct Fifo {
    list: List,
}

impl Default for Fifo {
    fn default() -> Self {
        Self { list: List::new() }
    }
}

impl<K> Order<K> for Fifo {
    fn push(&mut self, slots: &mut Slots<K>, id: SlotId) {
        self.list.push(slots, id);
    }

    fn peek(&self, _slots: &Slots<K>) -> Option<SlotId> {
        self.list.first()
    }

    fn remove(&mut self, slots: &mut Slots<K>, id: SlotId) {
        self.list.remove(slots, id);
    }

    fn len(&self) -> usize {
        self.list.len()
    }

    fn depths(&self, row: &mut dyn FnMut(Option<i32>, Option<u32>, usize)) {
        row(None, None, self.list.len());
    }
}

use super::{Depths, Entries, EntryId, Order};
use crate::queue::slots::List;

/// First in, first out: the default order of a queue.
#[derive(Debug)]
pub struct FifoOrder {
    list: List,
}

impl Default for FifoOrder {
    fn default() -> Self {
        Self { list: List::new() }
    }
}

impl Order for FifoOrder {
    fn push(&mut self, entries: &mut Entries, id: EntryId) {
        self.list.push(entries, id);
    }

    fn peek(&self, _entries: &Entries) -> Option<EntryId> {
        self.list.first()
    }

    fn remove(&mut self, entries: &mut Entries, id: EntryId) {
        self.list.remove(entries, id);
    }

    fn len(&self) -> usize {
        self.list.len()
    }

    fn depths(&self, row: &mut Depths<'_>) {
        row(None, None, self.list.len());
    }
}

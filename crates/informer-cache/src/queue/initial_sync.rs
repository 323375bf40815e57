/// The progress of a queue through its initial list, which consists of the items that the first complete list
/// added.
///
/// # Invariants
///
/// `queued <= unprocessed`. Both numbers are 0 until the first list or event is queued. Afterwards they only
/// fall, except when an item is requeued.
#[derive(Debug, Default)]
pub(super) struct InitialSync {
    populated: bool,
    queued: usize,
    /// Number of items of the initial list that are queued, or popped and not yet processed.
    unprocessed: usize,
}

impl InitialSync {
    /// Records that an event was queued. If no list was queued before the first event, the queue has no
    /// initial list to wait for, like in client-go.
    pub(super) fn event(&mut self) {
        self.populated = true;
    }

    /// Records that a complete list was queued, and that the list is processed once `count` more items were
    /// popped and processed. Lists after the first one have no effect.
    pub(super) fn list(&mut self, count: usize) {
        if !self.populated {
            (self.populated, self.queued, self.unprocessed) = (true, count, count);
        }
    }

    /// Records that the content of the queue was replaced by `count` items. If items of the initial list were
    /// still queued, the new items count as the initial list instead.
    pub(super) fn relisted(&mut self, count: usize) {
        match self.queued {
            0 => self.list(count),
            left => {
                self.unprocessed = self.unprocessed - left + count;
                self.queued = count;
            }
        }
    }

    /// Returns true if the next item belongs to the initial list. Before any list or event was queued, every
    /// popped item counts as part of the initial list.
    pub(super) fn is_initial(&self) -> bool {
        !self.populated || self.queued > 0
    }

    /// Returns the number of items of the initial list that are still queued. These items are popped before
    /// all others.
    pub(super) fn queued(&self) -> usize {
        self.queued
    }

    /// Records that `count` items were popped from the queue. Returns how many of them belong to the initial
    /// list, whose items are popped before all others.
    pub(super) fn popped(&mut self, count: usize) -> usize {
        let initial = count.min(self.queued);
        self.queued -= initial;
        initial
    }

    pub(super) fn processed(&mut self, initial: usize) {
        self.unprocessed = self.unprocessed.saturating_sub(initial);
    }

    /// Records that `count` popped items, of which `initial` belong to the initial list, were returned to the
    /// head of the queue.
    ///
    /// Items that were popped before the first list was queued are ahead of that list after the return, and
    /// count as part of the initial list.
    pub(super) fn returned(&mut self, count: usize, initial: usize) {
        let joining = if self.queued > 0 { count } else { initial };
        self.queued += joining;
        self.unprocessed += joining - initial;
    }

    /// Returns true once the initial list was queued and all of its items were processed.
    pub(super) fn has_synced(&self) -> bool {
        self.populated && self.unprocessed == 0
    }
}

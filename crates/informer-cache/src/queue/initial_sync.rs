/// The progress of a queue through its initial list: the items that the first complete list added.
///
/// # Invariants
///
/// `queued <= unprocessed`. Both are 0 until the queue is populated. Afterwards they only fall, except for a
/// requeue.
#[derive(Debug, Default)]
pub(super) struct InitialSync {
    populated: bool,
    /// Items of the initial list that are still queued.
    queued: usize,
    /// Items of the initial list that are queued or popped and not yet processed.
    unprocessed: usize,
}

impl InitialSync {
    /// An event was queued. Before any list it means that there is no initial list to wait for, like in
    /// client-go.
    pub(super) fn event(&mut self) {
        self.populated = true;
    }

    /// A complete list was queued; it is processed after `count` more items were popped. Only the first list
    /// counts.
    pub(super) fn list(&mut self, count: usize) {
        if !self.populated {
            (self.populated, self.queued, self.unprocessed) = (true, count, count);
        }
    }

    /// The contents of the queue were replaced; `count` items are queued now. If items of the initial list
    /// were still queued, these `count` items replace them.
    pub(super) fn relisted(&mut self, count: usize) {
        match self.queued {
            0 => self.list(count),
            left => {
                self.unprocessed = self.unprocessed - left + count;
                self.queued = count;
            }
        }
    }

    /// Returns true if the next item belongs to the initial list, or is popped before it.
    pub(super) fn is_initial(&self) -> bool {
        !self.populated || self.queued > 0
    }

    /// Items of the initial list that are still queued. They are popped before all others.
    pub(super) fn queued(&self) -> usize {
        self.queued
    }

    /// `count` items were popped. Returns how many of them belong to the initial list.
    pub(super) fn popped(&mut self, count: usize) -> usize {
        let initial = count.min(self.queued);
        self.queued -= initial;
        initial
    }

    /// `initial` popped items of the initial list were processed.
    pub(super) fn processed(&mut self, initial: usize) {
        self.unprocessed = self.unprocessed.saturating_sub(initial);
    }

    /// `count` popped items were returned to the head of the queue; `initial` of them belong to the initial
    /// list.
    ///
    /// Items that were popped before the first list was queued are now ahead of it, and count as part of it.
    pub(super) fn returned(&mut self, count: usize, initial: usize) {
        let joining = if self.queued > 0 { count } else { initial };
        self.queued += joining;
        self.unprocessed += joining - initial;
    }

    /// Returns true once the initial list was queued and processed.
    pub(super) fn has_synced(&self) -> bool {
        self.populated && self.unprocessed == 0
    }
}

/// How far a queue is with its initial list: what the first complete list left in it.
///
/// # Invariants
///
/// `queued <= unprocessed`; both are 0 until populated, and only ever fall afterwards, but for a requeue.
#[derive(Debug, Default)]
pub(super) struct InitialSync {
    populated: bool,
    /// Items of the initial list that are still queued.
    queued: usize,
    /// Items of the initial list that are queued or popped and not yet processed.
    unprocessed: usize,
}

impl InitialSync {
    /// An event was queued. Before any list it means that there is no initial list to wait for, as upstream.
    pub(super) fn event(&mut self) {
        self.populated = true;
    }

    /// A complete list was queued, and `count` items are to be popped until it is through. Only the first one
    /// counts.
    pub(super) fn list(&mut self, count: usize) {
        if !self.populated {
            (self.populated, self.queued, self.unprocessed) = (true, count, count);
        }
    }

    /// The queue was replaced as a whole, and `count` items are queued. Where the initial list was not
    /// through, they are what is left of it.
    pub(super) fn relisted(&mut self, count: usize) {
        match self.queued {
            0 => self.list(count),
            left => {
                self.unprocessed = self.unprocessed - left + count;
                self.queued = count;
            }
        }
    }

    /// True if the next item belongs to the initial list, or comes before it.
    pub(super) fn is_initial(&self) -> bool {
        !self.populated || self.queued > 0
    }

    /// Items of the initial list that are still queued; they come before all others.
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

    /// `count` popped items are back at the head of the queue; `initial` of them belong to the initial list.
    ///
    /// Items that were popped before the first list came now stand before it again, and count with it.
    pub(super) fn returned(&mut self, count: usize, initial: usize) {
        let joining = if self.queued > 0 { count } else { initial };
        self.queued += joining;
        self.unprocessed += joining - initial;
    }

    /// True once the initial list is there and processed.
    pub(super) fn has_synced(&self) -> bool {
        self.populated && self.unprocessed == 0
    }
}

/// The queued weight from which the writer has to wait. Ten batches keep the pump busy while the writer wakes
/// up; at about 5 KB per object they are 50 MB.
pub(super) const MAX_WEIGHT: usize = 10_000;

/// A waiting writer continues when the queued weight has fallen to this value. It is half of the maximum, so
/// that writer and pump do not wake each other for every change.
pub(super) const RESUME_WEIGHT: usize = MAX_WEIGHT / 2;

/// The weight of all queued items, and whether the writer has to wait.
///
/// # Invariants
///
/// `full` is set when the weight reaches [`MAX_WEIGHT`], and cleared when the weight has fallen to
/// [`RESUME_WEIGHT`].
#[derive(Debug, Default)]
pub(super) struct Backpressure {
    weight: usize,
    full: bool,
}

impl Backpressure {
    pub(super) fn grow(&mut self, weight: usize) {
        self.weight += weight;
        self.full |= self.weight >= MAX_WEIGHT;
    }

    pub(super) fn shrink(&mut self, weight: usize) {
        self.weight -= weight;
        self.full &= self.weight > RESUME_WEIGHT;
    }

    pub(super) fn weight(&self) -> usize {
        self.weight
    }

    pub(super) fn has_room(&self) -> bool {
        !self.full
    }
}

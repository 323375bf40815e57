/// The queued weight at which the writer has to wait. A change weighs 1, and a list 1 plus the number of its
/// objects. The value is that of ten full batches, which keep the pump busy while the writer wakes up. At
/// about 5 KB per object, a full queue takes 50 MB.
pub(super) const MAX_WEIGHT: usize = 10_000;

/// A waiting writer continues when the queued weight has fallen to this value. The value is half of the
/// maximum, so that the writer and the pump do not wake each other for every change.
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

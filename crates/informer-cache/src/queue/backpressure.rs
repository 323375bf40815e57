/// From this weight on the source has to wait: ten batches keep the pump busy while the source wakes up, and
/// at some 5 KB an object they are 50 MB.
pub(super) const MAX_WEIGHT: usize = 10_000;

/// Down to this weight it waits: half, so that source and pump do not wake each other for every change.
pub(super) const RESUME_WEIGHT: usize = MAX_WEIGHT / 2;

/// How much is queued, and whether the source has to wait.
///
/// # Invariants
///
/// `full` is set when the weight reaches [`MAX_WEIGHT`], and cleared when it has fallen to [`RESUME_WEIGHT`].
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

//! The reads of the console, which determine whether controllers record their reconciles for it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::clock::now;

/// Controllers record for the console until this time has passed since its last read, so that a page that has
/// lost its connection for some minutes shows what happened meanwhile.
const RECORDED_AFTER_READ: Duration = Duration::from_secs(300);

/// The maximum number of updates per second whose changed fields are compared for the console, over all
/// controllers of a manager. A comparison parses both states of the object.
const MAX_COMPARISONS: u64 = 500;

/// The reads of the console of one manager.
///
/// Recording costs each event a few map accesses and allocations. While no client reads the console, only
/// failed reconciles are recorded.
pub(crate) struct ConsoleReads {
    created: Instant,
    is_enabled: AtomicBool,
    /// The time until which controllers record, in milliseconds since `created`. Zero means that they do not,
    /// which is then known without reading the clock.
    until: AtomicU64,
    comparisons: SecondBudget,
}

impl Default for ConsoleReads {
    fn default() -> Self {
        Self {
            created: now(),
            is_enabled: AtomicBool::new(false),
            until: AtomicU64::new(0),
            comparisons: SecondBudget::default(),
        }
    }
}

impl ConsoleReads {
    /// Called once the manager has a console, or a reader of its data in the program.
    pub(crate) fn enable(&self) {
        self.is_enabled.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_enabled(&self) -> bool {
        self.is_enabled.load(Ordering::Relaxed)
    }

    /// Makes controllers record from now on.
    pub(crate) fn note_read(&self, now: Instant) {
        self.until.fetch_max(self.millis(now + RECORDED_AFTER_READ), Ordering::Relaxed);
    }

    /// Returns true if the console was read recently.
    pub(crate) fn is_recent(&self) -> bool {
        let until = self.until.load(Ordering::Relaxed);
        if until == 0 {
            return false;
        }
        let is_recent = self.millis(now()) < until;
        if !is_recent {
            // A read in between has stored a later time, which remains.
            let _ = self.until.compare_exchange(until, 0, Ordering::Relaxed, Ordering::Relaxed);
        }
        is_recent
    }

    /// Returns true if one more update may be compared now, and counts it.
    pub(crate) fn may_compare(&self) -> bool {
        self.comparisons.take(MAX_COMPARISONS, self.second(now()))
    }

    /// Returns the number of whole seconds since the console was created.
    pub(super) fn second(&self, at: Instant) -> u64 {
        self.millis(at) / 1_000
    }

    fn millis(&self, at: Instant) -> u64 {
        let since = at.saturating_duration_since(self.created).as_millis();
        u64::try_from(since).unwrap_or(u64::MAX)
    }
}

/// A number of operations that are allowed in each second.
#[derive(Default)]
pub(super) struct SecondBudget {
    /// The second of the last operation, and in the lower 32 bits the number of operations in it.
    used: AtomicU64,
}

impl SecondBudget {
    /// Returns true if one more of `max` operations is allowed in a second, and counts it.
    pub(super) fn take(&self, max: u64, second: u64) -> bool {
        let counted = self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
            let count = if used >> 32 == second { used & u64::from(u32::MAX) } else { 0 };
            (count < max).then_some(second << 32 | (count + 1))
        });
        counted.is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_read_makes_controllers_record_for_five_minutes() {
        let reads = ConsoleReads::default();
        assert!(!reads.is_recent());
        reads.note_read(now());
        tokio::time::advance(RECORDED_AFTER_READ - Duration::from_secs(1)).await;
        assert!(reads.is_recent());
        reads.note_read(now());
        tokio::time::advance(RECORDED_AFTER_READ - Duration::from_secs(1)).await;
        assert!(reads.is_recent(), "the second read extends the time");
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(!reads.is_recent());
        assert_eq!(reads.until.load(Ordering::Relaxed), 0, "later calls do not read the clock");
        reads.note_read(now());
        assert!(reads.is_recent());
    }

    #[tokio::test(start_paused = true)]
    async fn comparisons_per_second_are_limited() {
        let reads = ConsoleReads::default();
        for _ in 0..3 {
            let allowed = (0..MAX_COMPARISONS + 10).filter(|_| reads.may_compare()).count();
            assert_eq!(allowed as u64, MAX_COMPARISONS);
            tokio::time::advance(Duration::from_secs(1)).await;
        }
    }
}

//! Deadlines that may have no end.

use std::time::{Duration, Instant};

/// Stands for times that have no end, of 100 years: instants cannot be added to without one.
pub const LONGEST: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

/// The instant after a time, which counts as [`LONGEST`] where it is longer. Never panics, whatever the time.
///
/// ```
/// use std::time::{Duration, Instant};
/// use informer_core::deadline::{LONGEST, later};
///
/// # fn example(now: Instant) {
/// assert_eq!(later(now, Duration::from_secs(5)), now + Duration::from_secs(5));
/// assert_eq!(later(now, Duration::MAX), later(now, LONGEST));
/// # }
/// ```
pub fn later(now: Instant, wait: Duration) -> Instant {
    now.checked_add(wait.min(LONGEST)).unwrap_or(now)
}

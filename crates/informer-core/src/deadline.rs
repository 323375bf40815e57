//! Deadlines that cannot overflow.

use std::time::{Duration, Instant};

/// The longest supported wait, 100 years. It represents "no timeout", because an [`Instant`] has no maximum
/// value.
pub const LONGEST: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

/// Returns the instant `wait` after `now`. A `wait` longer than [`LONGEST`] counts as [`LONGEST`], so this
/// function never panics.
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

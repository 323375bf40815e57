//! Deadlines that cannot overflow.

use std::time::{Duration, Instant};

/// The longest supported wait, 100 years. It represents "no timeout", because an [`Instant`] has no maximum
/// value.
pub const MAX_WAIT: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

/// Returns the instant `wait` after `now`. A `wait` longer than [`MAX_WAIT`] counts as [`MAX_WAIT`], so this
/// function never panics.
///
/// ```
/// use std::time::{Duration, Instant};
/// use informer_core::deadline::{MAX_WAIT, later};
///
/// # fn example(now: Instant) {
/// assert_eq!(later(now, Duration::from_secs(5)), now + Duration::from_secs(5));
/// assert_eq!(later(now, Duration::MAX), later(now, MAX_WAIT));
/// # }
/// ```
pub fn later(now: Instant, wait: Duration) -> Instant {
    now.checked_add(wait.min(MAX_WAIT)).unwrap_or(now)
}

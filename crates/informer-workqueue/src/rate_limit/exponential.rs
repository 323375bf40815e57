use std::fmt;
use std::time::Duration;

use tokio::time::Instant;

use super::RateLimiter;
use super::failures::Failures;
use crate::QueueKey;

/// A rate limiter whose delay is `base · 2ⁿ` after n failures of the same key, at most `max`. The delay never
/// overflows, however often a key fails.
///
/// ```
/// use std::time::Duration;
/// use informer_workqueue::{ExponentialPerItem, RateLimiter};
///
/// let now = tokio::time::Instant::now();
/// let limiter = ExponentialPerItem::new(Duration::from_millis(5), Duration::from_secs(1));
/// assert_eq!(limiter.when(&"a", now), Duration::from_millis(5));
/// assert_eq!(limiter.when(&"a", now), Duration::from_millis(10));
/// limiter.forget(&"a");
/// assert_eq!(limiter.when(&"a", now), Duration::from_millis(5));
/// ```
pub struct ExponentialPerItem<K> {
    base: Duration,
    max: Duration,
    failures: Failures<K>,
}

impl<K> ExponentialPerItem<K> {
    /// Creates an exponential backoff from `base` to `max`. If `base` is longer than `max`, every delay is
    /// `max`.
    #[must_use]
    pub fn new(base: Duration, max: Duration) -> Self {
        Self { base, max, failures: Failures::new() }
    }
}

impl<K: QueueKey> RateLimiter<K> for ExponentialPerItem<K> {
    fn when(&self, key: &K, _now: Instant) -> Duration {
        doubled(self.base, self.failures.count(key)).min(self.max)
    }

    fn forget(&self, key: &K) {
        self.failures.forget(key);
    }

    fn retries(&self, key: &K) -> u32 {
        self.failures.get(key)
    }
}

/// Number of doublings after which even a nanosecond exceeds the longest representable duration.
const MAX_DOUBLINGS: u32 = 96;

fn doubled(base: Duration, times: u32) -> Duration {
    (0..times.min(MAX_DOUBLINGS)).fold(base, |delay, _| delay.saturating_mul(2))
}

impl<K: QueueKey> fmt::Debug for ExponentialPerItem<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExponentialPerItem")
            .field("base", &self.base)
            .field("max", &self.max)
            .field("failing", &self.failures.len())
            .finish()
    }
}

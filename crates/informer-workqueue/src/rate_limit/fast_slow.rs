use std::fmt;
use std::time::Duration;

use tokio::time::Instant;

use super::RateLimiter;
use super::failures::Failures;
use crate::QueueKey;

/// A rate limiter whose delay is `fast` for the first failures of a key, and `slow` for later failures.
pub struct FastSlow<K> {
    fast: Duration,
    slow: Duration,
    fast_attempts: u32,
    failures: Failures<K>,
}

impl<K> FastSlow<K> {
    /// Sets the delay `fast` for each of the first `fast_attempts` failures.
    #[must_use]
    pub fn new(fast: Duration, slow: Duration, fast_attempts: u32) -> Self {
        Self { fast, slow, fast_attempts, failures: Failures::new() }
    }
}

impl<K: QueueKey> RateLimiter<K> for FastSlow<K> {
    fn when(&self, key: &K, _now: Instant) -> Duration {
        if self.failures.count(key) < self.fast_attempts { self.fast } else { self.slow }
    }

    fn forget(&self, key: &K) {
        self.failures.forget(key);
    }

    fn retries(&self, key: &K) -> u32 {
        self.failures.get(key)
    }
}

impl<K: QueueKey> fmt::Debug for FastSlow<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FastSlow")
            .field("fast", &self.fast)
            .field("slow", &self.slow)
            .field("fast_attempts", &self.fast_attempts)
            .field("failing", &self.failures.len())
            .finish()
    }
}

//! A token bucket: a rate limiter with a maximum rate of retries over all keys.
//!
//! # Invariants
//! `tokens` is the number of tokens at the time `at`. If it is negative, that many waiting keys have already
//! reserved tokens that the bucket has yet to gain.
//!
//! # Lock order
//! The bucket has one lock; no user code runs under it.
//!
//! # Shutdown
//! The bucket starts no task, so it has nothing to stop.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::RateLimiter;

/// A bucket that holds up to `burst` tokens and gains `rate` tokens per second. Every retry takes a token and
/// waits until that token is available.
///
/// The wait has no bound: with 10 per second, the 100,000th of simultaneous failures waits for almost three
/// hours. Wrap the limiter in [`WithMaxWait`](super::WithMaxWait) if that is too long.
#[derive(Debug)]
pub struct TokenBucket {
    rate: f64,
    burst: f64,
    level: Mutex<Level>,
}

#[derive(Debug)]
struct Level {
    tokens: f64,
    at: Option<Instant>,
}

impl TokenBucket {
    /// Creates a bucket that gains `rate` tokens per second. With an infinite rate, no retry is delayed. If
    /// the rate is zero, negative or not a number, retries after the burst wait forever.
    #[must_use]
    pub fn new(rate: f64, burst: u32) -> Self {
        let rate = rate.max(0.0);
        let burst = f64::from(burst);
        Self { rate, burst, level: Mutex::new(Level { tokens: burst, at: None }) }
    }

    fn take(&self, now: Instant) -> Duration {
        if self.rate.is_infinite() {
            return Duration::ZERO;
        }
        let mut level = self.level.lock();
        let at = level.at.unwrap_or(now).max(now);
        let gained = at.saturating_duration_since(level.at.unwrap_or(at)).as_secs_f64() * self.rate;
        level.tokens = (level.tokens + gained).min(self.burst) - 1.0;
        level.at = Some(at);
        if level.tokens >= 0.0 {
            return Duration::ZERO;
        }
        Duration::try_from_secs_f64(-level.tokens / self.rate).unwrap_or(Duration::MAX)
    }
}

impl<K> RateLimiter<K> for TokenBucket {
    fn when(&self, _key: &K, now: Instant) -> Duration {
        self.take(now)
    }

    /// Does nothing: the bucket stores nothing per key.
    fn forget(&self, _key: &K) {}

    /// Returns 0, since the bucket counts no failures of keys.
    fn retries(&self, _key: &K) -> u32 {
        0
    }
}

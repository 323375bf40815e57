//! So many retries a second, over all keys.
//!
//! # Invariants
//! `tokens` is what the bucket held at `at`; below zero it is owed to keys that wait.
//!
//! # Lock order
//! The one lock; nothing of the user runs under it.
//!
//! # Shutdown
//! Nothing runs.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::RateLimiter;

/// A bucket that holds `burst` tokens and gains `rate` a second. Every retry takes one, and waits until it
/// exists.
///
/// The wait has no bound: with 10 a second, the 100,000th of a storm of failures waits for almost three
/// hours. Put
/// [`WithMaxWait`](super::WithMaxWait) around it where that is too long.
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
    /// `rate` is tokens a second. One that is infinite never delays. With one that is zero, negative or not a
    /// number, nothing comes after the burst: retries wait for ever.
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

    /// Nothing is kept for a key.
    fn forget(&self, _key: &K) {}

    /// Always 0.
    fn retries(&self, _key: &K) -> u32 {
        0
    }
}

//! Rate limiters that combine or modify other rate limiters.

use std::fmt;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use foldhash::fast::RandomState;
use tokio::time::Instant;

use super::RateLimiter;

/// A rate limiter that returns the longest of the delays of several limiters. Every limiter counts every
/// failure.
pub struct MaxOf<K> {
    limiters: Vec<Box<dyn RateLimiter<K>>>,
}

impl<K> MaxOf<K> {
    /// Combines the given limiters. If the list is empty, the delay is always zero.
    #[must_use]
    pub fn new(limiters: impl IntoIterator<Item = Box<dyn RateLimiter<K>>>) -> Self {
        Self { limiters: limiters.into_iter().collect() }
    }
}

impl<K> RateLimiter<K> for MaxOf<K> {
    fn when(&self, key: &K, now: Instant) -> Duration {
        self.limiters.iter().map(|limiter| limiter.when(key, now)).max().unwrap_or_default()
    }

    fn forget(&self, key: &K) {
        self.limiters.iter().for_each(|limiter| limiter.forget(key));
    }

    /// Returns the maximum of the failure counts that the combined limiters have for the key.
    fn retries(&self, key: &K) -> u32 {
        self.limiters.iter().map(|limiter| limiter.retries(key)).max().unwrap_or_default()
    }
}

impl<K> fmt::Debug for MaxOf<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MaxOf").field("limiters", &self.limiters.len()).finish()
    }
}

/// A rate limiter that limits the delay of an inner limiter to `max`. The failure counts of the inner limiter
/// are unaffected.
#[derive(Debug)]
pub struct WithMaxWait<L> {
    inner: L,
    max: Duration,
}

impl<L> WithMaxWait<L> {
    /// Creates a limiter that returns the delay of `inner`, but at most `max`.
    #[must_use]
    pub fn new(inner: L, max: Duration) -> Self {
        Self { inner, max }
    }
}

impl<K, L: RateLimiter<K>> RateLimiter<K> for WithMaxWait<L> {
    fn when(&self, key: &K, now: Instant) -> Duration {
        self.inner.when(key, now).min(self.max)
    }

    fn forget(&self, key: &K) {
        self.inner.forget(key);
    }

    fn retries(&self, key: &K) -> u32 {
        self.inner.retries(key)
    }
}

/// A rate limiter that lengthens the delay of an inner limiter by a random fraction. Keys that failed at the
/// same time are then retried at different times.
#[derive(Debug)]
pub struct WithJitter<L> {
    inner: L,
    factor: f64,
    /// A counter whose values are hashed to random numbers. It is atomic, so that threads do not wait for
    /// each other.
    state: AtomicU64,
}

impl<L> WithJitter<L> {
    /// Lengthens a delay `d` of `inner` to between `d` and `d · (1 + factor)`. A factor that is negative or
    /// not a number counts as 0.
    #[must_use]
    pub fn new(inner: L, factor: f64) -> Self {
        Self::with_seed(inner, factor, RandomState::default().hash_one(0_u64))
    }

    /// Creates a limiter whose random numbers depend on `seed` only: the same seed gives the same sequence of
    /// delays. For tests and simulations.
    #[must_use]
    pub fn with_seed(inner: L, factor: f64, seed: u64) -> Self {
        Self { inner, factor: factor.max(0.0), state: AtomicU64::new(seed) }
    }

    /// Returns a random number in `[0, 1)`.
    fn random(&self) -> f64 {
        const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
        let mut z = self.state.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let top = u32::try_from((z ^ (z >> 31)) >> 32).unwrap_or(u32::MAX);
        f64::from(top) / (f64::from(u32::MAX) + 1.0)
    }
}

impl<K, L: RateLimiter<K>> RateLimiter<K> for WithJitter<L> {
    fn when(&self, key: &K, now: Instant) -> Duration {
        let delay = self.inner.when(key, now);
        let more = delay.as_secs_f64() * self.factor * self.random();
        delay.saturating_add(Duration::try_from_secs_f64(more).unwrap_or(Duration::MAX))
    }

    fn forget(&self, key: &K) {
        self.inner.forget(key);
    }

    fn retries(&self, key: &K) -> u32 {
        self.inner.retries(key)
    }
}

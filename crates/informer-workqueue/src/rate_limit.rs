//! Rate limiters, which compute the retry delays of failed keys.

mod combine;
mod exponential;
mod failures;
mod fast_slow;
mod token_bucket;

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

pub use self::combine::{MaxOf, WithJitter, WithMaxWait};
pub use self::exponential::ExponentialPerItem;
pub use self::fast_slow::FastSlow;
pub use self::token_bucket::TokenBucket;

/// Computes the retry delay of a failed key.
///
/// The queue calls a limiter while it holds none of its locks. Limiters can be combined: see [`MaxOf`],
/// [`WithMaxWait`], [`WithJitter`].
pub trait RateLimiter<K>: Send + Sync {
    /// Counts a failure of the key and returns its retry delay. `now` is the current time of tokio's clock.
    fn when(&self, key: &K, now: Instant) -> Duration;

    /// Forgets the failures of the key, because it succeeded or was given up.
    fn forget(&self, key: &K);

    /// Returns the number of failures of the key since it was last forgotten.
    fn retries(&self, key: &K) -> u32;
}

/// Returns the default limiter of controllers: the maximum of an exponential backoff per key, 5 ms to 1000 s,
/// and a token bucket over all keys with 10 tokens per second and a burst of 100.
#[must_use]
pub fn default_controller_rate_limiter<K: crate::QueueKey>() -> MaxOf<K> {
    let per_item = ExponentialPerItem::new(Duration::from_millis(5), Duration::from_secs(1000));
    MaxOf::new([Box::new(per_item) as Box<dyn RateLimiter<K>>, Box::new(TokenBucket::new(10.0, 100))])
}

/// Returns an exponential backoff per key, 1 ms to 1000 s, without a limit over all keys.
#[must_use]
pub fn default_item_rate_limiter<K: crate::QueueKey>() -> ExponentialPerItem<K> {
    ExponentialPerItem::new(Duration::from_millis(1), Duration::from_secs(1000))
}

impl<K, L: RateLimiter<K> + ?Sized> RateLimiter<K> for Box<L> {
    fn when(&self, key: &K, now: Instant) -> Duration {
        (**self).when(key, now)
    }

    fn forget(&self, key: &K) {
        (**self).forget(key);
    }

    fn retries(&self, key: &K) -> u32 {
        (**self).retries(key)
    }
}

/// Several queues share one limiter through an `Arc`.
impl<K, L: RateLimiter<K> + ?Sized> RateLimiter<K> for Arc<L> {
    fn when(&self, key: &K, now: Instant) -> Duration {
        (**self).when(key, now)
    }

    fn forget(&self, key: &K) {
        (**self).forget(key);
    }

    fn retries(&self, key: &K) -> u32 {
        (**self).retries(key)
    }
}

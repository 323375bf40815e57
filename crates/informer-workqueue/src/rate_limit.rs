//! How long a key that failed has to wait.

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

/// Decides after how long a key that failed is handed out again.
///
/// Runs outside of every lock of the queue. Limits compose: see [`MaxOf`], [`WithMaxWait`], [`WithJitter`].
pub trait RateLimiter<K>: Send + Sync {
    /// Counts a failure of the key, and says how long it has to wait. `now` is tokio's clock.
    fn when(&self, key: &K, now: Instant) -> Duration;

    /// Forgets the failures of the key: it succeeded, or is given up.
    fn forget(&self, key: &K);

    /// How many failures of the key are counted.
    fn retries(&self, key: &K) -> u32;
}

/// What controllers use by default: the longer of 5 ms to 1000 s per key, doubling, and a token bucket of 10
/// a second with a burst of 100 over all keys.
#[must_use]
pub fn default_controller_rate_limiter<K: crate::QueueKey>() -> MaxOf<K> {
    let per_item = ExponentialPerItem::new(Duration::from_millis(5), Duration::from_secs(1000));
    MaxOf::new([Box::new(per_item) as Box<dyn RateLimiter<K>>, Box::new(TokenBucket::new(10.0, 100))])
}

/// 1 ms to 1000 s per key, doubling, and nothing over all keys.
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

/// One limiter for several queues.
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

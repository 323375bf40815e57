//! A work queue: deduplicated keys, delays, rate limits, priorities and fairness.

mod clock;
mod metrics;
mod queue;
mod rate_limit;

pub use metrics::{QueueDepth, QueueMetrics, QueueProbe, QueueStats};
pub use queue::{
    AddOptions, Ageing, DrainError, Item, KEYS_MAX, LOW_PRIORITY, OnDrop, QueueKey, Waiting, WorkQueue,
    WorkQueueBuilder,
};
pub use rate_limit::{
    ExponentialPerItem, FastSlow, MaxOf, RateLimiter, TokenBucket, WithJitter, WithMaxWait,
    default_controller_rate_limiter, default_item_rate_limiter,
};

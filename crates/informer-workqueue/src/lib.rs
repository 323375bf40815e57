//! A work queue: deduplicated keys, delays, rate limits, priorities and fairness.

mod clock;
mod metrics;
mod queue;
mod rate_limit;
mod workers;

#[cfg(feature = "prometheus")]
pub use metrics::PrometheusMetrics;
pub use metrics::{QueueDepth, QueueMetrics, QueueProbe, QueueStats};
pub use queue::{
    AddOptions, Ageing, DrainError, Item, KEYS_MAX, LOW_PRIORITY, OnDrop, QueueKey, Waiting, WorkQueue,
    WorkQueueBuilder,
};
pub use rate_limit::{
    ExponentialPerItem, FastSlow, MaxOf, RateLimiter, TokenBucket, WithJitter, WithMaxWait,
    default_controller_rate_limiter, default_item_rate_limiter,
};
pub use workers::{BoxError, Cause, Failure, Outcome, Report, Verdict, Workers, run_workers};

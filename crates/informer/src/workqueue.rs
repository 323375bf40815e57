//! Work queues: deduplicated keys, delays, rate limits, priorities and fairness.
//!
//! | for | see |
//! |---|---|
//! | a queue of keys | [`WorkQueue`], [`WorkQueueBuilder`], [`AddOptions`], [`Item`] |
//! | processing keys concurrently | [`Workers`], [`run_workers`], [`WorkOutcome`], [`Report`] |
//! | delays of retries | [`RateLimiter`], [`default_controller_rate_limiter`], [`ExponentialPerItem`], [`TokenBucket`] |
//! | the order of ready keys | [`PriorityOrder`], [`FairOrder`], [`Order`] for other orders |
//! | the state and the metrics of a queue | [`QueueStats`], [`QueueMetrics`], `PrometheusMetrics` (feature `prometheus`) |
//!
//! [`WorkQueue`] states the contract. The queue does not depend on Kubernetes.

#[cfg(feature = "prometheus")]
pub use informer_workqueue::PrometheusMetrics;
pub use informer_workqueue::{
    AddOptions, Aging, BoxError, Cause, Depths, DrainError, Entries, EntryId, ExponentialPerItem, Failure,
    FairOrder, FastSlow, FifoOrder, Item, LOW_PRIORITY, MAX_KEYS, MaxOf, OnDrop, Order, PriorityOrder,
    QueueDepth, QueueKey, QueueMetrics, QueueProbe, QueueStats, RateLimiter, Report, RetryDecision,
    TokenBucket, Waiting, WithJitter, WithMaxWait, WorkOutcome, WorkQueue, WorkQueueBuilder, Workers,
    default_controller_rate_limiter, default_item_rate_limiter, run_workers,
};

//! A work queue: deduplicated keys, delays, rate limits, priorities and fairness.
//!
//! It is the queue inside of every controller, and usable without a controller. Producers add keys as often
//! as they like. A key that is added several times is handed out once, and never to two workers at the same
//! time. A failed key is retried with a delay, a key that was added again while in process is handed out
//! again immediately, and no key is lost when a worker panics.
//!
//! # Vocabulary
//!
//! | word | means |
//! |---|---|
//! | *ready* | the next [`get`](WorkQueue::get) can hand it out |
//! | *in process* | handed out and not finished: an [`Item`] exists |
//! | *waiting* | becomes ready at a deadline |
//! | *dirty* | in process and added again: becomes ready when it is done |
//!
//! # Examples
//!
//! A pool of workers:
//!
//! ```
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() {
//! use std::time::Duration;
//! use informer_workqueue::{WorkOutcome, WorkQueue, Workers};
//!
//! let queue = WorkQueue::new();
//! queue.add("web");
//! queue.add("db");
//!
//! let report = Workers::new(queue.clone())
//!     .count(4)
//!     .max_retries(5)
//!     .run_until(queue.idle(), |key: &str| async move {
//!         println!("reconciling {key}");
//!         Ok::<_, std::io::Error>(WorkOutcome::Done)
//!     })
//!     .await;
//! assert_eq!(report.done, 2);
//! # }
//! ```
//!
//! A custom loop:
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! use informer_workqueue::WorkQueue;
//!
//! # fn work(_: &str) -> Result<(), ()> { Ok(()) }
//! let queue = WorkQueue::new();
//! queue.add("web");
//! queue.shut_down();
//! while let Some(item) = queue.get().await {
//!     match work(&item) {
//!         Ok(()) => {
//!             item.forget();
//!             item.done();
//!         }
//!         Err(()) => {
//!             item.retry();
//!         }
//!     }
//! }
//! # }
//! ```
//!
//! # Guarantees
//!
//! - A key that was added before shutdown, without a delay, is handed out at least once after that add.
//! - A key is in process at most once. Dropped futures lose no key and no wake-up.
//! - Low priorities do not starve ([`Aging`]), and one group cannot block the others
//!   ([`fair_by`](WorkQueueBuilder::fair_by)).
//! - A panic in Hash, Eq or Clone of a key, in an [`Order`], in a rate limiter or in a worker leaves the
//!   queue usable.
//! - The queue starts no task and no thread, has no global state, and needs at most one timer.
//!
//! Differences from client-go and controller-runtime:
//!
//! - An immediate add ends the delay of the key; in client-go the key is handed out twice.
//! - [`get`](WorkQueue::get) returns `None` after shutdown only when no key *will* become ready: it waits for
//!   a key in process that was added again.
//! - A drain also waits for ready keys, and has a deadline.
//!
//! # Features
//!
//! - `prometheus`: `PrometheusMetrics`, the metrics of all queues with client-go's names.

pub mod proto;

mod clock;
mod key;
mod metrics;
mod queue;
mod rate_limit;
mod workers;

pub use key::QueueKey;
#[cfg(feature = "prometheus")]
pub use metrics::PrometheusMetrics;
pub use metrics::{QueueDepth, QueueMetrics, QueueProbe, QueueStats};
pub use queue::{
    AddOptions, Aging, Depths, DrainError, Entries, EntryId, FairOrder, FifoOrder, Item, LOW_PRIORITY,
    MAX_KEYS, OnDrop, Order, PriorityOrder, Waiting, WorkQueue, WorkQueueBuilder,
};
pub use rate_limit::{
    ExponentialPerItem, FastSlow, MaxOf, RateLimiter, TokenBucket, WithJitter, WithMaxWait,
    default_controller_rate_limiter, default_item_rate_limiter,
};
pub use workers::{BoxError, Cause, Failure, Report, RetryDecision, WorkOutcome, Workers, run_workers};

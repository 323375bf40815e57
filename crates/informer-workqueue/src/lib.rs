//! A work queue: deduplicated keys, delays, rate limits, priorities and fairness.
//!
//! The queue behind every controller, without a controller in it: producers say *that* something is to be done about a
//! key, as often as they like; workers learn it once, work on one key at a time each, and never two of them on the same
//! key. What fails comes again later; what changed meanwhile comes again at once; nothing is lost when a worker panics.
//!
//! # Vocabulary
//!
//! | word | means |
//! |---|---|
//! | *ready* | to be handed out by the next [`get`](WorkQueue::get) |
//! | *in process* | handed out, its outcome not known yet: an [`Item`] exists |
//! | *waiting* | becomes ready at a deadline |
//! | *dirty* | in process, and added again: ready as soon as it is done |
//!
//! # Examples
//!
//! Workers, in one call:
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
//!         println!("making {key} so");
//!         Ok::<_, std::io::Error>(WorkOutcome::Done)
//!     })
//!     .await;
//! assert_eq!(report.done, 2);
//! # }
//! ```
//!
//! The loop by hand:
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
//! - A key that was added before shutdown, without a delay, is handed out after that add.
//! - A key is in process at most once. Futures that are dropped lose no key and no wake-up.
//! - Low priorities get their share ([`Aging`]); one group cannot hold up the others
//!   ([`fair_by`](WorkQueueBuilder::fair_by)).
//! - Neither Hash, Eq nor Clone of a key that panics, nor an [`Order`], a rate limiter or work that does, leaves a queue
//!   unusable.
//! - No task, no thread, no timer beyond one deadline, and no state outside of the queue.
//!
//! What differs from client-go and controller-runtime:
//!
//! - An immediate add ends the wait of the key; in client-go the key comes twice.
//! - [`get`](WorkQueue::get) ends at shutdown when nothing more *will* come: it stays for a key in process that was
//!   added again.
//! - A drain waits for what is ready too, and has a deadline.
//!
//! # Features
//!
//! - `prometheus`: `PrometheusMetrics`, the metrics of all queues under the names of client-go.

mod clock;
mod metrics;
mod queue;
mod rate_limit;
mod workers;

#[cfg(feature = "prometheus")]
pub use metrics::PrometheusMetrics;
pub use metrics::{QueueDepth, QueueMetrics, QueueProbe, QueueStats};
pub use queue::{
    AddOptions, Aging, Depths, DrainError, Entries, EntryId, FairOrder, FifoOrder, Handout, Item,
    LOW_PRIORITY, MAX_KEYS, OnDrop, Order, PriorityOrder, QueueEffect, QueueKey, QueueState, Waiting,
    WorkQueue, WorkQueueBuilder,
};
pub use rate_limit::{
    ExponentialPerItem, FastSlow, MaxOf, RateLimiter, TokenBucket, WithJitter, WithMaxWait,
    default_controller_rate_limiter, default_item_rate_limiter,
};
pub use workers::{BoxError, Cause, Failure, Report, RetryDecision, WorkOutcome, Workers, run_workers};

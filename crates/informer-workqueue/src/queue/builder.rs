use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use foldhash::fast::RandomState;

use super::driver::Driver;
use super::order::{FairOrder, FifoOrder, Order, PriorityOrder, ReadyKeys};
use super::state::State;
use super::{Aging, GroupOf, MAX_KEYS, OnDrop, QueueKey, RankOf, Shared, WorkQueue};
use crate::metrics::{Observe, QueueMetrics, QueueProbe};
use crate::rate_limit::{RateLimiter, default_controller_rate_limiter};

/// Builds a [`WorkQueue`] with non-default options.
#[must_use = "a builder does nothing until `build`"]
pub struct WorkQueueBuilder<K> {
    limiter: Option<Box<dyn RateLimiter<K>>>,
    priorities: Option<Aging>,
    group_of: Option<Box<GroupOf<K>>>,
    order: Option<Box<dyn Order>>,
    rank_of: Option<Box<RankOf<K>>>,
    max_keys: u32,
    metrics: Option<Arc<dyn QueueMetrics>>,
    on_drop: OnDrop,
}

impl<K: QueueKey> WorkQueue<K> {
    /// Creates a FIFO queue with the [controllers' rate limiter](crate::default_controller_rate_limiter).
    #[must_use]
    pub fn new() -> Self {
        Self::builder().build()
    }

    /// Returns a builder for the rate limiter, priorities, groups and metrics.
    pub fn builder() -> WorkQueueBuilder<K> {
        WorkQueueBuilder {
            limiter: None,
            priorities: None,
            group_of: None,
            order: None,
            rank_of: None,
            max_keys: MAX_KEYS,
            metrics: None,
            on_drop: OnDrop::default(),
        }
    }
}

impl<K: QueueKey> Default for WorkQueue<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: QueueKey> WorkQueueBuilder<K> {
    /// Sets the rate limiter that computes the delays of `add_rate_limited` and `retry`.
    pub fn rate_limiter(mut self, limiter: impl RateLimiter<K> + 'static) -> Self {
        self.limiter = Some(Box::new(limiter));
        self
    }

    /// Hands out higher priorities first. Without this call, priorities are stored and do not affect the
    /// order.
    pub fn priorities(mut self, aging: Aging) -> Self {
        self.priorities = Some(aging);
        self
    }

    /// Serves groups in turn, so that a group with 50,000 keys does not delay the others. `group_of` returns
    /// the group of a key, such as a namespace or a tenant. In combination with priorities, groups take turns
    /// within each priority.
    ///
    /// `group_of` runs in every add, before the lock is taken. Its result is used only when the key enters
    /// the queue.
    ///
    /// ```
    /// use informer_workqueue::WorkQueue;
    ///
    /// let queue = WorkQueue::builder().fair_by(|key: &(&str, u32)| key.0.into()).build();
    /// queue.add_all([("big", 1), ("big", 2), ("big", 3), ("small", 1)]);
    /// let order: Vec<_> = std::iter::from_fn(|| queue.try_get().map(|item| *item)).collect();
    /// assert_eq!(order, [("big", 1), ("small", 1), ("big", 2), ("big", 3)]);
    /// ```
    pub fn fair_by(
        mut self,
        group_of: impl for<'k> Fn(&'k K) -> Cow<'k, str> + Send + Sync + 'static,
    ) -> Self {
        self.group_of = Some(Box::new(group_of));
        self
    }

    /// Hands out keys in a custom order; see [`Order`] for how to write one. The order can use priorities,
    /// groups and ranks. Instead of calling [`priorities`](Self::priorities), wrap the order within a
    /// priority in [`PriorityOrder`](crate::PriorityOrder).
    ///
    /// ```
    /// use informer_workqueue::{Aging, PriorityOrder, FifoOrder, WorkQueue};
    ///
    /// let queue = WorkQueue::builder().order(PriorityOrder::<FifoOrder>::new(Aging::Off)).build();
    /// queue.add("as with priorities");
    /// ```
    pub fn order(mut self, order: impl Order) -> Self {
        self.order = Some(Box::new(order));
        self
    }

    /// Sets the function that computes the rank of a key, a number that an [`order`](Self::order) can use.
    ///
    /// The function runs in every add, before the lock is taken. Its result is used only when the key enters
    /// the queue.
    pub fn rank_by(mut self, rank_of: impl Fn(&K) -> u64 + Send + Sync + 'static) -> Self {
        self.rank_of = Some(Box::new(rank_of));
        self
    }

    /// Limits the number of keys in the queue: ready, waiting and in process. New keys beyond the limit are
    /// rejected. The default and the maximum are [`MAX_KEYS`].
    pub fn max_keys(mut self, keys: u32) -> Self {
        self.max_keys = keys.min(MAX_KEYS);
        self
    }

    /// Sets the receiver of metrics. Without a receiver, the queue measures no times and never reads a clock
    /// for metrics.
    pub fn metrics(mut self, metrics: Arc<dyn QueueMetrics>) -> Self {
        self.metrics = Some(metrics);
        self
    }

    /// Sets whether a key is retried or marked as done if its worker panicked or was cancelled.
    pub fn on_drop(mut self, on_drop: OnDrop) -> Self {
        self.on_drop = on_drop;
        self
    }

    /// Creates the queue with the configured options.
    #[must_use]
    pub fn build(self) -> WorkQueue<K> {
        let Self { limiter, priorities, group_of, order, rank_of, max_keys, metrics, on_drop } = self;
        let order = order.map_or_else(|| built_in(priorities, group_of.is_some()), ReadyKeys::untrusted);
        let timed = metrics.is_some();
        let driver = Driver::new(State::new(order, max_keys, timed), timed);
        let limiter = limiter.unwrap_or_else(|| Box::new(default_controller_rate_limiter()));
        let hasher = RandomState::default();
        let shared = Arc::new(Shared { driver, hasher, limiter, group_of, rank_of, metrics, on_drop });
        if let Some(metrics) = &shared.metrics {
            let observe = Arc::downgrade(&shared) as std::sync::Weak<dyn Observe>;
            metrics.attach(QueueProbe::new(observe));
        }
        WorkQueue { shared }
    }
}

fn built_in(priorities: Option<Aging>, fair: bool) -> ReadyKeys {
    ReadyKeys::trusted(match (priorities, fair) {
        (None, false) => Box::<FifoOrder>::default(),
        (None, true) => Box::<FairOrder>::default(),
        (Some(aging), false) => Box::new(PriorityOrder::<FifoOrder>::new(aging)),
        (Some(aging), true) => Box::new(PriorityOrder::<FairOrder>::new(aging)),
    })
}

impl<K> fmt::Debug for WorkQueueBuilder<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkQueueBuilder")
            .field("priorities", &self.priorities)
            .field("fair", &self.group_of.is_some())
            .field("order", &self.order.is_some())
            .field("max_keys", &self.max_keys)
            .field("metrics", &self.metrics.is_some())
            .field("on_drop", &self.on_drop)
            .finish_non_exhaustive()
    }
}

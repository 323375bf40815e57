//! Metrics of a queue.
//!
//! The queue reports counters and durations to [`QueueMetrics`] after it has released its lock. The numbers
//! of keys and the times in process are read with [`QueueProbe::stats`]. They are exact when they are read,
//! cost nothing otherwise, and need no task that refreshes them.

#[cfg(feature = "prometheus")]
mod prometheus;

use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

#[cfg(feature = "prometheus")]
pub use self::prometheus::PrometheusMetrics;

/// Receives the events of a queue. Calls run on the threads that use the queue and should be short.
pub trait QueueMetrics: Send + Sync + 'static {
    /// Keys became ready. Keys that were already ready do not count; delayed keys count when the delay is
    /// over.
    fn added(&self, keys: usize);

    /// A key was added with a delay or through the rate limiter.
    fn retried(&self);

    /// A key was handed out after being ready for this long.
    fn queued_for(&self, time: Duration);

    /// A key was finished after being in process for this long.
    fn worked_for(&self, time: Duration);

    /// Called once, when the queue is created, with a probe for its state.
    fn attach(&self, probe: QueueProbe) {
        drop(probe);
    }
}

/// A weak reference to a queue, to read its state without keeping it alive.
#[derive(Clone)]
pub struct QueueProbe {
    queue: Weak<dyn Observe>,
}

impl QueueProbe {
    pub(crate) fn new(queue: Weak<dyn Observe>) -> Self {
        Self { queue }
    }

    /// Returns true if the queue still exists. The call takes no lock, so a caller with many probes can check
    /// all of them cheaply.
    ///
    /// ```
    /// use std::sync::{Arc, OnceLock};
    /// use std::time::Duration;
    /// use informer_workqueue::{QueueMetrics, QueueProbe, WorkQueue};
    ///
    /// #[derive(Default)]
    /// struct Keeper(OnceLock<QueueProbe>);
    ///
    /// impl QueueMetrics for Keeper {
    ///     fn added(&self, _: usize) {}
    ///     fn retried(&self) {}
    ///     fn queued_for(&self, _: Duration) {}
    ///     fn worked_for(&self, _: Duration) {}
    ///
    ///     fn attach(&self, probe: QueueProbe) {
    ///         let _ = self.0.set(probe);
    ///     }
    /// }
    ///
    /// let keeper = Arc::new(Keeper::default());
    /// let queue = WorkQueue::<u32>::builder().metrics(Arc::clone(&keeper) as _).build();
    /// assert!(keeper.0.get().is_some_and(QueueProbe::is_alive));
    /// drop(queue);
    /// assert!(!keeper.0.get().is_some_and(QueueProbe::is_alive));
    /// ```
    #[must_use]
    pub fn is_alive(&self) -> bool {
        self.queue.strong_count() > 0
    }

    /// Returns the current state of the queue; `None` if it was dropped.
    #[must_use]
    pub fn stats(&self) -> Option<QueueStats> {
        self.queue.upgrade().map(|queue| queue.stats())
    }
}

impl fmt::Debug for QueueProbe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueueProbe").finish_non_exhaustive()
    }
}

pub(crate) trait Observe: Send + Sync {
    fn stats(&self) -> QueueStats;
}

/// The state of a queue at one instant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueueStats {
    /// Number of ready keys.
    pub ready: usize,
    /// Number of keys that wait for a deadline.
    pub waiting: usize,
    /// Number of keys in process.
    pub processing: usize,
    /// Sum of the times that the keys now in process have been in process. Zero in a queue without metrics.
    pub unfinished: Duration,
    /// The longest time that one of the keys now in process has been in process. Zero in a queue without
    /// metrics.
    pub longest: Duration,
    /// The time since the ready key that has waited for a worker the longest became ready. Zero in a queue
    /// without ready keys or without metrics.
    pub oldest: Duration,
    /// The number of ready keys by priority and group, highest priority first; at most 100 rows.
    pub depths: Vec<QueueDepth>,
    /// Number of ready keys that are in no row of `depths`, because it has at most 100 rows.
    pub others: usize,
    /// True if the queue's [`Order`](crate::Order) panicked or violated its contract and was replaced by
    /// FIFO.
    pub order_failed: bool,
}

/// The number of ready keys of one priority and group.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueueDepth {
    /// The priority of the counted keys; `None` in a queue without priorities.
    pub priority: Option<i32>,
    /// The group of the counted keys; `None` in a queue without groups.
    pub group: Option<Arc<str>>,
    /// Number of ready keys with this priority and group.
    pub len: usize,
}

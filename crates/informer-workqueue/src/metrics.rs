//! What a queue tells about itself.
//!
//! Counters and durations are pushed, after the lock is released. Depths, and how long work has been going on, are
//! pulled with [`QueueProbe::stats`]: they are exact at the moment somebody looks, cost nothing otherwise, and need no
//! task that refreshes them.

#[cfg(feature = "prometheus")]
mod prometheus;

use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

#[cfg(feature = "prometheus")]
pub use self::prometheus::PrometheusMetrics;

/// Receives what happens in a queue. Calls come from the threads that use the queue and should be short.
pub trait QueueMetrics: Send + Sync + 'static {
    /// Keys became ready: those that were so already do not count, and those with a delay count when it is over.
    fn added(&self, keys: usize);

    /// A key was added with a delay or through the rate limiter.
    fn retried(&self);

    /// A key was handed out that had been ready for this long.
    fn queued_for(&self, time: Duration);

    /// A key was done that had been in process for this long.
    fn worked_for(&self, time: Duration);

    /// Called once, when the queue is made, with the means to look into it.
    fn attach(&self, probe: QueueProbe) {
        drop(probe);
    }
}

/// Looks into a queue without keeping it alive.
#[derive(Clone)]
pub struct QueueProbe {
    queue: Weak<dyn Observe>,
}

impl QueueProbe {
    pub(crate) fn new(queue: Weak<dyn Observe>) -> Self {
        Self { queue }
    }

    /// Whether the queue is still there. Takes no lock, so it suits whoever keeps many probes.
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

    /// What the queue holds now; `None` if it is gone.
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

/// What a queue holds at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueueStats {
    /// Keys to be handed out.
    pub ready: usize,
    /// Keys that wait for a deadline.
    pub waiting: usize,
    /// Keys in process.
    pub processing: usize,
    /// How long the keys in process have been so, added up. Zero in a queue without metrics.
    pub unfinished: Duration,
    /// How long the longest of them has been. Zero in a queue without metrics.
    pub longest: Duration,
    /// `ready` by priority and group, highest priority first; at most 100 rows.
    pub depths: Vec<QueueDepth>,
    /// The ready keys that are in no row.
    pub others: usize,
    /// The [`Order`](crate::Order) of the queue panicked or broke its contract, and was replaced by arrival.
    pub order_failed: bool,
}

/// Ready keys of one priority and group.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueueDepth {
    /// The priority; `None` in a queue without priorities.
    pub priority: Option<i32>,
    /// The group; `None` in a queue without groups.
    pub group: Option<Arc<str>>,
    /// How many keys are ready.
    pub len: usize,
}

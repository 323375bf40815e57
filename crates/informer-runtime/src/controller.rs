//! Controllers: sources, a queue, workers and a reconciler.
//!
//! # Invariants
//!
//! 1. A request is worked on by one worker at a time. 2. No reconcile begins before every source has delivered what was there at the
//!    beginning. 3. Sources are started once, by the warm-up or the run; who comes second waits for the first. 4. A request that
//!    was handed out gets an outcome, or is added again: nothing is lost by a panic, a timeout or an error.
//!
//! # Lock order
//!
//! `starting`, which is asynchronous, then `sources`, then `life`; or one of the slots. User code runs under none of the others.
//!
//! # Shutdown
//!
//! 1. The sources are detached and the queue is shut down; what is in it is not worked on. 2. Reconciles that go on have
//!    [`drain_within`](ControllerOptions::drain_within) to finish. 3. Then [`Context::stopping`] is cancelled, and they have five
//!    seconds to tidy up. 4. What still goes on is dropped at its next await, and named in the error.

mod builder;
mod context;
mod engine;
mod error;
mod handle;
mod metrics;
mod options;
mod outcome;
mod reconciler;
mod run;
mod sharded;
#[cfg(test)]
mod tests;
mod worker;

use std::time::Duration;

pub use builder::{Controller, ControllerBuilder};
pub use context::{Context, LookupError, ReconcileId};
pub use error::{BuildError, ControllerError};
pub use handle::ControllerHandle;
pub use informer_control::controller::ControllerPhase;
use informer_workqueue::QueueStats;
pub use metrics::ReconcileCounts;
pub(crate) use metrics::{ControllerMetricsProvider, metrics_of};
pub use options::{ControllerDefaults, ControllerOptions};
pub use outcome::{Outcome, ReconcileError, ReconcilePanic, ReconcileTimeout, TerminalError};
pub use reconciler::Reconciler;
pub(crate) use run::Environment;
pub use sharded::ShardState;

/// Everything that there is to know about a controller at one moment.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ControllerState {
    /// Its name.
    pub name: String,
    /// The kind that it reconciles, as `Website.example.com`; empty where there is none.
    pub kind: String,
    /// Where it is in its life.
    pub phase: ControllerPhase,
    /// How many requests it works on at once.
    pub workers: usize,
    /// What its reconciles came to.
    pub reconciles: ReconcileCounts,
    /// Panics of predicates and handlers, and of what sources run beside them; each was contained.
    pub trigger_panics: u64,
    /// Its queue.
    pub queue: QueueStats,
    /// Its sources.
    pub sources: Vec<String>,
    /// Its share of the keys, where it [shares](ControllerBuilder::sharded) them.
    pub shard: Option<ShardState>,
    /// What is worked on, and for how long.
    pub busy: Vec<(String, Duration)>,
}

//! Controllers, which consist of sources, a queue, workers and a reconciler.
//!
//! # Invariants
//!
//! 1. A request is reconciled by at most one worker at a time.
//! 2. No reconcile begins before every source has delivered its initial objects.
//! 3. Sources are started once, either by the warm-up or by the run. If one has begun to start them, the
//!    other waits.
//! 4. A request that a worker has received gets an outcome or is added to the queue again: a panic, a timeout
//!    or an error loses no request.
//!
//! # Lock order
//!
//! Locks of a running controller are taken in the order `starting`, which is asynchronous, then `sources`,
//! then `lifecycle`. The lock of a worker slot is never held together with another lock. User code runs under
//! no lock except `starting`.
//!
//! # Shutdown
//!
//! 1. The sources are detached and the queue is shut down; queued requests are not reconciled.
//! 2. Running reconciles have [`drain_within`](ControllerOptions::drain_within) to finish.
//! 3. Then [`Context::stopping`] is cancelled, and the running reconciles have five seconds to clean up.
//! 4. Reconciles that still run after that are dropped at their next await and named in the error.

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
#[cfg(feature = "console")]
mod state_page;
#[cfg(test)]
mod tests;
mod trace_links;
mod worker;

use std::time::Duration;

pub use builder::{Controller, ControllerBuilder};
pub use context::{CleanupError, Context, Finalization, LookupError, ReconcileId};
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

/// A snapshot of the state of a controller, for monitoring and tests.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ControllerState {
    /// The name of the controller.
    pub name: String,
    /// The reconciled kind, for example `Website.example.com`; empty if the controller has none.
    pub kind: String,
    /// The phase of the controller's lifecycle, for example created or stopped.
    pub phase: ControllerPhase,
    /// The number of workers, which is the maximum number of concurrent reconciles.
    pub workers: usize,
    /// The numbers of reconciles so far, by their result.
    pub reconciles: ReconcileCounts,
    /// Number of panics of predicates, handlers and tasks of sources that the controller has caught.
    pub trigger_panics: u64,
    /// The state of the controller's work queue, such as its length.
    pub queue: QueueStats,
    /// The names of the sources that add requests to the queue.
    pub sources: Vec<String>,
    /// The state of this replica's shard, if the controller is [sharded](ControllerBuilder::sharded).
    pub shard: Option<ShardState>,
    /// The requests that are being reconciled now, each with the time since its reconcile began.
    pub busy: Vec<(String, Duration)>,
}

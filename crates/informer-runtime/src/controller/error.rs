use std::time::Duration;

use crate::BoxError;

/// An invalid controller configuration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The controller has neither a name nor a reconciled kind from which a name is derived.
    #[error("build a controller: it has no name for logs and metrics; call `named`")]
    NoName,
    /// The name of the controller is not a valid field owner.
    #[error("controller {controller:?}: its name {problem}; use 1 to 128 bytes of printable characters")]
    InvalidName {
        /// The name of the controller.
        controller: String,
        /// The reason for which the name is not a valid field owner.
        problem: &'static str,
    },
    /// `for_` was called more than once, although a controller has at most one reconciled kind.
    #[error(
        "controller {controller}: `for_` sets the one reconciled kind and was called twice; use `watches` for others"
    )]
    ForTwice {
        /// The name of the controller.
        controller: String,
    },
    /// `owns` was called without `for_`, so the kind of the owners is unknown.
    #[error("controller {controller}: `owns` requires the kind of the owner; call `for_`")]
    OwnsWithoutFor {
        /// The name of the controller.
        controller: String,
    },
    /// A sharded controller, which runs in all replicas, is configured to run in the leader only.
    #[error("controller {controller}: a sharded controller runs in all replicas; remove `leader_only(true)`")]
    ShardedLeader {
        /// The name of the controller.
        controller: String,
    },
    /// The shard group is invalid.
    #[error("controller {controller}: the shard group is invalid")]
    Sharding {
        /// The name of the controller.
        controller: String,
        /// The reason for which the shard group is invalid.
        #[source]
        cause: crate::ShardConfigError,
    },
    /// The controller has no sources, so it would never reconcile anything.
    #[error("controller {controller}: it watches nothing; add `for_`, `watches` or `source`")]
    NothingWatched {
        /// The name of the controller.
        controller: String,
    },
}

/// The error of a controller that failed or did not stop in time.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ControllerError {
    /// The controller was started a second time.
    #[error("run controller {controller}: it was started before; create a new one to run it again")]
    StartedTwice {
        /// The name of the controller.
        controller: String,
    },
    /// A source failed to start.
    #[error("controller {controller}: the source {name} failed to start")]
    Source {
        /// The name of the controller.
        controller: String,
        /// The name of the source that failed to start.
        name: String,
        /// The error or the panic with which the source failed.
        #[source]
        cause: BoxError,
    },
    /// A source of the controller did not sync within the sync timeout.
    #[error(
        "controller {controller}: the source {name} did not deliver its initial objects within {after:?} and returned no error"
    )]
    NotSynced {
        /// The name of the controller.
        controller: String,
        /// The name of the source that did not sync.
        name: String,
        /// The sync timeout that has elapsed.
        after: Duration,
    },
    /// The sources of the controller had already failed during the warm-up.
    #[error("controller {controller}: its sources failed before; see the first error")]
    SourcesFailed {
        /// The name of the controller.
        controller: String,
    },
    /// A reconcile panicked, and the controller does not recover from panics.
    #[error("controller {controller}: the reconcile of {request} panicked: {message}")]
    Panicked {
        /// The name of the controller.
        controller: String,
        /// The request whose reconcile panicked.
        request: String,
        /// The message of the panic of the reconcile.
        message: String,
    },
    /// A worker panicked outside of the reconciler: in `Clone` or `Display` of a request, or in a rate
    /// limiter.
    #[error("controller {controller}: a worker panicked: {message}")]
    WorkerPanicked {
        /// The name of the controller.
        controller: String,
        /// The message of the worker's panic.
        message: String,
    },
    /// Some reconciles did not end in time after the stop of the controller, not even after they were
    /// cancelled. Their futures were dropped.
    #[error(
        "controller {controller}: {count} reconciles did not end within {after:?} and were dropped, among them {request}"
    )]
    NotDrained {
        /// The name of the controller.
        controller: String,
        /// The number of reconciles that were dropped.
        count: usize,
        /// The time from the stop of the controller until the reconciles were dropped.
        after: Duration,
        /// The request of one of the dropped reconciles, as an example.
        request: String,
    },
}

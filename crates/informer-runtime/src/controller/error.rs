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
        /// The problem.
        problem: &'static str,
    },
    /// `for_` was called more than once.
    #[error(
        "controller {controller}: `for_` sets the one reconciled kind and was called twice; use `watches` for others"
    )]
    ForTwice {
        /// The name of the controller.
        controller: String,
    },
    /// `owns` was called without `for_`.
    #[error("controller {controller}: `owns` requires the kind of the owner; call `for_`")]
    OwnsWithoutFor {
        /// The name of the controller.
        controller: String,
    },
    /// A sharded controller is configured as leader-only.
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
        /// The cause.
        #[source]
        cause: crate::ShardConfigError,
    },
    /// The controller has no sources.
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
        /// The name of the source.
        name: String,
        /// The cause.
        #[source]
        cause: BoxError,
    },
    /// A source did not sync in time.
    #[error(
        "controller {controller}: the source {name} did not deliver its initial objects within {after:?} and returned no error"
    )]
    NotSynced {
        /// The name of the controller.
        controller: String,
        /// The name of the source.
        name: String,
        /// The sync timeout.
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
        /// The panic message.
        message: String,
    },
    /// A worker panicked outside of the reconciler: in Clone or Display of a request, or in a rate limiter.
    #[error("controller {controller}: a worker panicked: {message}")]
    WorkerPanicked {
        /// The name of the controller.
        controller: String,
        /// The panic message.
        message: String,
    },
    /// Reconciles did not end in time after the stop of the controller, not even after they were cancelled.
    /// They were dropped.
    #[error(
        "controller {controller}: {count} reconciles did not end within {after:?} and were dropped, among them {request}"
    )]
    NotDrained {
        /// The name of the controller.
        controller: String,
        /// The number of dropped reconciles.
        count: usize,
        /// The time from the stop until they were dropped.
        after: Duration,
        /// The request of one of these reconciles.
        request: String,
    },
}

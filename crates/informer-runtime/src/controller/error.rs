use std::time::Duration;

use crate::BoxError;

/// A controller that cannot be made as it was described.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// It has no name, and no kind to be named after.
    #[error("a controller needs a name: it stands in its logs and metrics; use `named`")]
    NoName,
    /// The name of the controller is not a valid field owner.
    #[error("controller {controller:?}: its name {problem}; use 1 to 128 bytes of printable characters")]
    InvalidName {
        /// The controller.
        controller: String,
        /// What is wrong with the name.
        problem: &'static str,
    },
    /// Two kinds are reconciled.
    #[error(
        "controller {controller}: `for_` names the one kind that is reconciled, and was called twice; use `watches` for others"
    )]
    ForTwice {
        /// The controller.
        controller: String,
    },
    /// Owned objects without an owner's kind.
    #[error("controller {controller}: `owns` needs to know the kind of the owner; call `for_` as well")]
    OwnsWithoutFor {
        /// The controller.
        controller: String,
    },
    /// It shares its keys with other replicas, and only one of them would run it.
    #[error(
        "controller {controller}: it shares its keys with other replicas, so all of them have to run it; leave out `leader_only(true)`"
    )]
    ShardedLeader {
        /// The controller.
        controller: String,
    },
    /// It cannot share its keys as it was told to.
    #[error("controller {controller}: it cannot share its keys")]
    Sharding {
        /// The controller.
        controller: String,
        /// Why not.
        #[source]
        cause: crate::ShardConfigError,
    },
    /// Nothing would ever be reconciled.
    #[error("controller {controller}: it watches nothing; add `for_`, `watches` or `source`")]
    NothingWatched {
        /// The controller.
        controller: String,
    },
}

/// A controller ended before it was asked to, or did not end well.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ControllerError {
    /// It runs, or ran, already.
    #[error("controller {controller}: it was started twice; make another one to run it again")]
    StartedTwice {
        /// The controller.
        controller: String,
    },
    /// A source failed.
    #[error("controller {controller}: the source {name} could not be started")]
    Source {
        /// The controller.
        controller: String,
        /// The source.
        name: String,
        /// Why.
        #[source]
        cause: BoxError,
    },
    /// A source was not synced in time.
    #[error(
        "controller {controller}: the source {name} has not delivered what was there within {after:?}, and does not say why"
    )]
    NotSynced {
        /// The controller.
        controller: String,
        /// The source.
        name: String,
        /// How long the controller waited.
        after: Duration,
    },
    /// Its sources failed when it warmed up.
    #[error("controller {controller}: its sources failed before; the first error says why")]
    SourcesFailed {
        /// The controller.
        controller: String,
    },
    /// A reconcile panicked, and panics are not to be recovered from.
    #[error("controller {controller}: the reconcile of {request} panicked: {message}")]
    Panicked {
        /// The controller.
        controller: String,
        /// The request.
        request: String,
        /// What the panic said.
        message: String,
    },
    /// A worker panicked outside of the reconciler: in Clone or Display of a request, or in a rate limiter.
    #[error("controller {controller}: a worker panicked: {message}")]
    WorkerPanicked {
        /// The controller.
        controller: String,
        /// What the panic said.
        message: String,
    },
    /// Reconciles did not end after the stop.
    #[error(
        "controller {controller}: {count} reconciles did not end within {after:?} and were dropped, among them {request}"
    )]
    NotDrained {
        /// The controller.
        controller: String,
        /// How many.
        count: usize,
        /// How long they were waited for.
        after: Duration,
        /// One of them.
        request: String,
    },
}

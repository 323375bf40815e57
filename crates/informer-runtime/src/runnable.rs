use std::fmt;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use crate::ManagerHandle;

pub use informer_workqueue::BoxError;

/// The start group of a [`Runnable`]. Groups start in this order and stop in reverse order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RunnableGroup {
    /// Health, metrics and debug servers: they serve before anything else runs and until everything else has
    /// stopped.
    HttpServers,
    /// Admission and conversion webhooks, which caches may need to sync.
    Webhooks,
    /// Informers; the next group waits until they have synced.
    Caches,
    /// Runnables that need caches and no leadership.
    Others,
    /// Preparations of leader-only runnables in a standby.
    WarmUp,
    /// The leader elector.
    LeaderElection,
    /// Runnables that only run in the leader; the default.
    LeaderOnly,
}

impl RunnableGroup {
    /// All groups, in start order.
    pub const ALL: [Self; 7] = [
        Self::HttpServers,
        Self::Webhooks,
        Self::Caches,
        Self::Others,
        Self::WarmUp,
        Self::LeaderElection,
        Self::LeaderOnly,
    ];
}

/// A component that a manager starts, supervises and stops.
///
/// It runs until `stop` is cancelled. An error or a panic stops the manager and all other runnables. A
/// runnable that returns `Ok` early has completed; the manager keeps running.
pub trait Runnable: Send + 'static {
    /// Returns the name used in logs, errors and reports.
    fn name(&self) -> String;

    /// Returns the start group.
    fn group(&self) -> RunnableGroup {
        RunnableGroup::LeaderOnly
    }

    /// Resolves when the runnable is ready; later groups wait for that. Called once, before
    /// [`run`](Self::run), and polled concurrently with it. `None`, the default: ready as soon as it runs.
    ///
    /// If the runnable is not ready after `timeout`, the future should return an error that states the
    /// reason. The manager ends with that error.
    fn ready(&self, timeout: Duration) -> Option<BoxFuture<'static, Result<(), BoxError>>> {
        let _ = timeout;
        None
    }

    /// Returns a runnable that prepares this one while the process is a standby. It runs in
    /// [`RunnableGroup::WarmUp`], whatever its group.
    fn warm_up(&mut self) -> Option<Box<dyn Runnable>> {
        None
    }

    /// Runs until `stop` is cancelled.
    ///
    /// # Errors
    ///
    /// If the runnable fails before it was stopped.
    fn run(self: Box<Self>, stop: CancellationToken) -> BoxFuture<'static, Result<(), BoxError>>;
}

impl Runnable for Box<dyn Runnable> {
    fn name(&self) -> String {
        (**self).name()
    }

    fn group(&self) -> RunnableGroup {
        (**self).group()
    }

    fn ready(&self, timeout: Duration) -> Option<BoxFuture<'static, Result<(), BoxError>>> {
        (**self).ready(timeout)
    }

    fn warm_up(&mut self) -> Option<Box<dyn Runnable>> {
        (**self).warm_up()
    }

    fn run(self: Box<Self>, stop: CancellationToken) -> BoxFuture<'static, Result<(), BoxError>> {
        (*self).run(stop)
    }
}

/// Creates a [`Runnable`] with the services of a manager: its client, health checks and metrics. Implemented
/// by every [`Runnable`].
pub trait IntoRunnable {
    /// Creates the runnable.
    ///
    /// # Errors
    ///
    /// If the runnable cannot run in this manager, for example because a name is taken or options conflict.
    /// The manager then does not start.
    fn into_runnable(self, manager: &ManagerHandle) -> Result<Box<dyn Runnable>, BoxError>;
}

impl<R: Runnable> IntoRunnable for R {
    fn into_runnable(self, _: &ManagerHandle) -> Result<Box<dyn Runnable>, BoxError> {
        Ok(Box::new(self))
    }
}

/// A [`Runnable`] from an async function; see [`runnable`].
#[must_use = "add it to a manager"]
pub struct FnRunnable<F> {
    name: String,
    group: RunnableGroup,
    function: F,
}

/// Creates a runnable from an async function that runs until its token is cancelled. Leader-only unless
/// another group is set.
///
/// ```
/// use informer_runtime::{RunnableGroup, runnable};
///
/// let sweeper = runnable("sweeper", |stop| async move {
///     stop.cancelled().await;
///     Ok(())
/// })
/// .group(RunnableGroup::Others);
/// # drop(sweeper);
/// ```
pub fn runnable<F, Fut>(name: impl Into<String>, function: F) -> FnRunnable<F>
where
    F: FnOnce(CancellationToken) -> Fut + Send + 'static,
    Fut: Future<Output = Result<(), BoxError>> + Send + 'static,
{
    FnRunnable { name: name.into(), group: RunnableGroup::LeaderOnly, function }
}

impl<F> FnRunnable<F> {
    /// Sets the group.
    pub fn group(self, group: RunnableGroup) -> Self {
        Self { group, ..self }
    }
}

impl<F, Fut> Runnable for FnRunnable<F>
where
    F: FnOnce(CancellationToken) -> Fut + Send + 'static,
    Fut: Future<Output = Result<(), BoxError>> + Send + 'static,
{
    fn name(&self) -> String {
        self.name.clone()
    }

    fn group(&self) -> RunnableGroup {
        self.group
    }

    fn run(self: Box<Self>, stop: CancellationToken) -> BoxFuture<'static, Result<(), BoxError>> {
        (self.function)(stop).boxed()
    }
}

impl<F> fmt::Debug for FnRunnable<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FnRunnable")
            .field("name", &self.name)
            .field("group", &self.group)
            .finish_non_exhaustive()
    }
}

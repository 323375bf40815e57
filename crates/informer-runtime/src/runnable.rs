use std::fmt;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;

pub use informer_workqueue::BoxError;

/// The group of a [`Runnable`], which determines when a manager starts it. Groups start in this order and
/// stop in reverse order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RunnableGroup {
    /// Servers for health checks, metrics and debug pages. They start before all other groups and stop after
    /// them, so that probes also work during start and stop.
    HttpServers,
    /// Admission and conversion webhooks. They start before caches, because an API server may need a
    /// conversion webhook to serve the lists of a cache.
    Webhooks,
    /// Caches and their informers. The next group starts when they have synced.
    Caches,
    /// Runnables that need synced caches, and run in every replica, whether or not it is the leader.
    Others,
    /// Runnables that prepare leader-only runnables while this process is a standby, so that a new leader
    /// starts faster.
    WarmUp,
    /// The leader elector, which acquires the lease for this process.
    LeaderElection,
    /// Runnables that run only in the process that is the leader. This is the default group.
    LeaderOnly,
}

impl RunnableGroup {
    /// All groups, in the order in which a manager starts them.
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
/// A runnable runs until `stop` is cancelled. If it returns an error or panics, the manager and all other
/// runnables stop. If it returns `Ok` early, it has completed, and the manager keeps running.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a runnable",
    label = "a manager cannot run this type",
    note = "implement `Runnable`, or wrap an async function: \
            `runnable(\"sweeper\", |stop| async move {{ .. }})`"
)]
pub trait Runnable: Send + 'static {
    /// Returns the name of the runnable in logs and errors.
    fn name(&self) -> String;

    /// Returns the group with which the manager starts the runnable.
    fn group(&self) -> RunnableGroup {
        RunnableGroup::LeaderOnly
    }

    /// Returns a future that resolves when the runnable is ready; later groups wait for it. This method is
    /// called once, before [`run`](Self::run), and the future is polled concurrently with `run`. With `None`,
    /// the default, the runnable is ready as soon as it runs.
    ///
    /// If the runnable is not ready after `timeout`, the future should return an error that states the
    /// reason. The manager ends with that error.
    fn ready(&self, timeout: Duration) -> Option<BoxFuture<'static, Result<(), BoxError>>> {
        let _ = timeout;
        None
    }

    /// Returns a runnable that prepares this one while the process is a standby. The returned runnable runs
    /// in [`RunnableGroup::WarmUp`], whatever its group.
    fn warm_up(&mut self) -> Option<Box<dyn Runnable>> {
        None
    }

    /// Runs the component until `stop` is cancelled.
    ///
    /// # Errors
    ///
    /// Returns an error if the component fails before it was stopped. The manager then stops.
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

/// A [`Runnable`] that calls an async function; the function [`runnable`] creates it.
#[must_use = "add it to a manager"]
pub struct FnRunnable<F> {
    name: String,
    group: RunnableGroup,
    function: F,
}

/// Creates a runnable from an async function that runs until its token is cancelled. The runnable is
/// leader-only unless another group is set.
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
    /// Sets the group with which a manager starts this runnable.
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

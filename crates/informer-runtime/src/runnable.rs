use std::error::Error;
use std::fmt;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use crate::ManagerHandle;

/// Any error of a part, or of the user's code.
pub type BoxError = Box<dyn Error + Send + Sync>;

/// When a [`Runnable`] starts. Groups start in this order and stop in the reverse one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RunnableGroup {
    /// Health, metrics and debug pages: they answer before anything else runs, and until all else has stopped.
    HttpServers,
    /// Admission and conversion, which caches may need before they sync.
    Webhooks,
    /// Informers: started, and waited for.
    Caches,
    /// What needs caches and no leadership.
    Others,
    /// What leader-only parts prepare while they stand by.
    WarmUp,
    /// The elector itself.
    LeaderElection,
    /// What only the leader may do; the default.
    LeaderOnly,
}

impl RunnableGroup {
    /// All groups, in the order in which they start.
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

/// A part that a manager starts, watches and stops.
///
/// It runs until `stop` is cancelled. An error ends the manager with it, and every other part. One that returns `Ok` early is done;
/// the manager goes on. A panic counts as an error that names the part.
pub trait Runnable: Send + 'static {
    /// The name in logs, errors and reports.
    fn name(&self) -> String;

    /// When it starts.
    fn group(&self) -> RunnableGroup {
        RunnableGroup::LeaderOnly
    }

    /// Resolves when the part is ready: the groups behind its own wait for that. Asked once, before [`run`](Self::run), and polled
    /// beside it. `None`, the default: as soon as it runs.
    ///
    /// What is not ready after `timeout` should say what it waits for, and why that does not come; the manager ends with that error.
    fn ready(&self, timeout: Duration) -> Option<BoxFuture<'static, Result<(), BoxError>>> {
        let _ = timeout;
        None
    }

    /// What it can do ahead of its turn, while it stands by: that part runs in [`RunnableGroup::WarmUp`], whatever group it names.
    fn warm_up(&mut self) -> Option<Box<dyn Runnable>> {
        None
    }

    /// Runs it.
    ///
    /// # Errors
    ///
    /// What made it end before it was asked to.
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

/// What becomes a [`Runnable`] with what the manager shares: its client, its health checks, its metrics. Every [`Runnable`] is one.
pub trait IntoRunnable {
    /// Makes the part.
    ///
    /// # Errors
    ///
    /// When it cannot run in this manager: a name that is taken, options that contradict each other. The manager does not start then.
    fn into_runnable(self, manager: &ManagerHandle) -> Result<Box<dyn Runnable>, BoxError>;
}

impl<R: Runnable> IntoRunnable for R {
    fn into_runnable(self, _: &ManagerHandle) -> Result<Box<dyn Runnable>, BoxError> {
        Ok(Box::new(self))
    }
}

/// A [`Runnable`] of an async function. Made by [`runnable`].
#[must_use = "it runs in a manager"]
pub struct FnRunnable<F> {
    name: String,
    group: RunnableGroup,
    function: F,
}

/// Makes a part of an async function that runs until its token is cancelled. It is leader-only unless another group is chosen.
///
/// ```
/// use informer_runtime::{RunnableGroup, runnable};
///
/// let part = runnable("sweeper", |stop| async move {
///     stop.cancelled().await;
///     Ok(())
/// })
/// .group(RunnableGroup::Others);
/// # drop(part);
/// ```
pub fn runnable<F, Fut>(name: impl Into<String>, function: F) -> FnRunnable<F>
where
    F: FnOnce(CancellationToken) -> Fut + Send + 'static,
    Fut: Future<Output = Result<(), BoxError>> + Send + 'static,
{
    FnRunnable { name: name.into(), group: RunnableGroup::LeaderOnly, function }
}

impl<F> FnRunnable<F> {
    /// Chooses the group.
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

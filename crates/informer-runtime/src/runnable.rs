use std::error::Error;

use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;

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

    /// Runs it.
    ///
    /// # Errors
    ///
    /// What made it end before it was asked to.
    fn run(self: Box<Self>, stop: CancellationToken) -> BoxFuture<'static, Result<(), BoxError>>;
}

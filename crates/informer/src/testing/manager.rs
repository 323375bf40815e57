//! Managers that run on a [`TestServer`].

use std::error::Error;
use std::fmt;
use std::future::pending;
use std::panic::{AssertUnwindSafe, resume_unwind};

use futures_util::FutureExt;
use informer_core::panics::panic_text;
use informer_runtime::{IntoRunnable, Manager, ManagerError, ManagerHandle};
use tokio::task::JoinHandle;

use super::TestServer;
use super::failures::ManagerFailure;

/// A manager that runs in a task of its own, as returned by [`TestServer::run`]. Dropping it stops the
/// manager without waiting for its runnables. Only [`stop`](Self::stop) reports an error that occurs after
/// the last wait of the test.
#[must_use = "the manager stops when it is dropped"]
pub struct RunningManager {
    task: JoinHandle<Result<(), ManagerError>>,
    stop: StopOnDrop,
}

struct StopOnDrop {
    handle: ManagerHandle,
    failure: ManagerFailure,
}

impl TestServer {
    /// Runs a manager with one controller, or with another runnable, against this server, without leader
    /// election. Its requests are those of [`client`](Self::client). On a server with RBAC, use
    /// [`run_manager`](Self::run_manager) with the client of a user.
    ///
    /// This method does not wait until the manager has started. If the manager fails, the next
    /// [`eventually`](Self::eventually) or [`consistently`](Self::consistently) of this server and its clones
    /// panics with the error of the manager.
    ///
    /// ```
    /// use informer::prelude::*;
    /// use informer::testing::{TestServer, has_field, pod};
    /// use k8s_openapi::api::core::v1::Pod;
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let labels = Controller::new::<Pod>("labels").reconcile(|request, ctx| async move {
    ///     let Some(pod) = ctx.get::<Pod>(&request.key).await? else { return Ok(Outcome::Done) };
    ///     let mut edited = pod.edit();
    ///     edited.metadata.labels.get_or_insert_default().insert("seen".to_owned(), "yes".to_owned());
    ///     ctx.client.update(&edited).await?;
    ///     Ok(Outcome::Done)
    /// });
    ///
    /// let server = TestServer::start().await;
    /// let manager = server.run(labels);
    /// server.create(&pod("default/web-0")).await?;
    /// server.eventually("default/web-0", has_field::<Pod>("metadata.labels.seen", "yes")).await;
    /// manager.stop().await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if called outside of a tokio runtime.
    pub fn run(&self, controller: impl IntoRunnable) -> RunningManager {
        self.run_manager(|manager| manager.add(controller))
    }

    /// Runs a manager that `configure` has prepared, like [`run`](Self::run): several controllers, leader
    /// election, defaults. The closure may also return another manager than the one that it receives, for
    /// example one with the permissions of a [user](Self::client_as).
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use informer::prelude::*;
    /// use informer::testing::{ApiServer, TestServer, User};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let server = TestServer::of(ApiServer::builder().rbac(true).build());
    /// let operator = server.client_as(User::new("system:serviceaccount:shop:operator"));
    /// let manager = server.run_manager(|_| Manager::new(operator).stop_timeout(Duration::from_secs(5)));
    /// manager.stop().await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if called outside of a tokio runtime.
    pub fn run_manager(&self, configure: impl FnOnce(Manager) -> Manager) -> RunningManager {
        let manager = configure(Manager::new(self.client()));
        let stop = StopOnDrop { handle: manager.handle(), failure: self.failures.register() };
        let failure = stop.failure.clone();
        let task = tokio::spawn(async move {
            let ended = AssertUnwindSafe(manager.run_until(pending::<()>())).catch_unwind().await;
            match &ended {
                Ok(Ok(())) => {}
                Ok(Err(error)) => failure.set(with_sources(error)),
                Err(panic) => failure.set(format!("the manager panicked: {}", panic_text(&**panic))),
            }
            ended.unwrap_or_else(|panic| resume_unwind(panic))
        });
        RunningManager { task, stop }
    }
}

impl RunningManager {
    /// Stops the manager, waits until its runnables have ended, and returns its result. The result of a
    /// manager that has already ended is returned as well.
    ///
    /// # Errors
    ///
    /// Returns the error of a manager that failed before the stop or during it.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future does not resume the manager: it continues to stop.
    pub async fn stop(self) -> Result<(), ManagerError> {
        let Self { task, stop } = self;
        drop(stop);
        match task.await {
            Ok(ended) => ended,
            // A task that has not panicked was dropped with its runtime, so that nothing has failed.
            Err(error) => error.try_into_panic().map_or(Ok(()), |panic| resume_unwind(panic)),
        }
    }

    /// Lets the manager fail, for example by losing its lease, without an effect on the waits of the test.
    /// [`stop`](Self::stop) still returns the error.
    pub fn may_fail(self) -> Self {
        self.stop.failure.remove();
        self
    }

    /// Returns the handle of the manager, for its status, its services and more runnables.
    pub fn handle(&self) -> &ManagerHandle {
        &self.stop.handle
    }
}

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.failure.remove();
        self.handle.stop();
    }
}

/// Returns the message of an error and those of its sources.
fn with_sources(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text = format!("{text}: {error}");
        source = error.source();
    }
    text
}

impl fmt::Debug for RunningManager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RunningManager").field(&self.stop.handle).finish()
    }
}

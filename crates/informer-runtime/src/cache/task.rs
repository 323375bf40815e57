//! A background task of a cache.

use std::future::Future;

use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

/// A background task of a cache. Dropping this value stops the task.
pub(super) struct CacheTask {
    stop: DropGuard,
    task: JoinHandle<()>,
}

impl CacheTask {
    /// Spawns a task that ends when its token is cancelled.
    pub(super) fn spawn<F>(runtime: &Handle, task: impl FnOnce(CancellationToken) -> F) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let stop = CancellationToken::new();
        let task = runtime.spawn(task(stop.clone()));
        Self { stop: stop.drop_guard(), task }
    }

    /// Stops the task and waits until it has ended.
    pub(super) async fn stop(self) {
        drop(self.stop);
        // The result is an error only if the runtime shuts down, which ends the task, too.
        let _ = self.task.await;
    }
}

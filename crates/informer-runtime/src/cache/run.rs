//! Starts and stops the informers of a cache.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, join_all};
use informer_cache::{CacheSynced, InformerRun, SyncError, wait_for_cache_sync};
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use super::idle::end_idle_informers;
use super::table::{InformerTable, Stopping};
use super::task::CacheTask;
use super::{Cache, crds};
use crate::{BoxError, Runnable, RunnableGroup};

#[derive(Debug, thiserror::Error)]
#[error(
    "run the cache: a manager runs it already, or it was stopped before; create a cache for each manager"
)]
struct AlreadyRun;

impl Cache {
    /// Starts all informers; informers that are created later start immediately. The call has no effect if
    /// the cache was started or [stopped](Self::stop) before.
    ///
    /// # Panics
    ///
    /// Panics outside of a tokio runtime with time enabled.
    #[track_caller]
    pub fn start(&self) {
        self.start_with(InformerTable::start);
    }

    /// Starts the table on the current runtime, and the background tasks when the table starts for the first
    /// time. Returns the result of `start`.
    fn start_with(&self, start: impl FnOnce(&mut InformerTable, Handle) -> bool) -> bool {
        let runtime = Handle::current();
        let mut table = self.shared.table.lock();
        let is_first = table.is_created();
        let is_started = start(&mut table, runtime.clone());
        if is_first && is_started {
            table.tasks = self.background_tasks(&runtime);
        }
        is_started
    }

    fn background_tasks(&self, runtime: &Handle) -> Vec<CacheTask> {
        let shared = || Arc::downgrade(&self.shared);
        let mut tasks = Vec::new();
        if let Some(idle) = self.shared.idle_timeout {
            let cache = shared();
            tasks.push(CacheTask::spawn(runtime, |stop| end_idle_informers(cache, idle, stop)));
        }
        if self.shared.follows_crds {
            let (cache, client) = (shared(), self.shared.client.clone());
            tasks.push(CacheTask::spawn(runtime, |stop| crds::follow(cache, client, stop)));
        }
        tasks
    }

    /// Waits until every informer that is now in the cache has synced.
    ///
    /// # Errors
    ///
    /// Returns an error after `timeout`. The error names the informers that have not synced, their activity
    /// and their last errors.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect, because this method only waits.
    pub async fn wait_for_sync(&self, timeout: Duration) -> Result<(), SyncError> {
        let informers = self.shared.table.lock().served_informers();
        let caches: Vec<&dyn CacheSynced> =
            informers.iter().flat_map(|informer| informer.as_caches()).collect();
        wait_for_cache_sync(caches, timeout).await
    }

    /// Returns true if every informer in the cache has synced, for readiness checks.
    pub fn has_synced(&self) -> bool {
        let informers = self.shared.table.lock().served_informers();
        informers.iter().flat_map(|informer| informer.as_caches()).all(|cache| *cache.synced().borrow())
    }

    /// Returns true once the cache was started. It keeps returning true after the cache has stopped.
    pub fn is_started(&self) -> bool {
        !self.shared.table.lock().is_created()
    }

    /// Returns true once the cache was stopped.
    pub(crate) fn is_stopped(&self) -> bool {
        self.shared.table.lock().is_stopped()
    }

    /// Stops all informers, waits until their tasks have ended, and prevents further starts.
    ///
    /// # Cancel safety
    ///
    /// All informers begin to stop when the future is first polled; dropping the future after that only ends
    /// the wait.
    pub async fn stop(&self) {
        let Stopping { informers, tasks } = self.shared.table.lock().stop();
        let informers = join_all(informers.into_iter().map(InformerRun::stop));
        tokio::join!(informers, join_all(tasks.into_iter().map(CacheTask::stop)));
    }
}

impl Runnable for Cache {
    fn name(&self) -> String {
        "cache".to_owned()
    }

    fn group(&self) -> RunnableGroup {
        RunnableGroup::Caches
    }

    /// Returns a future that resolves when all informers that are in the cache at this moment have synced. A
    /// manager then considers its cache ready.
    fn ready(&self, timeout: Duration) -> Option<BoxFuture<'static, Result<(), BoxError>>> {
        let cache = self.clone();
        Some(Box::pin(async move { Ok(cache.wait_for_sync(timeout).await?) }))
    }

    fn run(self: Box<Self>, stop: CancellationToken) -> BoxFuture<'static, Result<(), BoxError>> {
        Box::pin(async move {
            if !self.start_with(InformerTable::start_managed) {
                return Err(AlreadyRun.into());
            }
            let _stops = StopsOnDrop(&self);
            stop.cancelled().await;
            self.stop().await;
            Ok(())
        })
    }
}

/// A guard that stops the informers of a cache whose manager was dropped. Dropping the cache is not enough,
/// since the program's handlers may keep the cache alive.
struct StopsOnDrop<'a>(&'a Cache);

impl Drop for StopsOnDrop<'_> {
    fn drop(&mut self) {
        let stopping = self.0.shared.table.lock().stop();
        drop(stopping);
    }
}

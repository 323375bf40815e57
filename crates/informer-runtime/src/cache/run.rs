//! From start to stop.

use std::time::Duration;

use futures_util::future::{BoxFuture, join_all};
use informer_cache::{CacheSynced, InformerRun, SyncError, wait_for_cache_sync};
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use super::Cache;
use crate::{BoxError, Runnable, RunnableGroup};

/// A cache was to be run by a second manager, or after it had stopped.
#[derive(Debug, thiserror::Error)]
#[error(
    "run the cache: a manager runs it already, or it was stopped before; give each manager a cache of its own"
)]
struct AlreadyRun;

impl Cache {
    /// Starts the informers that were asked for so far; those that come later start at once. Does nothing the second time, and
    /// nothing after [`stop`](Self::stop).
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime with time enabled.
    #[track_caller]
    pub fn start(&self) {
        let runtime = Handle::current();
        self.shared.table.lock().start(runtime);
    }

    /// Waits until every informer that is in the cache now is synced.
    ///
    /// # Errors
    ///
    /// After `timeout`: which informers are not, what each is doing, and its last error.
    ///
    /// # Cancel safety
    ///
    /// Safe: it only waits.
    pub async fn wait_for_sync(&self, timeout: Duration) -> Result<(), SyncError> {
        let informers = self.shared.table.lock().informers();
        let caches: Vec<&dyn CacheSynced> =
            informers.iter().flat_map(|informer| informer.as_caches()).collect();
        wait_for_cache_sync(caches, timeout).await
    }

    /// True while every informer in the cache is synced: what a readiness check asks.
    pub fn has_synced(&self) -> bool {
        let informers = self.shared.table.lock().informers();
        informers.iter().flat_map(|informer| informer.as_caches()).all(|cache| *cache.synced().borrow())
    }

    /// True once the cache was started, also after it has stopped.
    pub fn is_started(&self) -> bool {
        !self.shared.table.lock().is_created()
    }

    /// Stops all informers, waits until their tasks have ended, and forbids further starts.
    ///
    /// # Cancel safety
    ///
    /// All informers are told to stop when the future is first polled; dropping it after that only ends the wait.
    pub async fn stop(&self) {
        let runs = self.shared.table.lock().stop();
        join_all(runs.into_iter().map(InformerRun::stop)).await;
    }
}

impl Runnable for Cache {
    fn name(&self) -> String {
        "cache".to_owned()
    }

    fn group(&self) -> RunnableGroup {
        RunnableGroup::Caches
    }

    /// When the informers that were asked for before are synced.
    fn ready(&self, timeout: Duration) -> Option<BoxFuture<'static, Result<(), BoxError>>> {
        let cache = self.clone();
        Some(Box::pin(async move { Ok(cache.wait_for_sync(timeout).await?) }))
    }

    fn run(self: Box<Self>, stop: CancellationToken) -> BoxFuture<'static, Result<(), BoxError>> {
        Box::pin(async move {
            let starts = self.shared.table.lock().start_managed(Handle::current());
            if !starts {
                return Err(AlreadyRun.into());
            }
            let _stops = StopsOnDrop(&self);
            stop.cancelled().await;
            self.stop().await;
            Ok(())
        })
    }
}

/// Stops the informers of a cache whose manager was dropped: handlers of the program may hold the cache, so that dropping it is
/// not enough.
struct StopsOnDrop<'a>(&'a Cache);

impl Drop for StopsOnDrop<'_> {
    fn drop(&mut self) {
        let runs = self.0.shared.table.lock().stop();
        drop(runs);
    }
}

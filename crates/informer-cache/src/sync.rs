//! Functions that wait for caches to sync, with a timeout, and with an error that contains the reason for the
//! delay.

use std::fmt;
use std::time::Duration;

use tokio::sync::watch;

use crate::reflector::ReflectorPhase;

/// An informer, or one handler of an informer, for whose sync a caller can wait.
pub trait CacheSynced: Send + Sync {
    /// Returns a receiver of the synced state, which is true once the informer or the handler has synced.
    fn synced(&self) -> watch::Receiver<bool>;

    /// Returns the name of the informer or handler and its current activity, for the error of a wait that
    /// timed out.
    fn describe(&self) -> Unsynced;
}

/// Describes a cache that did not sync in time.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unsynced {
    /// The name of the informer or handler.
    pub name: String,
    /// The activity of the informer when the wait timed out.
    pub doing: String,
    /// The last error of the informer, with its causes.
    pub last_error: Option<String>,
}

impl Unsynced {
    /// Returns a description of a cache that is not synced.
    pub fn new(name: impl Into<String>, doing: impl Into<String>, last_error: Option<String>) -> Self {
        Self { name: name.into(), doing: doing.into(), last_error }
    }
}

impl fmt::Display for Unsynced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is {}", self.name, self.doing)?;
        match &self.last_error {
            Some(error) => write!(f, ": {error}"),
            None => Ok(()),
        }
    }
}

/// The error of a wait for the sync that timed out. It contains the caches that have not synced, with the
/// reasons.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyncError {
    unsynced: Vec<Unsynced>,
    timeout: Duration,
}

impl SyncError {
    pub(crate) fn of<'a>(caches: impl IntoIterator<Item = &'a dyn CacheSynced>, timeout: Duration) -> Self {
        Self { unsynced: caches.into_iter().map(CacheSynced::describe).collect(), timeout }
    }

    /// Returns the caches that have not synced, sorted by name.
    pub fn unsynced(&self) -> &[Unsynced] {
        &self.unsynced
    }
}

impl std::error::Error for SyncError {}

impl fmt::Display for SyncError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not synced after {:?}: ", self.timeout)?;
        for (index, unsynced) in self.unsynced.iter().enumerate() {
            let separator = if index > 0 { "; " } else { "" };
            write!(f, "{separator}{unsynced}")?;
        }
        Ok(())
    }
}

/// Waits until all caches are synced. The function subscribes to the caches and does not poll them.
///
/// # Errors
///
/// Returns an error after `timeout`. The error names the caches that are not synced, the activity of each,
/// and its last error.
///
/// # Cancel safety
///
/// Dropping the future only ends the wait; the caches continue.
pub async fn wait_for_cache_sync<'a>(
    caches: impl IntoIterator<Item = &'a dyn CacheSynced>,
    timeout: Duration,
) -> Result<(), SyncError> {
    let caches: Vec<&dyn CacheSynced> = caches.into_iter().collect();
    let all = async {
        for cache in &caches {
            // If the sender of a cache was dropped, the cache never becomes synced. The wait then lasts until
            // its timeout, which reports the cache.
            if cache.synced().wait_for(|synced| *synced).await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    };
    match tokio::time::timeout(timeout, all).await {
        Ok(()) => Ok(()),
        Err(_) => {
            let mut late: Vec<_> = caches.into_iter().filter(|cache| !*cache.synced().borrow()).collect();
            if late.is_empty() {
                return Ok(());
            }
            late.sort_by_key(|cache| cache.describe().name);
            Err(SyncError::of(late, timeout))
        }
    }
}

/// Describes the phase of a reflector, as a phrase that follows "is" in the error of a wait that timed out.
pub(crate) fn doing(phase: ReflectorPhase) -> &'static str {
    match phase {
        ReflectorPhase::Created => "starting",
        ReflectorPhase::Listing => "listing",
        ReflectorPhase::StreamingList => "reading a streaming list",
        ReflectorPhase::Checking => "checking the last version",
        ReflectorPhase::OpeningWatch => "opening its watch",
        ReflectorPhase::Watching => "watching",
        ReflectorPhase::BackingOff => "waiting to try again",
        ReflectorPhase::Stopped => "stopped",
    }
}

//! Ends unused informers.
//!
//! An informer is used while the program or a controller holds a handle, while it has a handler or a stream
//! of events, and when it is read. A task checks all informers twice per idle timeout, and stops those that
//! were unused for the whole timeout.
//!
//! # Shutdown
//!
//! The task ends when the cache is stopped or dropped.

use std::sync::Weak;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use super::CacheInner;
use crate::clock::now;

/// Whether an informer is in use, and since when it is not.
#[derive(Debug, Default)]
pub(super) struct Usage {
    was_used: bool,
    unused_since: Option<Instant>,
}

impl Usage {
    /// Records a use of the informer.
    pub(super) fn record(&mut self) {
        self.was_used = true;
    }

    /// Returns whether the informer was unused for the time `idle`. `is_held` is whether it is in use now.
    pub(super) fn is_idle(&mut self, is_held: bool, idle: Duration, now: Instant) -> bool {
        if std::mem::take(&mut self.was_used) || is_held {
            self.unused_since = None;
            return false;
        }
        let since = *self.unused_since.get_or_insert(now);
        now.saturating_duration_since(since) >= idle
    }
}

pub(super) async fn end_idle_informers(cache: Weak<CacheInner>, idle: Duration, stop: CancellationToken) {
    loop {
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = tokio::time::sleep(idle / 2) => {}
        }
        let Some(cache) = cache.upgrade() else { return };
        // The informers are stopped without the lock of the table.
        let (informers, bodies) = cache.table.lock().take_idle(idle, now());
        for entry in informers {
            tracing::info!(kind = %entry.informer.kind_name(), "stopped an unused informer");
            entry.informer.close();
        }
        bodies.iter().for_each(|entry| entry.erased.close());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDLE: Duration = Duration::from_secs(60);

    #[test]
    fn informer_is_idle_after_the_idle_time_without_a_use() {
        let (mut usage, start) = (Usage::default(), now());
        usage.record();
        assert!(!usage.is_idle(false, IDLE, start), "it was just used");
        assert!(!usage.is_idle(false, IDLE, start + IDLE / 2));
        assert!(!usage.is_idle(false, IDLE, start + IDLE));
        assert!(usage.is_idle(false, IDLE, start + IDLE + IDLE / 2));
    }

    #[test]
    fn use_and_handle_restart_the_idle_time() {
        let (mut usage, start) = (Usage::default(), now());
        assert!(!usage.is_idle(false, IDLE, start));
        assert!(!usage.is_idle(true, IDLE, start + 2 * IDLE), "a handle exists");
        assert!(!usage.is_idle(false, IDLE, start + 3 * IDLE));
        usage.record();
        assert!(!usage.is_idle(false, IDLE, start + 5 * IDLE), "it was read");
    }
}

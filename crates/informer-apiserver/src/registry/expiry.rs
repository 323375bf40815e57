//! Expiry of events, which kube-apiserver implements with etcd leases.
//!
//! There is no background task. Due objects are removed when a request arrives, when a watch of events waits
//! for the expiry, and when the clock is advanced. Clients cannot observe the difference.
//!
//! # Lock order
//!
//! `due` is never held while another lock is taken.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use informer_core::ObjectKey;
use parking_lot::Mutex;

use crate::registry::storage::Stored;
use crate::registry::{Resource, Store};

/// Minimum number of entries before outdated ones are purged. The next purge is due when the number has
/// doubled. There are thus at most about twice as many entries as objects, and a purge has amortized constant
/// cost per write.
const MIN_PURGE_LEN: usize = 1024;

/// The expiry times of objects.
#[derive(Debug)]
pub(crate) struct Expiry {
    /// Lifetime of an event after its last write.
    ttl: Duration,
    due: Mutex<Queue>,
}

#[derive(Debug, Default)]
struct Queue {
    /// Ordered by time, because all entries have the same lifetime.
    entries: VecDeque<Due>,
    /// The number of entries at which the next purge is due.
    purge_at: usize,
}

#[derive(Debug)]
struct Due {
    at: Duration,
    resource: Arc<Resource>,
    key: ObjectKey,
    /// The version that expires. A later write has an entry of its own.
    version: u64,
}

impl Expiry {
    pub(crate) fn new(ttl: Duration) -> Self {
        Self { ttl, due: Mutex::default() }
    }

    fn take(&self, now: Duration) -> Option<Due> {
        let mut due = self.due.lock();
        due.entries.front().is_some_and(|first| first.at <= now).then(|| due.entries.pop_front())?
    }
}

impl Store {
    /// Schedules the expiry of a written object, if its kind expires.
    pub(crate) fn note_written(&self, resource: &Arc<Resource>, stored: &Stored) {
        if !resource.kind.expires() {
            return;
        }
        let Some(at) = self.clock.elapsed().checked_add(self.expiry.ttl) else { return };
        let due =
            Due { at, resource: Arc::clone(resource), key: stored.key.clone(), version: stored.version };
        let mut queue = self.expiry.due.lock();
        queue.entries.push_back(due);
        if queue.entries.len() < queue.purge_at.max(MIN_PURGE_LEN) {
            return;
        }
        let mut entries = std::mem::take(&mut queue.entries);
        drop(queue);
        {
            let storage = self.storage.read();
            let current =
                |due: &Due| storage.get(due.resource.table, due.key.as_str()).map(|one| one.version);
            entries.retain(|due| current(due) == Some(due.version));
        }
        let mut queue = self.expiry.due.lock();
        // Entries that were added meanwhile expire later.
        entries.append(&mut queue.entries);
        queue.purge_at = 2 * entries.len();
        queue.entries = entries;
    }

    /// Removes due objects.
    pub(crate) fn expire(&self) {
        let now = self.clock.elapsed();
        while let Some(due) = self.expiry.take(now) {
            let removed = self.storage.write().remove(due.resource.table, due.key.as_str(), due.version);
            if removed.is_ok() {
                self.announce(&due.resource);
            }
        }
    }

    /// Returns the time of the next expiry, if the kind expires.
    pub(crate) fn next_expiry(&self, resource: &Resource) -> Option<Duration> {
        if !resource.kind.expires() {
            return None;
        }
        self.expiry.due.lock().entries.front().map(|due| due.at)
    }
}

//! Expiry of events, which kube-apiserver implements with etcd leases.
//!
//! No background task removes expired objects. They are removed when a request arrives, when a watch of
//! events waits for the next expiry, and when the clock is advanced. Clients cannot observe the difference.
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

/// Minimum length of the expiry queue before outdated entries are removed. The next removal is due when the
/// length has doubled. The queue therefore has at most about twice as many entries as there are objects, and
/// the removal has an amortized constant cost per write.
const MIN_PURGE_LEN: usize = 1024;

#[derive(Debug)]
pub(crate) struct Expiry {
    /// The time from the last write of an object until its expiry.
    ttl: Duration,
    due: Mutex<Queue>,
}

#[derive(Debug, Default)]
struct Queue {
    /// Entries in the order of their expiry, which is the order of the writes, because all objects have the
    /// same lifetime.
    entries: VecDeque<Due>,
    purge_at: usize,
}

#[derive(Debug)]
struct Due {
    at: Duration,
    resource: Arc<Resource>,
    key: ObjectKey,
    /// The resourceVersion whose object expires. A later write of the object adds another entry.
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
    /// Schedules the expiry of an object that was written, if objects of its kind expire.
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
        // Entries that other writes have added meanwhile expire later, so they are appended.
        entries.append(&mut queue.entries);
        queue.purge_at = 2 * entries.len();
        queue.entries = entries;
    }

    pub(crate) fn expire(&self) {
        let now = self.clock.elapsed();
        while let Some(due) = self.expiry.take(now) {
            let removed = self.storage.write().remove(due.resource.table, due.key.as_str(), due.version);
            if removed.is_ok() {
                self.announce(&due.resource);
            }
        }
    }

    pub(crate) fn next_expiry(&self, resource: &Resource) -> Option<Duration> {
        if !resource.kind.expires() {
            return None;
        }
        self.expiry.due.lock().entries.front().map(|due| due.at)
    }
}

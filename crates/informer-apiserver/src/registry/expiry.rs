//! Objects that go by themselves after a time: events, which upstream leases from etcd.
//!
//! Nothing here runs by itself: what is due goes when a request comes, when a watch of events waits for it, and when the clock is
//! advanced. Nobody can tell the difference.
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

/// Entries that nobody needs any more are looked for when there are so many, and twice as many as were left the last time: then
/// there are at most twice as many as objects, and each write pays for one.
const LOOK_FROM: usize = 1024;

/// When which object goes.
#[derive(Debug)]
pub(crate) struct Expiry {
    /// How long events stay after they were written last.
    ttl: Duration,
    due: Mutex<Queue>,
}

#[derive(Debug, Default)]
struct Queue {
    /// The next first: all of them stay as long.
    entries: VecDeque<Due>,
    /// How many there may be before the next look.
    look_at: usize,
}

#[derive(Debug)]
struct Due {
    at: Duration,
    resource: Arc<Resource>,
    key: ObjectKey,
    /// The version that goes: one that was written since stays longer.
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
    /// Notes that an object was written, where its kind is one that goes by itself.
    pub(crate) fn note_written(&self, resource: &Arc<Resource>, stored: &Stored) {
        if !resource.kind.expires() {
            return;
        }
        let Some(at) = self.clock.elapsed().checked_add(self.expiry.ttl) else { return };
        let due =
            Due { at, resource: Arc::clone(resource), key: stored.key.clone(), version: stored.version };
        let mut queue = self.expiry.due.lock();
        queue.entries.push_back(due);
        if queue.entries.len() < queue.look_at.max(LOOK_FROM) {
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
        // What was written meanwhile goes later.
        entries.append(&mut queue.entries);
        queue.look_at = 2 * entries.len();
        queue.entries = entries;
    }

    /// Removes what is due.
    pub(crate) fn expire(&self) {
        let now = self.clock.elapsed();
        while let Some(due) = self.expiry.take(now) {
            let removed = self.storage.write().remove(due.resource.table, due.key.as_str(), due.version);
            if removed.is_ok() {
                self.announce(&due.resource);
            }
        }
    }

    /// When the next object of a kind goes, if any does.
    pub(crate) fn next_expiry(&self, resource: &Resource) -> Option<Duration> {
        if !resource.kind.expires() {
            return None;
        }
        self.expiry.due.lock().entries.front().map(|due| due.at)
    }
}

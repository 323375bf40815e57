//! Stores the requests that this replica has rejected because their keys belong to other replicas. The store
//! has no side effects.
//!
//! The owner of a key gets the same events, so most rejected requests are not needed. But while keys move,
//! two replicas may each consider the other one the owner and both reject a request. The replica that gains
//! the key then enqueues the stored request. A request for an existing object could also be derived from the
//! cache, but one for a deleted object could not.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The maximum number of stored rejected requests; beyond that, the oldest are dropped. The limit allows a
/// thousand deletions per second while keys move from one replica to another, and takes some ten megabytes.
pub(super) const MAX_REJECTED: usize = 50_000;

#[derive(Debug)]
struct RejectedRequest<R> {
    request: R,
    key: Arc<str>,
    since: Instant,
}

#[derive(Debug)]
pub(super) struct RejectedRequests<R> {
    keep: Duration,
    /// The rejected requests, by their string form.
    requests: HashMap<Arc<str>, RejectedRequest<R>>,
    /// The string forms of the rejected requests, the oldest first. A request that was rejected again has two
    /// entries.
    order: VecDeque<(Arc<str>, Instant)>,
}

impl<R> RejectedRequests<R> {
    pub(super) fn new(keep: Duration) -> Self {
        Self { keep, requests: HashMap::new(), order: VecDeque::new() }
    }

    /// Stores a rejected request. Returns the requests that were removed, so that the caller drops them after
    /// it has released the lock of this store.
    pub(super) fn insert(&mut self, text: Arc<str>, request: R, key: Arc<str>, now: Instant) -> Vec<R> {
        self.order.push_back((Arc::clone(&text), now));
        let before = self.requests.insert(text, RejectedRequest { request, key, since: now });
        let mut forgotten = self.forget(now);
        forgotten.extend(before.map(|rejected| rejected.request));
        forgotten
    }

    pub(super) fn take(&mut self, text: &str) -> Option<R> {
        self.requests.remove(text).map(|rejected| rejected.request)
    }

    pub(super) fn take_owned(&mut self, owns: impl Fn(&str) -> bool) -> Vec<R> {
        self.requests
            .extract_if(|_, rejected| owns(&rejected.key))
            .map(|(_, rejected)| rejected.request)
            .collect()
    }

    /// Removes and returns the rejected requests that have expired or exceed the maximum number.
    pub(super) fn forget(&mut self, now: Instant) -> Vec<R> {
        let mut forgotten = Vec::new();
        while let Some((text, since)) = self.order.front() {
            let old = now.saturating_duration_since(*since) > self.keep;
            if !old && self.order.len() <= MAX_REJECTED {
                break;
            }
            let current = self.requests.get(text).is_some_and(|rejected| rejected.since == *since);
            if current && let Some(rejected) = self.requests.remove(text) {
                forgotten.push(rejected.request);
            }
            self.order.pop_front();
        }
        forgotten
    }

    pub(super) fn len(&self) -> usize {
        self.requests.len()
    }
}

#[cfg(test)]
mod tests;

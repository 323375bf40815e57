//! Rejected requests: their keys belong to other replicas. Pure.
//!
//! The owner of a key gets the same events, so most rejected requests are not needed. But while keys move,
//! two replicas may each take the other for the owner and both reject a request; then the replica that gains
//! the key enqueues it from here. Existing objects are also found in the cache, deleted ones only here.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The maximum number of stored requests; beyond that, the oldest are dropped. Enough for a thousand
/// deletions per second while keys move, and some ten megabytes.
pub(super) const MAX_REJECTED: usize = 50_000;

/// A rejected request.
#[derive(Debug)]
struct RejectedRequest<R> {
    request: R,
    /// The shard key of the request.
    key: Arc<str>,
    since: Instant,
}

/// Recently rejected requests.
#[derive(Debug)]
pub(super) struct RejectedRequests<R> {
    keep: Duration,
    /// The requests by their string form.
    requests: HashMap<Arc<str>, RejectedRequest<R>>,
    /// The string forms in insertion order. A request that was rejected again has two entries.
    order: VecDeque<(Arc<str>, Instant)>,
}

impl<R> RejectedRequests<R> {
    /// Creates a store that drops requests after `keep`.
    pub(super) fn new(keep: Duration) -> Self {
        Self { keep, requests: HashMap::new(), order: VecDeque::new() }
    }

    /// Stores a request. Returns dropped requests, for the caller to drop outside of its lock.
    pub(super) fn insert(&mut self, text: Arc<str>, request: R, key: Arc<str>, now: Instant) -> Vec<R> {
        self.order.push_back((Arc::clone(&text), now));
        let before = self.requests.insert(text, RejectedRequest { request, key, since: now });
        let mut forgotten = self.forget(now);
        forgotten.extend(before.map(|rejected| rejected.request));
        forgotten
    }

    /// Removes and returns one request.
    pub(super) fn take(&mut self, text: &str) -> Option<R> {
        self.requests.remove(text).map(|rejected| rejected.request)
    }

    /// Removes and returns the requests whose keys are owned now.
    pub(super) fn take_owned(&mut self, owns: impl Fn(&str) -> bool) -> Vec<R> {
        self.requests
            .extract_if(|_, rejected| owns(&rejected.key))
            .map(|(_, rejected)| rejected.request)
            .collect()
    }

    /// Removes and returns expired and surplus requests.
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

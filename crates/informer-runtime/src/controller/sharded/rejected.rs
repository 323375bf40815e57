//! Stores rejected requests, whose keys belong to other replicas, without side effects.
//!
//! The owner of a key gets the same events, so most rejected requests are not needed. But while keys move,
//! two replicas may each consider the other one the owner and both reject a request. The replica that gains
//! the key then enqueues the stored request. Requests of existing objects could also be derived from the
//! cache, those of deleted objects could not.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The maximum number of stored requests; beyond that, the oldest are dropped. The limit allows a thousand
/// deletions per second while keys move, and takes some ten megabytes.
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
    /// The requests by their string form.
    requests: HashMap<Arc<str>, RejectedRequest<R>>,
    /// The string forms in insertion order. A request that was rejected again has two entries.
    order: VecDeque<(Arc<str>, Instant)>,
}

impl<R> RejectedRequests<R> {
    pub(super) fn new(keep: Duration) -> Self {
        Self { keep, requests: HashMap::new(), order: VecDeque::new() }
    }

    /// Stores a request. Returns the requests that the store removed, so that the caller drops them outside
    /// of its lock.
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

    /// Removes and returns requests that have expired or exceed the maximum.
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

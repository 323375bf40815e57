//! Requests of keys that this replica may not act on. Pure.
//!
//! The replica that owns a key is told of the same changes, so most of them are of no use here. While keys move, though, two
//! replicas may each take the other for the owner: what both refuse then is looked at by the one that gains the key, if it still knows
//! of it. Objects that exist are found in the cache; of those that were deleted meanwhile, this is all that is left.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// So many requests are remembered; of more, the oldest are forgotten. Enough for a thousand deletions a second while keys move, and
/// some ten megabytes.
pub(super) const ASIDE_MAX: usize = 50_000;

/// What is remembered of a request.
#[derive(Debug)]
struct Refused<R> {
    request: R,
    /// What decides who owns it.
    key: Arc<str>,
    since: Instant,
}

/// Requests that were refused not long ago.
#[derive(Debug)]
pub(super) struct Aside<R> {
    keep: Duration,
    /// By their text.
    requests: HashMap<Arc<str>, Refused<R>>,
    /// In the order in which they came; those that came again stand here twice.
    order: VecDeque<(Arc<str>, Instant)>,
}

impl<R> Aside<R> {
    /// Forgets what is older than `keep`.
    pub(super) fn new(keep: Duration) -> Self {
        Self { keep, requests: HashMap::new(), order: VecDeque::new() }
    }

    /// Remembers a request, and answers those that are forgotten, to be dropped by the caller.
    pub(super) fn put(&mut self, text: Arc<str>, request: R, key: Arc<str>, now: Instant) -> Vec<R> {
        self.order.push_back((Arc::clone(&text), now));
        let before = self.requests.insert(text, Refused { request, key, since: now });
        let mut forgotten = self.forget(now);
        forgotten.extend(before.map(|refused| refused.request));
        forgotten
    }

    /// Takes one out.
    pub(super) fn take(&mut self, text: &str) -> Option<R> {
        self.requests.remove(text).map(|refused| refused.request)
    }

    /// Takes those out whose key is owned by now.
    pub(super) fn take_owned(&mut self, owns: impl Fn(&str) -> bool) -> Vec<R> {
        self.requests
            .extract_if(|_, refused| owns(&refused.key))
            .map(|(_, refused)| refused.request)
            .collect()
    }

    /// Takes those out that are too old, or too many.
    pub(super) fn forget(&mut self, now: Instant) -> Vec<R> {
        let mut forgotten = Vec::new();
        while let Some((text, since)) = self.order.front() {
            let old = now.saturating_duration_since(*since) > self.keep;
            if !old && self.order.len() <= ASIDE_MAX {
                break;
            }
            let current = self.requests.get(text).is_some_and(|refused| refused.since == *since);
            if current && let Some(refused) = self.requests.remove(text) {
                forgotten.push(refused.request);
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

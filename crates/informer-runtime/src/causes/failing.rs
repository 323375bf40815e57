//! The keys of one controller whose last reconcile failed.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::ReconcileRequest;

/// The maximum number of failing keys that are known. Further ones are not counted.
const MAX_FAILING: usize = 10_000;

/// The failing keys with the times of their first failures. Clone, Eq and Hash of the requests run
/// under the lock.
pub(super) struct FailingKeys<R> {
    since: Mutex<HashMap<R, Instant>>,
    /// The number of keys, so that a success needs no lock while no key is failing.
    count: AtomicUsize,
}

impl<R> Default for FailingKeys<R> {
    fn default() -> Self {
        Self { since: Mutex::default(), count: AtomicUsize::new(0) }
    }
}

impl<R: ReconcileRequest> FailingKeys<R> {
    pub(super) fn add(&self, request: &R, now: Instant) {
        let mut since = self.since.lock();
        if since.len() < MAX_FAILING && !since.contains_key(request) {
            since.insert(request.clone(), now);
        }
        self.count.store(since.len(), Ordering::Relaxed);
    }

    pub(super) fn remove(&self, request: &R) {
        if self.count.load(Ordering::Relaxed) == 0 {
            return;
        }
        let mut since = self.since.lock();
        let removed = since.remove_entry(request);
        self.count.store(since.len(), Ordering::Relaxed);
        drop(since);
        drop(removed);
    }

    /// Returns the number of failing keys, and the time for which the first of them has been failing.
    pub(super) fn state(&self, now: Instant) -> (usize, Option<Duration>) {
        let since = self.since.lock();
        let first = since.values().min();
        (since.len(), first.map(|first| now.saturating_duration_since(*first)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Request;

    #[test]
    fn failing_keys_beyond_the_limit_are_not_counted() {
        let failing = FailingKeys::default();
        let request = |number: usize| -> Request { format!("default/{number}").parse().expect("a key") };
        let now = crate::clock::now();
        for number in 0..MAX_FAILING + 2 {
            failing.add(&request(number), now);
        }
        assert_eq!(failing.state(now), (MAX_FAILING, Some(Duration::ZERO)));
        failing.remove(&request(MAX_FAILING));
        assert_eq!(failing.state(now).0, MAX_FAILING, "this one was not counted");
        failing.remove(&request(0));
        assert_eq!(failing.state(now).0, MAX_FAILING - 1);
    }
}

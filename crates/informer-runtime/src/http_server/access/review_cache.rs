//! A cache of the results of TokenReviews or SubjectAccessReviews, which expire. It has no clock; the time is
//! an argument.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Instant;

/// The maximum number of results in a cache of reviews. A low limit is enough, because few clients read
/// metrics. It prevents requests with invalid tokens from filling the memory.
pub(super) const MAX_CACHED_REVIEWS: usize = 1_000;

#[derive(Debug)]
pub(super) struct ReviewCache<K, T> {
    results: HashMap<K, (T, Instant)>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum CachedReview<T> {
    Valid(T),
    Expired(T),
    /// The cache contains no result for the key: no review had this key before, or its result was evicted.
    Missing,
}

impl<K, T> Default for ReviewCache<K, T> {
    fn default() -> Self {
        Self { results: HashMap::new() }
    }
}

impl<K: Hash + Eq + Clone, T: Clone> ReviewCache<K, T> {
    pub(super) fn get(&self, key: &K, now: Instant) -> CachedReview<T> {
        match self.results.get(key) {
            Some((result, until)) if *until > now => CachedReview::Valid(result.clone()),
            Some((result, _)) => CachedReview::Expired(result.clone()),
            None => CachedReview::Missing,
        }
    }

    /// Adds the result of a review, which expires at `until`. If the cache is full, all expired results are
    /// evicted. If there are none, the result that expires first is evicted.
    pub(super) fn insert(&mut self, key: K, result: T, until: Instant, now: Instant) {
        if self.results.len() >= MAX_CACHED_REVIEWS && !self.results.contains_key(&key) {
            self.results.retain(|_, (_, until)| *until > now);
        }
        if self.results.len() >= MAX_CACHED_REVIEWS
            && let Some(first) = self.results.iter().min_by_key(|(_, (_, until))| *until)
        {
            let first = first.0.clone();
            self.results.remove(&first);
        }
        self.results.insert(key, (result, until));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn responses_expire_and_are_bounded() {
        let (mut memory, now) = (ReviewCache::default(), tokio::time::Instant::now().into_std());
        let second = Duration::from_secs(1);
        memory.insert(u32::MAX, 1, now + second, now);
        assert_eq!(memory.get(&u32::MAX, now), CachedReview::Valid(1));
        assert_eq!(memory.get(&u32::MAX, now + second), CachedReview::Expired(1));
        for number in 0..2 * MAX_CACHED_REVIEWS as u32 {
            let until = now + second * 2 + Duration::from_millis(number.into());
            memory.insert(number, number, until, now);
        }
        assert_eq!(memory.results.len(), MAX_CACHED_REVIEWS);
        assert_eq!(
            (memory.get(&0, now), memory.get(&1999, now)),
            (CachedReview::Missing, CachedReview::Valid(1999))
        );
    }
}

//! A cache of reviews with expiry. Pure: the time is an argument.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Instant;

/// The maximum number of cached responses. Few clients read metrics, and responses for invalid tokens must
/// not fill the memory.
pub(super) const MAX_CACHED_REVIEWS: usize = 1_000;

/// The responses of the API server by the reviewed token or request.
#[derive(Debug)]
pub(super) struct ReviewCache<Q, T> {
    answers: HashMap<Q, (T, Instant)>,
}

/// A cached response.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum CachedReview<T> {
    /// The response is valid.
    Valid(T),
    /// The response has expired.
    Expired(T),
    /// There is no response, or it was evicted.
    Missing,
}

impl<Q, T> Default for ReviewCache<Q, T> {
    fn default() -> Self {
        Self { answers: HashMap::new() }
    }
}

impl<Q: Hash + Eq + Clone, T: Clone> ReviewCache<Q, T> {
    /// Returns the response, and whether it is still valid.
    pub(super) fn get(&self, question: &Q, now: Instant) -> CachedReview<T> {
        match self.answers.get(question) {
            Some((answer, until)) if *until > now => CachedReview::Valid(answer.clone()),
            Some((answer, _)) => CachedReview::Expired(answer.clone()),
            None => CachedReview::Missing,
        }
    }

    /// Stores a response. If the cache is full, expired ones are evicted; if there are none, the one that
    /// expires first.
    pub(super) fn insert(&mut self, question: Q, answer: T, until: Instant, now: Instant) {
        if self.answers.len() >= MAX_CACHED_REVIEWS && !self.answers.contains_key(&question) {
            self.answers.retain(|_, (_, until)| *until > now);
        }
        if self.answers.len() >= MAX_CACHED_REVIEWS
            && let Some(first) = self.answers.iter().min_by_key(|(_, (_, until))| *until)
        {
            let first = first.0.clone();
            self.answers.remove(&first);
        }
        self.answers.insert(question, (answer, until));
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
        assert_eq!(memory.answers.len(), MAX_CACHED_REVIEWS);
        assert_eq!(
            (memory.get(&0, now), memory.get(&1999, now)),
            (CachedReview::Missing, CachedReview::Valid(1999))
        );
    }
}

//! Answers that are valid for a while. Pure: the time is an argument.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Instant;

/// Answers that are remembered. Few clients ask for metrics, and answers for invalid tokens must not fill the
/// memory.
pub(super) const MAX_CACHED_ANSWERS: usize = 1_000;

/// Answers by question.
#[derive(Debug)]
pub(super) struct Memory<Q, T> {
    answers: HashMap<Q, (T, Instant)>,
}

/// The cached answer to a review.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Known<T> {
    /// The answer is valid.
    Valid(T),
    /// The answer was valid once.
    Expired(T),
    /// There was no answer, or it was forgotten.
    Nothing,
}

impl<Q, T> Default for Memory<Q, T> {
    fn default() -> Self {
        Self { answers: HashMap::new() }
    }
}

impl<Q: Hash + Eq + Clone, T: Clone> Memory<Q, T> {
    /// Returns the answer, and whether it is still valid.
    pub(super) fn get(&self, question: &Q, now: Instant) -> Known<T> {
        match self.answers.get(question) {
            Some((answer, until)) if *until > now => Known::Valid(answer.clone()),
            Some((answer, _)) => Known::Expired(answer.clone()),
            None => Known::Nothing,
        }
    }

    /// Remembers an answer. If there are too many, expired ones are removed, and if there are none, the one
    /// that expires first.
    pub(super) fn put(&mut self, question: Q, answer: T, until: Instant, now: Instant) {
        if self.answers.len() >= MAX_CACHED_ANSWERS && !self.answers.contains_key(&question) {
            self.answers.retain(|_, (_, until)| *until > now);
        }
        if self.answers.len() >= MAX_CACHED_ANSWERS
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
    fn answers_hold_for_their_time_and_are_bounded() {
        let (mut memory, now) = (Memory::default(), tokio::time::Instant::now().into_std());
        let second = Duration::from_secs(1);
        memory.put(u32::MAX, 1, now + second, now);
        assert_eq!(memory.get(&u32::MAX, now), Known::Valid(1));
        assert_eq!(memory.get(&u32::MAX, now + second), Known::Expired(1));
        for number in 0..2 * MAX_CACHED_ANSWERS as u32 {
            let until = now + second * 2 + Duration::from_millis(number.into());
            memory.put(number, number, until, now);
        }
        assert_eq!(memory.answers.len(), MAX_CACHED_ANSWERS);
        assert_eq!((memory.get(&0, now), memory.get(&1999, now)), (Known::Nothing, Known::Valid(1999)));
    }
}

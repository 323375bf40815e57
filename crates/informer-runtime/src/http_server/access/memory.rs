//! Answers that hold for a while. Pure.

use std::collections::HashMap;
use std::time::Instant;

/// So many answers are remembered: those who ask for metrics are few, and tokens that are nobody's must not fill the memory.
const ANSWERS_MAX: usize = 1_000;

/// Answers by question.
pub(super) struct Memory<T> {
    answers: HashMap<String, (T, Instant)>,
}

impl<T> Default for Memory<T> {
    fn default() -> Self {
        Self { answers: HashMap::new() }
    }
}

impl<T: Clone> Memory<T> {
    /// The answer, while it holds.
    pub(super) fn get(&self, question: &str, now: Instant) -> Option<T> {
        self.answers.get(question).filter(|(_, until)| *until > now).map(|(answer, _)| answer.clone())
    }

    /// Remembers an answer. Where there are too many, those that hold no longer go, and if that is not enough the one that would have gone
    /// first.
    pub(super) fn put(&mut self, question: String, answer: T, until: Instant, now: Instant) {
        if self.answers.len() >= ANSWERS_MAX && !self.answers.contains_key(&question) {
            self.answers.retain(|_, (_, until)| *until > now);
        }
        if self.answers.len() >= ANSWERS_MAX
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
        memory.put("a".to_owned(), 1, now + second, now);
        assert_eq!((memory.get("a", now), memory.get("a", now + second)), (Some(1), None));
        for number in 0..2 * ANSWERS_MAX {
            let until = now + second * 2 + Duration::from_millis(number as u64);
            memory.put(number.to_string(), number, until, now);
        }
        assert_eq!(memory.answers.len(), ANSWERS_MAX);
        assert_eq!((memory.get("0", now), memory.get("1999", now)), (None, Some(1999)));
    }
}

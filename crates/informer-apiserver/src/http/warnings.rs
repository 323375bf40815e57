//! API warnings of a response: deduplicated, and limited like in kube-apiserver, because a body can cause any number of them.

use std::collections::HashSet;

use http::HeaderValue;

/// Maximum characters of all warnings. Above it, each warning is truncated.
const ALL_LETTERS_MAX: usize = 4096;
/// Maximum characters of a truncated warning.
const ONE_LETTERS_MAX: usize = 256;

/// The warnings of a response, in order.
#[derive(Debug, Clone, Default)]
pub(crate) struct Warnings(Vec<String>);

impl Warnings {
    pub(crate) fn add(&mut self, warnings: &[String]) {
        self.0.extend_from_slice(warnings);
    }

    pub(crate) fn put_first(&mut self, warnings: &[String]) {
        self.0.splice(0..0, warnings.iter().cloned());
    }

    /// Returns the values of the `Warning` headers.
    pub(crate) fn headers(&self) -> Vec<HeaderValue> {
        let mut told = HashSet::new();
        let all: Vec<&str> = self.0.iter().map(String::as_str).filter(|one| told.insert(*one)).collect();
        let whole = all.iter().map(|one| letters(one)).sum::<usize>() <= ALL_LETTERS_MAX;
        let mut left = ALL_LETTERS_MAX;
        let texts = all.into_iter().map_while(|one| {
            let text = if whole { one } else { cut(one) };
            let there = left > 0 || whole;
            left = left.saturating_sub(letters(text));
            there.then_some(text)
        });
        texts.filter_map(|text| HeaderValue::try_from(format!("299 - {text:?}")).ok()).collect()
    }
}

fn letters(text: &str) -> usize {
    text.chars().count()
}

fn cut(text: &str) -> &str {
    text.char_indices().nth(ONE_LETTERS_MAX).map_or(text, |(end, _)| &text[..end])
}

#[cfg(test)]
mod tests;

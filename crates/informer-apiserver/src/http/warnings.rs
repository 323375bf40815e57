//! API warnings in a response. They are deduplicated and limited as in kube-apiserver, because a request body
//! can cause any number of warnings.

use std::collections::HashSet;

use http::HeaderValue;

/// Maximum number of characters of all warnings in a response. If they exceed it, each warning is truncated,
/// and those that still do not fit are dropped.
const MAX_TOTAL_CHARS: usize = 4096;
/// Maximum number of characters of a truncated warning.
const MAX_TRUNCATED_CHARS: usize = 256;

#[derive(Debug, Clone, Default)]
pub(crate) struct Warnings(Vec<String>);

impl Warnings {
    pub(crate) fn add(&mut self, warnings: &[String]) {
        self.0.extend_from_slice(warnings);
    }

    pub(crate) fn put_first(&mut self, warnings: &[String]) {
        self.0.splice(0..0, warnings.iter().cloned());
    }

    pub(crate) fn headers(&self) -> Vec<HeaderValue> {
        let mut seen = HashSet::new();
        let all: Vec<&str> = self.0.iter().map(String::as_str).filter(|one| seen.insert(*one)).collect();
        let fits = all.iter().map(|one| char_count(one)).sum::<usize>() <= MAX_TOTAL_CHARS;
        let mut remaining = MAX_TOTAL_CHARS;
        let selected = all.into_iter().map_while(|one| {
            let text = if fits { one } else { truncate(one) };
            let allowed = remaining > 0 || fits;
            remaining = remaining.saturating_sub(char_count(text));
            allowed.then_some(text)
        });
        selected.filter_map(|text| HeaderValue::try_from(format!("299 - {text:?}")).ok()).collect()
    }
}

fn char_count(text: &str) -> usize {
    text.chars().count()
}

fn truncate(text: &str) -> &str {
    text.char_indices().nth(MAX_TRUNCATED_CHARS).map_or(text, |(end, _)| &text[..end])
}

#[cfg(test)]
mod tests;

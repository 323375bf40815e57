use std::fmt;

use crate::packed_strings::{PackedStrings, Strings};

/// The labels of an object: a small sorted map in one allocation that clones share.
///
/// If a key occurs more than once, the last value is used, as in a JSON object. A lookup is a linear scan,
/// because objects have few labels.
///
/// ```
/// use informer_core::Labels;
///
/// let labels: Labels = [("app", "web"), ("tier", "front")].into_iter().collect();
/// assert_eq!(labels.get("app"), Some("web"));
/// assert!(!labels.contains_key("zone"));
/// ```
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Labels {
    /// The strings of the map: alternating keys and values, sorted by key.
    strings: PackedStrings,
}

impl Labels {
    /// Returns the value of a label.
    pub fn get(&self, key: &str) -> Option<&str> {
        let mut strings = self.strings.iter();
        while let (Some(found), Some(value)) = (strings.next(), strings.next()) {
            match found.cmp(key) {
                std::cmp::Ordering::Less => {}
                std::cmp::Ordering::Equal => return Some(value),
                std::cmp::Ordering::Greater => break,
            }
        }
        None
    }

    /// Returns true if the label is present, whatever its value.
    pub fn contains_key(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    /// Iterates over keys and values, sorted by key.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &str)> {
        Pairs { strings: self.strings.iter(), left: self.len() }
    }

    /// Returns the number of labels.
    pub fn len(&self) -> usize {
        self.strings.iter().count() / 2
    }

    /// Returns true if the object has no labels.
    pub fn is_empty(&self) -> bool {
        self.strings.is_empty()
    }

    /// Returns the heap memory of the labels in bytes.
    pub fn held_bytes(&self) -> usize {
        self.strings.held_bytes()
    }
}

struct Pairs<'a> {
    strings: Strings<'a>,
    left: usize,
}

impl<'a> Iterator for Pairs<'a> {
    type Item = (&'a str, &'a str);

    fn next(&mut self) -> Option<(&'a str, &'a str)> {
        let pair = self.strings.next().zip(self.strings.next());
        self.left -= usize::from(pair.is_some());
        pair
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Pairs<'_> {}

impl<K: AsRef<str>, V: AsRef<str>> FromIterator<(K, V)> for Labels {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Self {
        let mut pairs: Vec<(K, V)> = pairs.into_iter().collect();
        // Servers send each key once, in sorted order, so sorting is usually not needed.
        if !pairs.is_sorted_by(|(a, _), (b, _)| a.as_ref() < b.as_ref()) {
            // The pairs are reversed before a stable sort, so that of equal keys the last one comes first,
            // and `dedup` keeps it.
            pairs.reverse();
            pairs.sort_by(|(a, _), (b, _)| a.as_ref().cmp(b.as_ref()));
            pairs.dedup_by(|(b, _), (a, _)| a.as_ref() == b.as_ref());
        }
        Self {
            strings: PackedStrings::new(pairs.iter().flat_map(|(key, value)| [key.as_ref(), value.as_ref()])),
        }
    }
}

impl fmt::Debug for Labels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

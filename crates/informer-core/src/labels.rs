use std::fmt;

/// The labels of an object: a small sorted map in two allocations.
///
/// Later duplicates of a key replace earlier ones, as a JSON object does. Lookups are binary searches.
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
    /// All keys and values, one after the other, in the order of the keys.
    text: Box<str>,
    /// Where each key and each value ends in `text`; two entries a label.
    ends: Box<[u32]>,
}

impl Labels {
    /// The value of a label.
    pub fn get(&self, key: &str) -> Option<&str> {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low.midpoint(high);
            let (found, value) = self.pair(middle);
            match found.cmp(key) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
                std::cmp::Ordering::Equal => return Some(value),
            }
        }
        None
    }

    /// True where the label is present, whatever its value.
    pub fn contains_key(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    /// Keys and values, in the order of the keys.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &str)> {
        (0..self.len()).map(|index| self.pair(index))
    }

    /// How many labels there are.
    pub fn len(&self) -> usize {
        self.ends.len() / 2
    }

    /// True where there is none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Heap bytes held, for accounts of memory.
    pub fn held_bytes(&self) -> usize {
        self.text.len() + size_of_val(&*self.ends)
    }

    fn pair(&self, index: usize) -> (&str, &str) {
        let start = if index == 0 { 0 } else { self.ends[2 * index - 1] as usize };
        let (key_end, value_end) = (self.ends[2 * index] as usize, self.ends[2 * index + 1] as usize);
        (&self.text[start..key_end], &self.text[key_end..value_end])
    }
}

impl<K: AsRef<str>, V: AsRef<str>> FromIterator<(K, V)> for Labels {
    /// # Panics
    ///
    /// When the text of all labels together exceeds 4 GiB.
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Self {
        let mut pairs: Vec<(K, V)> = pairs.into_iter().collect();
        // Stable, and reversed before: of equal keys the last one given comes first and survives.
        pairs.reverse();
        pairs.sort_by(|(a, _), (b, _)| a.as_ref().cmp(b.as_ref()));
        pairs.dedup_by(|(b, _), (a, _)| a.as_ref() == b.as_ref());
        let bytes = pairs.iter().map(|(key, value)| key.as_ref().len() + value.as_ref().len()).sum();
        let (mut text, mut ends) = (String::with_capacity(bytes), Vec::with_capacity(pairs.len() * 2));
        for (key, value) in &pairs {
            for part in [key.as_ref(), value.as_ref()] {
                text.push_str(part);
                ends.push(u32::try_from(text.len()).expect("labels of an object are below 4 GiB"));
            }
        }
        Self { text: text.into(), ends: ends.into() }
    }
}

impl fmt::Debug for Labels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

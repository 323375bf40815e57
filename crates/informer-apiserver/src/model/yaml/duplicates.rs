//! Finds duplicate keys in YAML maps. The messages are those of Go's strict decoder.

use std::cell::RefCell;
use std::collections::HashSet;
use std::fmt;

use informer_schema::MAX_STRICT_PROBLEMS;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// Maximum number of bytes that are parsed to find the line numbers of duplicate keys. The parser reports a
/// line only with an error, so for each line the document is parsed again up to that position. Duplicate keys
/// beyond the limit are not reported.
const MAX_READ_BYTES: usize = 4 << 20;
/// Number of times that the document is parsed for one duplicate key: once for the key and once for its
/// value.
const READS: usize = 2;

/// Returns the errors for the duplicate keys in valid YAML, or `None` if there are none.
pub(crate) fn find(text: &[u8]) -> Option<String> {
    let seen = RefCell::new(WalkState::default());
    YamlWalk(&seen).deserialize(serde_norway::Deserializer::from_slice(text)).ok()?;
    let found = seen.into_inner().duplicates;
    let count = (MAX_READ_BYTES / READS / text.len().max(1)).clamp(1, MAX_STRICT_PROBLEMS);
    let messages: Vec<String> = found.iter().take(count).map(|duplicate| duplicate.message(text)).collect();
    (!messages.is_empty()).then(|| format!("unmarshal errors:{}", messages.concat()))
}

#[derive(Debug)]
struct DuplicateKey {
    /// The key in Go's format.
    key: String,
    /// The positions of the key and of its value in the sequence of all keys and values of the document.
    at: [usize; READS],
}

impl DuplicateKey {
    fn message(&self, text: &[u8]) -> String {
        // Go reports the line of the value. For an alias the parser returns the line of the anchor, which is
        // before the key, so the later of both lines is used.
        let line = self.at.map(|number| line(text, number)).into_iter().max().unwrap_or_default();
        format!("\n  line {line}: key {} already set in map", self.key)
    }
}

/// Returns the line of the key or value at this position in the sequence of all keys and values.
fn line(text: &[u8], number: usize) -> usize {
    let seen = RefCell::new(WalkState { until: Some(number), ..WalkState::default() });
    let ended = YamlWalk(&seen).deserialize(serde_norway::Deserializer::from_slice(text));
    ended.err().and_then(|error| error.location()).map_or(1, |location| location.line())
}

#[derive(Debug, Default)]
struct WalkState {
    count: usize,
    /// The position at which the walk fails deliberately, because the parser's error contains the line.
    until: Option<usize>,
    duplicates: Vec<DuplicateKey>,
}

#[derive(Debug, Clone, Copy)]
struct YamlWalk<'w>(&'w RefCell<WalkState>);

impl YamlWalk<'_> {
    fn visit<E: Error>(self) -> Result<(), E> {
        let mut seen = self.0.borrow_mut();
        if seen.until == Some(seen.count) {
            return Err(E::custom("here"));
        }
        seen.count += 1;
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for YamlWalk<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<(), D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for YamlWalk<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("YAML")
    }

    fn visit_none<E: Error>(self) -> Result<(), E> {
        self.visit()
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        self.visit()
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<(), E> {
        self.visit()
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<(), E> {
        self.visit()
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<(), E> {
        self.visit()
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<(), E> {
        self.visit()
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<(), E> {
        self.visit()
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        self.visit()?;
        while items.next_element_seed(self)?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        self.visit()?;
        let mut keys = HashSet::new();
        loop {
            let here = self.0.borrow().count;
            let Some(key) = members.next_key_seed(Key(self))? else { return Ok(()) };
            let value = self.0.borrow().count;
            members.next_value_seed(self)?;
            if keys.contains(&key) {
                self.0.borrow_mut().duplicates.push(DuplicateKey { key, at: [here, value] });
            } else {
                keys.insert(key);
            }
        }
    }
}

/// Decodes a YAML key in Go's notation, in which `1` and `"1"` differ.
#[derive(Debug, Clone, Copy)]
struct Key<'w>(YamlWalk<'w>);

impl Key<'_> {
    fn format<E: Error>(self, key: impl fmt::Display) -> Result<String, E> {
        self.0.visit().map(|()| key.to_string())
    }
}

impl<'de> DeserializeSeed<'de> for Key<'_> {
    type Value = String;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<String, D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Key<'_> {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_none<E: Error>(self) -> Result<String, E> {
        self.format("<nil>")
    }

    fn visit_unit<E: Error>(self) -> Result<String, E> {
        self.format("<nil>")
    }

    fn visit_bool<E: Error>(self, key: bool) -> Result<String, E> {
        self.format(key)
    }

    fn visit_i64<E: Error>(self, key: i64) -> Result<String, E> {
        self.format(key)
    }

    fn visit_u64<E: Error>(self, key: u64) -> Result<String, E> {
        self.format(key)
    }

    fn visit_f64<E: Error>(self, key: f64) -> Result<String, E> {
        self.format(key)
    }

    fn visit_str<E: Error>(self, key: &str) -> Result<String, E> {
        self.format(format_args!("{key:?}"))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<String, A::Error> {
        while items.next_element::<IgnoredAny>()?.is_some() {}
        self.format("a list")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<String, A::Error> {
        while members.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        self.format("a map")
    }
}

#[cfg(test)]
mod tests;

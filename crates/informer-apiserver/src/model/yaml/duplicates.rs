//! Keys that a map of YAML has twice, as a strict reader in Go tells them.

use std::cell::RefCell;
use std::collections::HashSet;
use std::fmt;

use informer_schema::MAX_STRICT_PROBLEMS;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// The line of a value is found by reading the text up to there again. So many bytes are read for that at most, lest a long text
/// takes seconds; what is left is not told.
const READ_BYTES_MAX: usize = 4 << 20;
/// So often the text is read for one key.
const READS: usize = 2;

/// What is wrong with a text that is known to be YAML; `None` where no key is there twice.
pub(crate) fn find(text: &[u8]) -> Option<String> {
    let seen = RefCell::new(Seen::default());
    Walk(&seen).deserialize(serde_norway::Deserializer::from_slice(text)).ok()?;
    let found = seen.into_inner().twice;
    let count = (READ_BYTES_MAX / READS / text.len().max(1)).clamp(1, MAX_STRICT_PROBLEMS);
    let told: Vec<String> = found.iter().take(count).map(|again| again.told(text)).collect();
    (!told.is_empty()).then(|| format!("unmarshal errors:{}", told.concat()))
}

/// A key that is there again.
#[derive(Debug)]
struct Again {
    /// As Go shows it.
    key: String,
    /// Its number, and that of its value, in the order of the text.
    at: [usize; READS],
}

impl Again {
    fn told(&self, text: &[u8]) -> String {
        // The line is that of the value; but of an alias the reader knows the line of what it stands for, which is before the key.
        let line = self.at.map(|number| line(text, number)).into_iter().max().unwrap_or_default();
        format!("\n  line {line}: key {} already set in map", self.key)
    }
}

/// The line where a key or a value begins, by its number.
fn line(text: &[u8], number: usize) -> usize {
    let seen = RefCell::new(Seen { until: Some(number), ..Seen::default() });
    let ended = Walk(&seen).deserialize(serde_norway::Deserializer::from_slice(text));
    ended.err().and_then(|error| error.location()).map_or(1, |location| location.line())
}

/// What a walk has met so far.
#[derive(Debug, Default)]
struct Seen {
    /// Keys and values.
    count: usize,
    /// The one before which the walk ends, so that the reader says where it is.
    until: Option<usize>,
    twice: Vec<Again>,
}

/// Goes through YAML.
#[derive(Debug, Clone, Copy)]
struct Walk<'w>(&'w RefCell<Seen>);

impl Walk<'_> {
    fn meet<E: Error>(self) -> Result<(), E> {
        let mut seen = self.0.borrow_mut();
        if seen.until == Some(seen.count) {
            return Err(E::custom("here"));
        }
        seen.count += 1;
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for Walk<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<(), D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Walk<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("YAML")
    }

    fn visit_none<E: Error>(self) -> Result<(), E> {
        self.meet()
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        self.meet()
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<(), E> {
        self.meet()
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<(), E> {
        self.meet()
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<(), E> {
        self.meet()
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<(), E> {
        self.meet()
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<(), E> {
        self.meet()
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        self.meet()?;
        while items.next_element_seed(self)?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        self.meet()?;
        let mut keys = HashSet::new();
        loop {
            let here = self.0.borrow().count;
            let Some(key) = members.next_key_seed(Key(self))? else { return Ok(()) };
            let value = self.0.borrow().count;
            members.next_value_seed(self)?;
            if keys.contains(&key) {
                self.0.borrow_mut().twice.push(Again { key, at: [here, value] });
            } else {
                keys.insert(key);
            }
        }
    }
}

/// A key as Go shows it: `1` and `"1"` are two.
#[derive(Debug, Clone, Copy)]
struct Key<'w>(Walk<'w>);

impl Key<'_> {
    fn told<E: Error>(self, key: impl fmt::Display) -> Result<String, E> {
        self.0.meet().map(|()| key.to_string())
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
        self.told("<nil>")
    }

    fn visit_unit<E: Error>(self) -> Result<String, E> {
        self.told("<nil>")
    }

    fn visit_bool<E: Error>(self, key: bool) -> Result<String, E> {
        self.told(key)
    }

    fn visit_i64<E: Error>(self, key: i64) -> Result<String, E> {
        self.told(key)
    }

    fn visit_u64<E: Error>(self, key: u64) -> Result<String, E> {
        self.told(key)
    }

    fn visit_f64<E: Error>(self, key: f64) -> Result<String, E> {
        self.told(key)
    }

    fn visit_str<E: Error>(self, key: &str) -> Result<String, E> {
        self.told(format_args!("{key:?}"))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<String, A::Error> {
        while items.next_element::<IgnoredAny>()?.is_some() {}
        self.told("a list")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<String, A::Error> {
        while members.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        self.told("a map")
    }
}

#[cfg(test)]
mod tests;

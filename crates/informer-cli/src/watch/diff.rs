//! Computes the differences between two states of an object, by path.
//!
//! Arrays whose items have names (containers, ports, conditions, owners) are compared by name, so that an
//! inserted item does not mark all others as changed. Other arrays are compared by position, from the first
//! to the last item that differs.

mod render;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use serde_json::{Map, Value};

pub(super) use render::{Rendering, path};

/// The fields that can identify an item of an array, such as its name, in order of preference.
const IDENTITIES: [&str; 4] = ["name", "type", "uid", "key"];

/// One step of the path to a value in an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Segment<'a> {
    /// A field of an object, identified by its name.
    Key(&'a str),
    /// An array item, identified by its position.
    Index(usize),
    /// An array item, identified by the value of the field `by`.
    Item { by: &'static str, value: &'a str },
}

impl<'a> Segment<'a> {
    /// Returns the name of the field; an empty string if the segment is an array item.
    pub(super) fn key(&self) -> &'a str {
        match self {
            Self::Key(key) => key,
            Self::Index(_) | Self::Item { .. } => "",
        }
    }
}

/// One difference between two states of an object. `old` is `None` for an added value, and `new` is `None`
/// for a removed value.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Difference<'a> {
    pub(super) path: Vec<Segment<'a>>,
    pub(super) old: Option<&'a Value>,
    pub(super) new: Option<&'a Value>,
}

/// Returns the differences between two states of an object, ordered by path. Changes of the resourceVersion
/// and of managed fields are ignored.
pub(super) fn differences<'a>(old: &'a Value, new: &'a Value) -> Vec<Difference<'a>> {
    let mut walk = Walk { path: Vec::new(), found: Vec::new() };
    walk.values(old, new);
    walk.found
}

struct Walk<'a> {
    path: Vec<Segment<'a>>,
    found: Vec<Difference<'a>>,
}

impl<'a> Walk<'a> {
    /// Compares two JSON values recursively. The JSON parser limits the nesting to 128, which bounds the
    /// recursion.
    fn values(&mut self, old: &'a Value, new: &'a Value) {
        match (old, new) {
            (Value::Object(old), Value::Object(new)) => self.objects(old, new),
            _ if old == new => {}
            (Value::Array(olds), Value::Array(news)) => {
                let found = self.found.len();
                self.arrays(olds, news);
                if self.found.len() == found {
                    // Both arrays contain the same items in a different order, so the arrays are reported as
                    // a whole.
                    self.report(Some(old), Some(new));
                }
            }
            _ => self.report(Some(old), Some(new)),
        }
    }

    fn objects(&mut self, old: &'a Map<String, Value>, new: &'a Map<String, Value>) {
        let keys: BTreeSet<&'a str> = old.keys().chain(new.keys()).map(String::as_str).collect();
        for key in keys {
            if !self.is_noise(key) {
                self.step(Segment::Key(key), old.get(key), new.get(key));
            }
        }
    }

    /// Returns true for the fields that change with every write: the resourceVersion and managed fields.
    fn is_noise(&self, key: &str) -> bool {
        self.path == [Segment::Key("metadata")] && matches!(key, "resourceVersion" | "managedFields")
    }

    fn arrays(&mut self, old: &'a [Value], new: &'a [Value]) {
        match identity(old, new) {
            Some(by) => self.named(by, old, new),
            None => self.positions(old, new),
        }
    }

    fn named(&mut self, by: &'static str, old: &'a [Value], new: &'a [Value]) {
        let find = |items: &'a [Value], value: &str| items.iter().find(|item| item[by] == *value);
        for item in old {
            let value = item[by].as_str().unwrap_or_default();
            self.step(Segment::Item { by, value }, Some(item), find(new, value));
        }
        for item in new {
            let value = item[by].as_str().unwrap_or_default();
            if find(old, value).is_none() {
                self.step(Segment::Item { by, value }, None, Some(item));
            }
        }
    }

    fn positions(&mut self, old: &'a [Value], new: &'a [Value]) {
        let front = old.iter().zip(new).take_while(|(old, new)| old == new).count();
        let (old, new) = (&old[front..], &new[front..]);
        let back = old.iter().rev().zip(new.iter().rev()).take_while(|(old, new)| old == new).count();
        let (old, new) = (&old[..old.len() - back], &new[..new.len() - back]);
        for index in 0..old.len().max(new.len()) {
            self.step(Segment::Index(front + index), old.get(index), new.get(index));
        }
    }

    fn step(&mut self, segment: Segment<'a>, old: Option<&'a Value>, new: Option<&'a Value>) {
        self.path.push(segment);
        match (old, new) {
            (Some(old), Some(new)) => self.values(old, new),
            (None, None) => {}
            (old, new) => self.report(old, new),
        }
        self.path.pop();
    }

    fn report(&mut self, old: Option<&'a Value>, new: Option<&'a Value>) {
        self.found.push(Difference { path: self.path.clone(), old, new });
    }
}

/// Returns the name of a field that identifies every item of both arrays, if there is one.
fn identity(old: &[Value], new: &[Value]) -> Option<&'static str> {
    IDENTITIES.into_iter().find(|by| identifies(by, old) && identifies(by, new))
}

fn identifies(by: &str, items: &[Value]) -> bool {
    let mut seen = BTreeSet::new();
    items.iter().all(|item| item[by].as_str().is_some_and(|value| seen.insert(value)))
}

//! Computes the differences between two states of an object, by path.
//!
//! Arrays whose items have names (containers, ports, conditions, owners) are compared by name, so that an
//! inserted item does not mark all others as changed. Other arrays are compared by position, from the first
//! to the last item that differs.
//!
//! One algorithm compares decoded values ([`differences`]) and JSON text ([`changed_fields`]). Equal subtrees
//! are compared as text and not parsed.

mod node;
mod paths;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use node::Node;
pub use paths::{ChangedFields, MAX_CHANGED_FIELDS, changed_fields};

/// The fields that can identify an item of an array, such as its name, in order of preference.
const IDENTITIES: [&str; 4] = ["name", "type", "uid", "key"];

/// One segment of the path to a value in an object.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum PathSegment<'a> {
    /// A field of an object.
    Key(Cow<'a, str>),
    /// An array item that has no name.
    Index(usize),
    /// An array item that is identified by one of its fields.
    Item {
        /// The name of the field that identifies the item.
        by: &'static str,
        /// The value of that field.
        value: Cow<'a, str>,
        /// The position of the item in the new array, or in the old array if the item was removed.
        index: usize,
    },
}

impl PathSegment<'_> {
    /// Returns the name of the field; `None` if the segment is an array item.
    pub fn key(&self) -> Option<&str> {
        match self {
            Self::Key(key) => Some(key),
            Self::Index(_) | Self::Item { .. } => None,
        }
    }
}

/// One difference between two states of an object.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Difference<'a> {
    /// The path of the value; empty for the whole object.
    pub path: Vec<PathSegment<'a>>,
    /// The old value; `None` for an added value.
    pub old: Option<&'a Value>,
    /// The new value; `None` for a removed value.
    pub new: Option<&'a Value>,
}

/// Returns the differences between two states of an object, ordered by path. Changes of the resourceVersion
/// and of managed fields are ignored.
///
/// The items of an array are compared by the first of the fields `name`, `type`, `uid` and `key` that is a
/// string in all items of both arrays, and unique in each array. Otherwise they are compared by position.
///
/// ```
/// use informer_client::differences;
/// use serde_json::json;
///
/// let (old, new) = (json!({"spec": {"replicas": 1}}), json!({"spec": {"replicas": 2}}));
/// let found = differences(&old, &new);
/// assert_eq!(found.len(), 1);
/// let keys: Vec<_> = found[0].path.iter().filter_map(|segment| segment.key()).collect();
/// assert_eq!(keys, ["spec", "replicas"]);
/// assert_eq!(found[0].new, Some(&json!(2)));
/// ```
pub fn differences<'a>(old: &'a Value, new: &'a Value) -> Vec<Difference<'a>> {
    let mut found = Vec::new();
    let mut report = |path: &[PathSegment<'a>], old: Option<&'a Value>, new: Option<&'a Value>| {
        found.push(Difference { path: path.to_vec(), old, new });
    };
    Walk { path: Vec::new(), max_depth: usize::MAX, order: Order::Path, report: &mut report }
        .values(old, new);
    found
}

/// The order of the members of the whole object.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    Path,
    /// `spec`, `data` and others, then `metadata`, then `status`; skips derived fields (`apiVersion`, `kind`,
    /// `metadata.generation`).
    Relevance,
}

type Report<'r, 'a, N> = dyn FnMut(&[PathSegment<'a>], Option<N>, Option<N>) + 'r;

/// A comparison of two values. `report` receives the path of each difference with both values.
struct Walk<'a, 'r, N> {
    path: Vec<PathSegment<'a>>,
    /// The number of segments from which on values are reported as a whole.
    max_depth: usize,
    order: Order,
    report: &'r mut Report<'r, 'a, N>,
}

impl<'a, N: Node<'a>> Walk<'a, '_, N> {
    /// Compares two values recursively, and returns true if they differ. The JSON parser limits the nesting
    /// to 128, which bounds the recursion.
    fn values(&mut self, old: N, new: N) -> bool {
        if old.equals(new) {
            return false;
        }
        if self.path.len() < self.max_depth {
            if let (Some(old), Some(new)) = (old.members(), new.members()) {
                return self.objects(&old, &new);
            }
            if let (Some(olds), Some(news)) = (old.items(), new.items()) {
                return match identity(&olds, &news) {
                    Some(by) => self.named(by, (old, &olds), (new, &news)),
                    None => self.positions(&olds, &news),
                };
            }
        }
        (self.report)(&self.path, Some(old), Some(new));
        true
    }

    fn objects(&mut self, old: &BTreeMap<Cow<'a, str>, N>, new: &BTreeMap<Cow<'a, str>, N>) -> bool {
        let keys: BTreeSet<&Cow<'a, str>> = old.keys().chain(new.keys()).collect();
        let mut keys: Vec<_> = keys.into_iter().filter(|key| !self.is_ignored(key)).collect();
        if self.order == Order::Relevance && self.path.is_empty() {
            keys.sort_by_key(|key| {
                ["metadata", "status"].iter().position(|late| late == *key).map(|at| at + 1)
            });
        }
        let mut differ = false;
        for key in keys {
            differ |= self.step(PathSegment::Key(key.clone()), old.get(key).copied(), new.get(key).copied());
        }
        differ
    }

    /// Returns true for fields that change with every write, such as the resourceVersion. With
    /// [`Order::Relevance`] it also returns true for derived fields.
    fn is_ignored(&self, key: &str) -> bool {
        let skip_derived = self.order == Order::Relevance;
        match &self.path[..] {
            [] => skip_derived && matches!(key, "apiVersion" | "kind"),
            [PathSegment::Key(parent)] if parent == "metadata" => {
                matches!(key, "resourceVersion" | "managedFields") || skip_derived && key == "generation"
            }
            _ => false,
        }
    }

    fn named(&mut self, by: &'static str, (old, olds): (N, &[N]), (new, news): (N, &[N])) -> bool {
        let names = |items: &[N]| -> Vec<Cow<'a, str>> {
            items.iter().filter_map(|item| item.member(by)?.string()).collect()
        };
        let (old_names, new_names) = (names(olds), names(news));
        let positions = |names: &[Cow<'a, str>]| -> BTreeMap<Cow<'a, str>, usize> {
            names.iter().enumerate().map(|(index, name)| (name.clone(), index)).collect()
        };
        let (before, after) = (positions(&old_names), positions(&new_names));
        let mut differ = false;
        for (index, value) in old_names.iter().enumerate() {
            let found = after.get(value).copied();
            let segment = PathSegment::Item { by, value: value.clone(), index: found.unwrap_or(index) };
            differ |= self.step(segment, Some(olds[index]), found.map(|index| news[index]));
        }
        for (index, value) in new_names.iter().enumerate() {
            if !before.contains_key(value) {
                let segment = PathSegment::Item { by, value: value.clone(), index };
                differ |= self.step(segment, None, Some(news[index]));
            }
        }
        if !differ && old_names != new_names {
            // Both arrays contain the same items in a different order, so the arrays are reported as a whole.
            (self.report)(&self.path, Some(old), Some(new));
            return true;
        }
        differ
    }

    fn positions(&mut self, old: &[N], new: &[N]) -> bool {
        let front = old.iter().zip(new).take_while(|(old, new)| old.equals(**new)).count();
        let (old, new) = (&old[front..], &new[front..]);
        let back = old.iter().rev().zip(new.iter().rev()).take_while(|(old, new)| old.equals(**new)).count();
        let (old, new) = (&old[..old.len() - back], &new[..new.len() - back]);
        let mut differ = false;
        for index in 0..old.len().max(new.len()) {
            let segment = PathSegment::Index(front + index);
            differ |= self.step(segment, old.get(index).copied(), new.get(index).copied());
        }
        differ
    }

    fn step(&mut self, segment: PathSegment<'a>, old: Option<N>, new: Option<N>) -> bool {
        self.path.push(segment);
        let differ = match (old, new) {
            (Some(old), Some(new)) => self.values(old, new),
            (None, None) => false,
            (old, new) => {
                (self.report)(&self.path, old, new);
                true
            }
        };
        self.path.pop();
        differ
    }
}

/// Returns the name of a field that identifies every item of both arrays, if there is one.
fn identity<'a, N: Node<'a>>(old: &[N], new: &[N]) -> Option<&'static str> {
    IDENTITIES.into_iter().find(|by| identifies(by, old) && identifies(by, new))
}

fn identifies<'a, N: Node<'a>>(by: &str, items: &[N]) -> bool {
    let mut seen = BTreeSet::new();
    items
        .iter()
        .all(|item| item.member(by).and_then(|value| value.string()).is_some_and(|value| seen.insert(value)))
}

//! Compares two values field by field, in order to find the fields that a write changes.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::element::{Element, same};
use super::set::Set;
use super::types::{Atom, ListSort, ListType, MapType, Type};
use super::walk::{TypeError, scalar_error};

/// The fields that differ between two values, as three disjoint sets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Comparison {
    pub(crate) removed: Set,
    pub(crate) modified: Set,
    pub(crate) added: Set,
}

impl Comparison {
    /// Removes the fields in `ignored`, and all fields below them, from the comparison.
    pub(super) fn without(self, ignored: &Set) -> Self {
        Self {
            removed: self.removed.without(ignored),
            modified: self.modified.without(ignored),
            added: self.added.without(ignored),
        }
    }

    fn joined(self, other: Self) -> Self {
        Self {
            removed: self.removed.joined(other.removed),
            modified: self.modified.joined(other.modified),
            added: self.added.joined(other.added),
        }
    }

    /// Adds the result for an element, which the comparison must not contain yet.
    fn put(&mut self, element: Element, part: ValueChanges) {
        let ValueChanges { removed, modified, added, below } = part;
        let changes = [
            (&mut self.modified, modified, below.modified),
            (&mut self.added, added, below.added),
            (&mut self.removed, removed, below.removed),
        ];
        let mut changed = changes.into_iter().filter(|(_, itself, below)| *itself || !below.is_empty());
        // Fast path: usually only one of the three sets changes, so the element need not be cloned.
        let Some((mut set, mut itself, mut children)) = changed.next() else { return };
        for next in changed {
            set.merge_in(element.clone(), itself, children);
            (set, itself, children) = next;
        }
        set.merge_in(element, itself, children);
    }
}

#[derive(Debug, Default)]
struct ValueChanges {
    removed: bool,
    modified: bool,
    added: bool,
    below: Comparison,
}

pub(super) fn compare(of: Type<'_>, left: &Value, right: &Value) -> Result<Comparison, TypeError> {
    Ok(part(of, Some(left), Some(right))?.below)
}

fn part(of: Type<'_>, left: Option<&Value>, right: Option<&Value>) -> Result<ValueChanges, TypeError> {
    let mut part = ValueChanges::default();
    if left == right {
        return Ok(part);
    }
    let leaf = match (left, right) {
        (_, None) => part.handle(of.atom(left), left, right)?,
        (None, _) => part.handle(of.atom(right), left, right)?,
        _ => {
            let (old, new) = (of.atom(left), of.atom(right));
            // If the structure of the value changed (map, list or scalar), the old and the new structure are
            // compared separately.
            if !old.is_like(&new) {
                part.handle(old, left, right)?;
            }
            part.handle(new, left, right)?
        }
    };
    if !leaf {
        part.added |= left.is_none();
        part.removed |= right.is_none();
    }
    Ok(part)
}

/// Returns the entries if the value is a list, and no entries for any other value.
pub(super) fn entries_of(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

impl ValueChanges {
    /// Compares two values as a map, list or scalar, as given by `atom`. Returns true if they were compared
    /// as a whole.
    fn handle(
        &mut self,
        atom: Atom<'_>,
        left: Option<&Value>,
        right: Option<&Value>,
    ) -> Result<bool, TypeError> {
        match atom {
            Atom::Scalar(scalar) => {
                let error = |value: Option<&Value>| value.and_then(|value| scalar_error(scalar, value));
                if let (Some(why), Some(_)) = (error(left), error(right)) {
                    return Err(TypeError::new("", format!("lhs: {why}")));
                }
                self.whole(left, right);
                Ok(true)
            }
            Atom::Map(map) => {
                let (old, new) = (left.and_then(Value::as_object), right.and_then(Value::as_object));
                let empty = |side: Option<&Map<String, Value>>| side.is_none_or(Map::is_empty);
                if map.atomic || empty(old) && empty(new) {
                    self.whole(left, right);
                    return Ok(true);
                }
                self.take(members(&map, old, new)?);
                Ok(false)
            }
            Atom::List(list) => {
                let (old, new) = (entries_of(left), entries_of(right));
                if list.sort == ListSort::Atomic || old.is_empty() && new.is_empty() {
                    self.whole(left, right);
                    return Ok(true);
                }
                self.take(entries(&list, old, new)?);
                Ok(false)
            }
        }
    }

    fn is_nothing(&self) -> bool {
        let Comparison { removed, modified, added } = &self.below;
        !self.removed
            && !self.modified
            && !self.added
            && removed.is_empty()
            && modified.is_empty()
            && added.is_empty()
    }

    fn take(&mut self, below: Comparison) {
        self.below = std::mem::take(&mut self.below).joined(below);
    }

    fn whole(&mut self, left: Option<&Value>, right: Option<&Value>) {
        match (left, right) {
            (None, _) => self.added = true,
            (_, None) => self.removed = true,
            (Some(left), Some(right)) => self.modified |= !same(left, right),
        }
    }
}

fn members(
    map: &MapType<'_>,
    left: Option<&Map<String, Value>>,
    right: Option<&Map<String, Value>>,
) -> Result<Comparison, TypeError> {
    let none = Map::new();
    let (left, right) = (left.unwrap_or(&none), right.unwrap_or(&none));
    let old = left.iter().map(|(name, old)| (name, Some(old), right.get(name)));
    let new = right.iter().filter(|(name, _)| left.is_empty() || !left.contains_key(*name));
    let mut parts = Vec::new();
    for (name, old, new) in old.chain(new.map(|(name, new)| (name, None, Some(new)))) {
        let of = map.member(name).map_or(Type::Whole, |member| member.of);
        match part(of, old, new) {
            Ok(part) if part.is_nothing() => {}
            Ok(part) => parts.push((Element::field(name), part)),
            Err(error) => return Err(error.below(&Element::field(name))),
        }
    }
    // The new elements are already sorted, so sorting is necessary only if the old value has elements, too,
    // which is rare.
    if !left.is_empty() {
        parts.sort_by(|(left, _), (right, _)| left.cmp(right));
    }
    let mut changes = Comparison::default();
    parts.into_iter().for_each(|(element, part)| changes.put(element, part));
    Ok(changes)
}

fn entries(list: &ListType<'_>, left: &[Value], right: &[Value]) -> Result<Comparison, TypeError> {
    let mut all: BTreeMap<Element, [Vec<&Value>; 2]> = BTreeMap::new();
    for (side, entries) in [left, right].into_iter().enumerate() {
        for (place, entry) in entries.iter().enumerate() {
            let element = list.element_of(entry);
            let element = element.map_err(|why| TypeError::new("", format!("element {place}: {why}")))?;
            all.entry(element).or_default()[side].push(entry);
        }
    }
    let mut changes = Comparison::default();
    for (element, [old, new]) in all {
        let compared = match (&old[..], &new[..]) {
            ([_, _, ..], [_, _, ..]) => {
                let equal = old.len() == new.len() && old.iter().zip(&new).all(|(l, r)| same(l, r));
                Ok(ValueChanges { modified: !equal, ..ValueChanges::default() })
            }
            // List entries with duplicate keys are compared as a whole.
            ([_, _, ..], new) => match new.first() {
                Some(new) => part(list.element, None, Some(new)),
                None => Ok(ValueChanges::default()),
            }
            .map(|part| ValueChanges { removed: true, ..part }),
            (old, [_, _, ..]) => match old.first() {
                Some(old) => part(list.element, Some(old), None),
                None => Ok(ValueChanges::default()),
            }
            .map(|part| ValueChanges { added: true, ..part }),
            (old, new) => part(list.element, old.first().copied(), new.first().copied()),
        };
        match compared {
            Ok(part) => changes.put(element, part),
            Err(error) => return Err(error.below(&element)),
        }
    }
    Ok(changes)
}

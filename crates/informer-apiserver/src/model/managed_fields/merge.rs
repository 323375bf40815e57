use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::compare::entries_of;
use super::element::Element;
use super::types::{Atom, ListSort, ListType, MapType, Type};
use super::walk::{TypeError, error_message, scalar_error};

/// Merges an apply configuration into a live value without removing anything. List entries have the order of
/// the configuration, as far as it contains them.
pub(super) fn merge(of: Type<'_>, live: &Value, config: &Value) -> Result<Value, TypeError> {
    Ok(merged(of, Some(live), Some(config))?.unwrap_or(Value::Null))
}

/// Merges an apply configuration without managed fields. The error is the reason why the values cannot be
/// merged.
pub(crate) fn merge_unmanaged(of: Type<'_>, live: &Value, config: &Value) -> Result<Value, String> {
    merge(of, live, config).map_err(|error| error_message(&[error]).unwrap_or_default())
}

fn merged(of: Type<'_>, live: Option<&Value>, config: Option<&Value>) -> Result<Option<Value>, TypeError> {
    let decisive = if config.is_some() { config } else { live };
    let either = || Ok(decisive.cloned());
    match of.atom(decisive) {
        Atom::Scalar(scalar) => {
            let error = |value: Option<&Value>| value.and_then(|value| scalar_error(scalar, value));
            match (error(live), error(config)) {
                (Some(why), Some(_)) => Err(TypeError::new("", format!("lhs: {why}"))),
                _ => either(),
            }
        }
        Atom::Map(map) => {
            let (left, right) = (live.and_then(Value::as_object), config.and_then(Value::as_object));
            let empty = |side: Option<&Map<String, Value>>| side.is_none_or(Map::is_empty);
            if map.atomic || empty(left) && empty(right) {
                return either();
            }
            members(&map, left, right)
        }
        Atom::List(list) => {
            let (left, right) = (entries_of(live), entries_of(config));
            if list.sort == ListSort::Atomic || left.is_empty() && right.is_empty() {
                return either();
            }
            ListMerge::new(&list, left, right)?.run()
        }
    }
}

fn members(
    map: &MapType<'_>,
    left: Option<&Map<String, Value>>,
    right: Option<&Map<String, Value>>,
) -> Result<Option<Value>, TypeError> {
    let (none, mut out) = (Map::new(), Map::new());
    let (left, right) = (left.unwrap_or(&none), right.unwrap_or(&none));
    let new = right.keys().filter(|name| !left.contains_key(*name));
    for name in left.keys().chain(new) {
        let of = map.member(name).map_or(Type::Whole, |member| member.of);
        let merged = merged(of, left.get(name), right.get(name));
        if let Some(value) = merged.map_err(|error| error.below(&Element::field(name)))? {
            out.insert(name.clone(), value);
        }
    }
    Ok((!out.is_empty()).then_some(Value::Object(out)))
}

struct ListMerge<'a> {
    list: &'a ListType<'a>,
    live: &'a [Value],
    left: Vec<Element>,
    right: Vec<Element>,
    /// The entries of both lists by their identity. Duplicate entries are merged as null.
    in_left: BTreeMap<Element, &'a Value>,
    in_right: BTreeMap<Element, &'a Value>,
    out: Vec<Value>,
}

const DUPLICATE: &Value = &Value::Null;

impl<'a> ListMerge<'a> {
    fn new(list: &'a ListType<'a>, live: &'a [Value], config: &'a [Value]) -> Result<Self, TypeError> {
        let mut merging = Self {
            list,
            live,
            left: Vec::new(),
            right: Vec::new(),
            in_left: BTreeMap::new(),
            in_right: BTreeMap::new(),
            out: Vec::new(),
        };
        let element = |place: usize, entry: &Value| {
            let element = list.element_of(entry);
            element.map_err(|why| TypeError::new("", format!("element {place}: {why}")))
        };
        for (place, entry) in config.iter().enumerate() {
            let element = element(place, entry)?;
            if merging.in_right.insert(element.clone(), entry).is_some() {
                return Err(TypeError::new("", format!("duplicate entries for key {element}")));
            }
            merging.right.push(element);
        }
        for (place, entry) in live.iter().enumerate() {
            let element = element(place, entry)?;
            merging.in_left.entry(element.clone()).and_modify(|held| *held = DUPLICATE).or_insert(entry);
            merging.left.push(element);
        }
        Ok(merging)
    }

    /// Merges the two lists in the order of the configuration. An entry that only the live list contains
    /// keeps its position before the next entry that both lists contain.
    fn run(mut self) -> Result<Option<Value>, TypeError> {
        let (left, right) = (std::mem::take(&mut self.left), std::mem::take(&mut self.right));
        let shared: Vec<&Element> =
            right.iter().filter(|element| self.in_left.contains_key(*element)).collect();
        let mut shared = shared.into_iter().peekable();
        let mut done: BTreeSet<&Element> = BTreeSet::new();
        let (mut l, mut r) = (0, 0);
        while l < left.len() || r < right.len() {
            if let (Some(old), Some(new)) = (left.get(l), right.get(r)) {
                if old == new {
                    done.insert(old);
                    self.take_new(new);
                    (l, r) = (l + 1, r + 1);
                    shared.next();
                    continue;
                }
                let wanted = shared.peek().is_none_or(|next| *next == old);
                if self.in_right.contains_key(old) && !wanted {
                    // Both lists contain the entry, so it is added at its position in the configuration.
                    l += 1;
                    continue;
                }
            }
            if let Some(old) = left.get(l) {
                if !self.in_right.contains_key(old) {
                    self.take_old(l);
                    l += 1;
                    continue;
                }
                if done.contains(old) {
                    l += 1;
                }
            }
            if let Some(new) = right.get(r) {
                done.insert(new);
                self.take_new(new);
                r += 1;
                if shared.peek() == Some(&new) {
                    shared.next();
                }
            }
        }
        Ok((!self.out.is_empty()).then_some(Value::Array(self.out)))
    }

    fn take_old(&mut self, place: usize) {
        // As in kube-apiserver, errors in entries of the live list are ignored, because only the
        // configuration is validated.
        self.out.extend(merged(self.list.element, Some(&self.live[place]), None).ok().flatten());
    }

    fn take_new(&mut self, element: &Element) {
        let (old, new) = (self.in_left.get(element).copied(), self.in_right.get(element).copied());
        self.out.extend(merged(self.list.element, old, new).ok().flatten());
    }
}

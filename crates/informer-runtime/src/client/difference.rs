//! Computes the patch of a whole object from a change of its typed view, without side effects.
//!
//! A type knows fewer fields than the server. The change of the typed object, from `old` to `new`, is
//! therefore applied to the whole object as it was read, and the patch is the difference of the two whole
//! objects. A JSON merge patch replaces whole lists, so fields of list elements that the type does not know
//! move with their element.

#[cfg(test)]
mod tests;

use std::collections::HashMap;

use informer_client::{ListKey, ListKeysAt};
use serde_json::{Map, Value};

/// The fields by which list elements are matched if no schema defines the keys of their list. They are the
/// merge keys of built-in kinds.
const IDENTITIES: [&str; 11] = [
    "name",
    "uid",
    "type",
    "containerPort",
    "port",
    "ip",
    "key",
    "mountPath",
    "devicePath",
    "topologyKey",
    "claimName",
];

/// Returns `whole` with the change from `old` to `new`, which are views of `whole`. List elements are matched
/// by `keys`.
pub(crate) fn carried(whole: &Value, old: &Value, new: &Value, keys: ListKeysAt<'_>) -> Value {
    if old == new {
        return whole.clone();
    }
    match (whole, old, new) {
        (Value::Object(whole), Value::Object(old), Value::Object(new)) => {
            Value::Object(carried_members(whole, old, new, keys))
        }
        (Value::Array(whole), Value::Array(old), Value::Array(new)) if whole.len() == old.len() => {
            Value::Array(carried_elements(whole, old, new, keys))
        }
        _ => new.clone(),
    }
}

fn carried_members(
    whole: &Map<String, Value>,
    old: &Map<String, Value>,
    new: &Map<String, Value>,
    keys: ListKeysAt<'_>,
) -> Map<String, Value> {
    let unknown = whole.iter().filter(|(name, _)| !old.contains_key(*name) && !new.contains_key(*name));
    let mut members: Map<String, Value> =
        unknown.map(|(name, value)| (name.clone(), value.clone())).collect();
    for (name, value) in new {
        let member = match (whole.get(name), old.get(name)) {
            (Some(whole), Some(old)) => Some(carried(whole, old, value, keys.member(name))),
            // Both views contain a default that the type encodes and the whole object does not have, so the
            // field did not change.
            (None, Some(old)) if old == value => None,
            _ => Some(value.clone()),
        };
        members.extend(member.map(|member| (name.clone(), member)));
    }
    members
}

fn carried_elements(whole: &[Value], old: &[Value], new: &[Value], keys: ListKeysAt<'_>) -> Vec<Value> {
    let origins = origins(old, new, &keys.keys());
    let carry = |(value, origin): (&Value, Option<usize>)| match origin {
        Some(index) => carried(&whole[index], &old[index], value, keys.element()),
        None => value.clone(),
    };
    new.iter().zip(origins).map(carry).collect()
}

/// Returns for each element of `new` the index of the element of `old` from which it was made.
fn origins(old: &[Value], new: &[Value], keys: &[ListKey<'_>]) -> Vec<Option<usize>> {
    if let Some(origins) = origins_by_keys(old, new, keys) {
        return origins;
    }
    for identity in IDENTITIES {
        if let (Some(old), Some(_)) = (identified(old, identity), identified(new, identity)) {
            return new.iter().map(|element| old.get(&element[identity].to_string()).copied()).collect();
        }
    }
    let mut taken = vec![false; old.len()];
    let mut origins: Vec<Option<usize>> = new
        .iter()
        .map(|element| {
            let equal = (0..old.len()).find(|&index| !taken[index] && old[index] == *element)?;
            taken[equal] = true;
            Some(equal)
        })
        .collect();
    if old.len() == new.len() {
        // The number of elements is the same, so no element was added or removed, and unmatched elements were
        // changed in place.
        for (index, origin) in origins.iter_mut().enumerate().filter(|(_, origin)| origin.is_none()) {
            *origin = Some(index).filter(|&index| !taken[index]);
        }
    }
    origins
}

/// Matches elements by the keys of the schema; `None` if the schema has none, or if two elements of `old`
/// have the same key.
fn origins_by_keys(old: &[Value], new: &[Value], keys: &[ListKey<'_>]) -> Option<Vec<Option<usize>>> {
    if keys.is_empty() || !old.iter().chain(new).all(Value::is_object) {
        return None;
    }
    let identity = |element: &Value| {
        let member =
            |key: &ListKey<'_>| element.get(key.name).or(key.default.as_ref()).cloned().unwrap_or_default();
        Value::from_iter(keys.iter().map(member)).to_string()
    };
    let mut indexes = HashMap::with_capacity(old.len());
    for (index, element) in old.iter().enumerate() {
        if indexes.insert(identity(element), index).is_some() {
            return None;
        }
    }
    // If two new elements have the same key, only the first one is matched.
    Some(new.iter().map(|element| indexes.remove(&identity(element))).collect())
}

/// Maps the value of the member `identity` to the index of its element; `None` unless every element has the
/// member and its values are unique.
fn identified(elements: &[Value], identity: &str) -> Option<HashMap<String, usize>> {
    let mut known = HashMap::with_capacity(elements.len());
    for (index, element) in elements.iter().enumerate() {
        let value = element.get(identity).filter(|value| value.is_string() || value.is_number())?;
        if known.insert(value.to_string(), index).is_some() {
            return None;
        }
    }
    Some(known)
}

/// Returns the JSON merge patch from `old` to `new`; `None` if they are equal.
pub(super) fn merge_patch(old: &Value, new: &Value) -> Option<Value> {
    if old == new {
        return None;
    }
    let (Value::Object(old), Value::Object(new)) = (old, new) else { return Some(new.clone()) };
    let mut patch = Map::new();
    for (name, value) in new {
        let change = match old.get(name) {
            Some(old) => merge_patch(old, value),
            None => Some(value.clone()),
        };
        patch.extend(change.map(|change| (name.clone(), change)));
    }
    let removed = old.keys().filter(|name| !new.contains_key(*name));
    patch.extend(removed.map(|name| (name.clone(), Value::Null)));
    Some(Value::Object(patch))
}

/// Returns true if a changed list contains objects. In that case the patch must contain complete elements.
pub(super) fn changes_elements(old: &Value, new: &Value) -> bool {
    if old == new {
        return false;
    }
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => {
            new.iter().any(|(name, value)| old.get(name).is_some_and(|old| changes_elements(old, value)))
        }
        (Value::Array(old), _) => old.iter().any(Value::is_object),
        _ => false,
    }
}

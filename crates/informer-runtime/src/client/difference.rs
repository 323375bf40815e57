//! Computes the patch of a whole object from a change of its typed view, without side effects.
//!
//! A type knows fewer fields than the server. Therefore the change of the typed object, from `old` to `new`,
//! is applied to the whole object as it was read. The patch is the difference of the whole objects before and
//! after the change. A JSON merge patch replaces whole lists, so fields of list elements that the type does
//! not know move with their element.

#[cfg(test)]
mod tests;

use std::collections::HashMap;

use informer_client::{ListKey, ListKeysAt};
use serde_json::{Map, Value};

/// The fields by which elements of a list are matched between two versions of an object, if no schema defines
/// the keys of the list. They are the merge keys of built-in kinds, in order of precedence.
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

/// Returns the object `whole` after a change of its typed view. `old` and `new` are the view before and after
/// the change, and `keys` are the fields by which list elements are matched.
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
            // The type encodes a default value for a field that the whole object does not have. The old and
            // the new view both contain this value, so the field did not change and is not added.
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

/// Returns for each element of the list `new` the index of the element of `old` from which it was made.
/// Fields that the type does not know are copied from that element.
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
        // The list still has the same number of elements, so probably no element was added or removed.
        // Elements without an equal counterpart are treated as changed in place.
        for (index, origin) in origins.iter_mut().enumerate().filter(|(_, origin)| origin.is_none()) {
            *origin = Some(index).filter(|&index| !taken[index]);
        }
    }
    origins
}

/// Matches the elements of two versions of a list by the keys of the schema. Returns `None` if the schema has
/// no keys, or if two elements of `old` have the same key.
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
    // If two elements of the new list have the same key, only the first one is matched with an element of the
    // old list.
    Some(new.iter().map(|element| indexes.remove(&identity(element))).collect())
}

/// Maps the value of the member `identity` of each list element to the index of this element. Returns `None`
/// unless every element has the member and its values are unique.
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

/// Returns the JSON merge patch that changes `old` into `new`; `None` if they are equal.
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

/// Returns true if a list that contains objects was changed. A merge patch replaces the list, so it must
/// contain complete elements, including fields that the type does not know.
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

//! Merges the lists of an object with those of a strategic merge patch: entries are matched by merge key or
//! by value, and the order of the entries is preserved.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::meta::{FieldMeta, Meta};
use super::{DIRECTIVE, ELEMENT_ORDER, MergeError, Object, objects, without_directives};

/// Maps each value of a list, by its JSON text, to its position. Numbers of different types, such as `1` and
/// `1.0`, differ, as in Go.
type Ranks = HashMap<String, usize>;

/// Merges the lists for which the patch contains `$setElementOrder`. Removes these lists and the directives
/// from the patch, so that they are not merged again.
pub(super) fn ordered(original: &mut Object, patch: &mut Object, meta: Meta<'_>) -> Result<(), MergeError> {
    let orders: Vec<String> = patch.keys().filter(|name| name.starts_with(ELEMENT_ORDER)).cloned().collect();
    for name in orders {
        let Some(Value::Array(order)) = patch.remove(&name) else {
            return Err(MergeError::Type { expected: "a list" });
        };
        let list = name[ELEMENT_ORDER.len()..].strip_prefix('/').ok_or(MergeError::ElementOrder)?;
        let field = match (original.get(list), patch.get(list)) {
            (None | Some(Value::Array(_)), None | Some(Value::Array(_))) => meta.list(list)?,
            _ => return Err(MergeError::Type { expected: "a list" }),
        };
        let old = original.get(list).and_then(Value::as_array).cloned();
        let new = patch.get(list).and_then(Value::as_array).cloned();
        check_order(new.as_deref().unwrap_or_default(), &order, list, field.key)?;
        if let Some(merged) = in_order(old, new, &order, &field)? {
            original.insert(list.to_owned(), Value::Array(merged));
            patch.remove(list);
        }
    }
    Ok(())
}

/// Merges a list of the object with the list of the patch, in the order of `$setElementOrder`. `None` if
/// neither the object nor the patch has the list.
fn in_order(
    old: Option<Vec<Value>>,
    new: Option<Vec<Value>>,
    order: &[Value],
    field: &FieldMeta<'_>,
) -> Result<Option<Vec<Value>>, MergeError> {
    let mut server = old.clone().unwrap_or_default();
    let added = new.clone().unwrap_or_default();
    let merged = match (old, new) {
        (None, None) => return Ok(None),
        (Some(old), None) => old,
        (None, Some(new)) => new.into_iter().filter_map(without_directives).collect(),
        (Some(old), Some(new)) => {
            let kept = order_after_deletions(&old, &new, field);
            let merged = merge(old, new, field, false)?;
            server = kept.unwrap_or(server);
            merged
        }
    };
    element_type([&server, &added])?;
    arrange(merged, order, &server, Identity { key: field.key }).map(Some)
}

/// Returns the order of the server's list after a patch deleted entries of it, as kube-apiserver computes
/// that order. kube-apiserver deletes and appends in place, in one Go slice, so that the first new entries
/// take the positions of the deleted ones. Returns `None` if no entry was deleted.
fn order_after_deletions(old: &[Value], new: &[Value], field: &FieldMeta<'_>) -> Option<Vec<Value>> {
    let identity = Identity { key: field.key };
    let directive = |entry: &Value| entry.get(DIRECTIVE).and_then(Value::as_str).map(str::to_owned);
    let is = |word: &str, entry: &Value| directive(entry).as_deref() == Some(word);
    if !field.merges() || !identity.by_key() || new.iter().any(|entry| is("replace", entry)) {
        return None;
    }
    let gone: HashSet<_> =
        new.iter().filter(|entry| is("delete", entry)).filter_map(|entry| identity.of(entry)).collect();
    let stays = |entry: &&Value| identity.of(entry).is_none_or(|name| !gone.contains(&name));
    let kept: Vec<Value> = old.iter().filter(stays).cloned().collect();
    if kept.len() == old.len() {
        return None;
    }
    let mut held: HashSet<_> = kept.iter().filter_map(|entry| identity.of(entry)).collect();
    let added = new.iter().filter(|entry| {
        directive(entry).is_none() && identity.of(entry).is_some_and(|name| held.insert(name))
    });
    let room = old.len() - kept.len();
    let added: Vec<Value> = added.take(room).cloned().collect();
    Some(kept.into_iter().chain(added).collect())
}

/// Verifies that the entries of a list in the patch have the order of the list's `$setElementOrder`.
fn check_order(entries: &[Value], order: &[Value], list: &str, key: &str) -> Result<(), MergeError> {
    if entries.is_empty() || order.is_empty() {
        return Ok(());
    }
    let identity = Identity { key };
    let deletes = |entry: &&Value| entry.get(DIRECTIVE).and_then(Value::as_str) == Some("delete");
    if identity.by_key() && !entries.iter().all(Value::is_object) {
        return Err(MergeError::Type { expected: "an object" });
    }
    let mut entries = entries.iter().filter(|entry| !(identity.by_key() && deletes(entry))).peekable();
    let mut order = order.iter().peekable();
    while let (Some(entry), Some(place)) = (entries.peek(), order.peek()) {
        if entry.get(DIRECTIVE).is_some() {
            entries.next();
            continue;
        }
        if identity.strict(entry)? == identity.strict(place)? {
            entries.next();
        }
        order.next();
    }
    match entries.next() {
        Some(_) => Err(MergeError::OrderMismatch { field: list.to_owned() }),
        None => Ok(()),
    }
}

/// Merges the list `old` of the object with the list `new` of the patch. If `deletes` is true, `new` contains
/// the entries to remove from `old`.
pub(super) fn merge(
    old: Vec<Value>,
    new: Vec<Value>,
    field: &FieldMeta<'_>,
    deletes: bool,
) -> Result<Vec<Value>, MergeError> {
    if !field.merges() && !deletes {
        return Ok(new);
    }
    if old.is_empty() && new.is_empty() {
        return Ok(old);
    }
    if element_type([&old, &new])? == ElementType::Object {
        return merge_objects(old, new, field);
    }
    if deletes {
        let gone: HashSet<String> = new.iter().map(Value::to_string).collect();
        return Ok(old.into_iter().filter(|entry| !gone.contains(&entry.to_string())).collect());
    }
    let mut seen = HashSet::new();
    let both = old.iter().chain(&new).filter(|entry| seen.insert(entry.to_string())).cloned().collect();
    arrange(both, &new, &old, Identity { key: field.key })
}

fn merge_objects(old: Vec<Value>, new: Vec<Value>, field: &FieldMeta<'_>) -> Result<Vec<Value>, MergeError> {
    if field.key.is_empty() {
        return Err(MergeError::Unkeyed);
    }
    let identity = Identity { key: field.key };
    let (mut merged, patch) = directives(old, new, identity)?;
    // The remaining entries of the server's list keep the order that they have after the deletions.
    let server = merged.clone();
    let mut places: Ranks = ranks(&merged, identity);
    for entry in &patch {
        let place = places.entry(identity.strict(entry)?).or_insert(merged.len());
        match (merged.get_mut(*place).map(Value::take), entry.clone()) {
            (Some(Value::Object(old)), Value::Object(new)) => {
                merged[*place] = Value::Object(objects(old, new, field.meta)?);
            }
            (_, new) => merged.push(new),
        }
    }
    arrange(merged, &patch, &server, identity)
}

/// Applies the `$patch` directives in the entries of a patch list: `delete` removes matching entries of the
/// object's list, and `replace` replaces this list by the other entries of the patch list. Returns the
/// resulting list, and the entries of the patch that still have to be merged into it.
fn directives(
    old: Vec<Value>,
    new: Vec<Value>,
    identity: Identity<'_>,
) -> Result<(Vec<Value>, Vec<Value>), MergeError> {
    let (mut gone, mut replaces, mut patch) = (HashSet::new(), false, Vec::with_capacity(new.len()));
    for entry in new {
        match entry.get(DIRECTIVE).map(Value::as_str) {
            None => patch.push(entry),
            Some(Some("delete")) => drop(gone.insert(identity.strict(&entry)?)),
            Some(Some("replace")) => replaces = true,
            Some(Some("merge")) => return Err(MergeError::MergeDirective),
            Some(other) => {
                return Err(MergeError::Directive { directive: other.unwrap_or("not a text").to_owned() });
            }
        }
    }
    if replaces {
        return Ok((patch, Vec::new()));
    }
    let stays = |entry: &Value| identity.of(entry).is_none_or(|name| !gone.contains(&name));
    Ok((old.into_iter().filter(stays).collect(), patch))
}

/// The identity by which list entries of object and patch are matched: the value of the merge key, or the
/// whole entry if `key` is empty.
#[derive(Clone, Copy)]
struct Identity<'k> {
    key: &'k str,
}

impl Identity<'_> {
    fn by_key(self) -> bool {
        !self.key.is_empty()
    }

    fn of(self, entry: &Value) -> Option<String> {
        if self.by_key() { entry.get(self.key).map(Value::to_string) } else { Some(entry.to_string()) }
    }

    fn strict(self, entry: &Value) -> Result<String, MergeError> {
        let found = match self.by_key() {
            true if !entry.is_object() => return Err(MergeError::Type { expected: "an object" }),
            true => entry.get(self.key),
            false => Some(entry),
        };
        match found {
            Some(Value::Object(_) | Value::Array(_)) => Err(MergeError::Type { expected: "a scalar" }),
            Some(value) => Ok(value.to_string()),
            None => Err(MergeError::NoMergeKey { key: self.key.to_owned() }),
        }
    }
}

fn ranks(list: &[Value], identity: Identity<'_>) -> Ranks {
    let mut ranks = Ranks::with_capacity(list.len());
    for (place, entry) in list.iter().enumerate() {
        if let Some(name) = identity.of(entry) {
            ranks.entry(name).or_insert(place);
        }
    }
    ranks
}

/// Orders the entries of a merged list. Entries that the patch contains stay in the order of the patch;
/// entries that only the server's object contains stay in the order of the server. Both sequences are
/// interleaved in the order of the server as far as possible.
fn arrange(
    merged: Vec<Value>,
    patch_order: &[Value],
    server_order: &[Value],
    identity: Identity<'_>,
) -> Result<Vec<Value>, MergeError> {
    let (in_patch, in_server) = (ranks(patch_order, identity), ranks(server_order, identity));
    for entry in merged.iter().chain(patch_order).chain(server_order) {
        identity.strict(entry)?;
    }
    let mut patch = Vec::new();
    let mut server = Vec::new();
    for entry in merged {
        let name = identity.of(&entry).unwrap_or_default();
        let server_rank = in_server.get(&name).copied();
        match in_patch.get(&name) {
            Some(&rank) => patch.push(RankedEntry { rank, server_rank, entry }),
            None => {
                let rank = server_rank.unwrap_or(usize::MAX);
                server.push(RankedEntry { rank, server_rank, entry });
            }
        }
    }
    patch.sort_by_key(|ranked| ranked.rank);
    server.sort_by_key(|ranked| ranked.rank);
    Ok(interleaved(server, patch))
}

/// An entry of a merged list, with its positions in the lists that it is merged from.
struct RankedEntry {
    /// The position by which the entries of one sequence are sorted.
    rank: usize,
    /// The position in the list of the server's object.
    server_rank: Option<usize>,
    entry: Value,
}

fn interleaved(left: Vec<RankedEntry>, right: Vec<RankedEntry>) -> Vec<Value> {
    let mut all = Vec::with_capacity(left.len() + right.len());
    let mut left = left.into_iter().peekable();
    for ranked in right {
        let before = |left: &RankedEntry| matches!((left.server_rank, ranked.server_rank), (Some(left), Some(right)) if left < right);
        while let Some(earlier) = left.next_if(before) {
            all.push(earlier.entry);
        }
        all.push(ranked.entry);
    }
    all.extend(left.map(|ranked| ranked.entry));
    all
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ElementType {
    Bool,
    Integer,
    Float,
    String,
    Object,
}

fn element_type(lists: [&Vec<Value>; 2]) -> Result<ElementType, MergeError> {
    let mut found = None;
    for entry in lists.into_iter().flatten() {
        let kind = match entry {
            Value::Bool(_) => ElementType::Bool,
            Value::Number(number) if number.is_f64() => ElementType::Float,
            Value::Number(_) => ElementType::Integer,
            Value::String(_) => ElementType::String,
            Value::Object(_) => ElementType::Object,
            Value::Array(_) if found.is_none() => return Err(MergeError::ListOfLists),
            Value::Array(_) | Value::Null => return Err(MergeError::MixedList),
        };
        if *found.get_or_insert(kind) != kind {
            return Err(MergeError::MixedList);
        }
    }
    found.ok_or(MergeError::NoElements)
}

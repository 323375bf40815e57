//! Encodes the managed fields of a new object without building sets. The result is the `added` set that
//! [`compare`](super::compare) would find. This is an optimization: most writes of a busy server create
//! objects.
//!
//! The functions return `None` in cases that need sets. A test compares both implementations.

use serde_json::{Map, Value};

use super::compare::entries_of;
use super::element::{Element, same};
use super::set::Set;
use super::types::{Atom, ListSort, ListType, MapType, MemberType, Type};
use super::update::UNOWNED;
use super::walk::scalar_error;
use super::wire::{as_go, push_quoted};

/// Appends the encoded fields of `new` that differ from `empty`, except for ignored fields and fields that no
/// manager owns. Returns `None` if the caller must use sets instead, and then `out` is invalid.
pub(super) fn write(
    of: Type<'_>,
    (empty, new): (&Value, &Value),
    ignored: &Set,
    out: &mut String,
) -> Option<Output> {
    let root = OwnershipPosition { depth: Depth::Root, ignored: Some(ignored), owned: false };
    part(of, (Some(empty), new), root, out)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Output {
    Nothing,
    Fields,
}

/// The position of a value in the object, which decides whether a manager can own the value.
#[derive(Clone, Copy)]
struct OwnershipPosition<'p> {
    depth: Depth<'p>,
    ignored: Option<&'p Set>,
    /// True if a manager can own the value itself.
    owned: bool,
}

#[derive(Clone, Copy)]
enum Depth<'p> {
    Root,
    /// A top-level member of the object.
    Member(&'p str),
    Deeper,
}

impl<'p> OwnershipPosition<'p> {
    /// Returns the position of an object member, or `None` if the member is ignored together with everything
    /// below it.
    fn member(self, name: &'p str) -> Option<Self> {
        let ignored = self.ignored.filter(|ignored| !ignored.is_empty());
        let node = ignored.and_then(|ignored| ignored.node(&Element::field(name)));
        if node.is_some_and(|node| node.member) {
            return None;
        }
        let ignored = node.map(|node| &node.children);
        Some(match self.depth {
            Depth::Root => Self { depth: Depth::Member(name), ignored, owned: !UNOWNED.contains(&name) },
            Depth::Member(first) => {
                let is = |path: &&str| {
                    path.len() == first.len() + 1 + name.len()
                        && path.strip_prefix(first).and_then(|rest| rest.strip_prefix('.')) == Some(name)
                };
                Self { depth: Depth::Deeper, ignored, owned: !UNOWNED.iter().any(is) }
            }
            Depth::Deeper => Self { ignored, ..self.deeper() },
        })
    }

    fn deeper(self) -> Self {
        Self { depth: Depth::Deeper, ignored: None, owned: true }
    }
}

fn part(
    of: Type<'_>,
    (old, new): (Option<&Value>, &Value),
    at: OwnershipPosition<'_>,
    out: &mut String,
) -> Option<Output> {
    if old == Some(new) {
        return Some(Output::Nothing);
    }
    let atom = of.atom(Some(new));
    if old.is_some_and(|old| !of.atom(Some(old)).is_like(&atom)) {
        return None;
    }
    let changed = || old.is_none_or(|old| !same(old, new));
    match atom {
        Atom::Scalar(scalar) => {
            let wrong = |value: &Value| scalar_error(scalar, value).is_some();
            if wrong(new) || old.is_some_and(wrong) {
                return None;
            }
            Some(whole(at.owned && changed(), out))
        }
        Atom::Map(map) => {
            let (before, now) = (old.and_then(Value::as_object), new.as_object());
            let empty = |side: Option<&Map<String, Value>>| side.is_none_or(Map::is_empty);
            if map.atomic || empty(before) && empty(now) {
                return Some(whole(at.owned && changed(), out));
            }
            tree(at.owned && old.is_none(), out, |tree| members(&map, (before, now?), at, tree))
        }
        Atom::List(list) => {
            let (before, now) = (entries_of(old), entries_of(Some(new)));
            if list.sort == ListSort::Atomic || before.is_empty() && now.is_empty() {
                return Some(whole(at.owned && changed(), out));
            }
            let entries = |tree: &mut Tree<'_>| entries(&list, now, at, tree);
            before.is_empty().then(|| tree(at.owned && old.is_none(), out, entries))?
        }
    }
}

/// Appends the encoding of a value that is compared as a whole.
fn whole(is_field: bool, out: &mut String) -> Output {
    if !is_field {
        return Output::Nothing;
    }
    out.push_str("{}");
    Output::Fields
}

struct Tree<'t> {
    out: &'t mut String,
    empty: bool,
}

/// Appends the encoded fields below a value. With `itself` it also appends the value itself (`".":{}`).
fn tree(itself: bool, out: &mut String, below: impl FnOnce(&mut Tree<'_>) -> Option<()>) -> Option<Output> {
    const ITSELF: &str = r#"".":{}"#;
    out.push('{');
    let begin = out.len();
    if itself {
        out.push_str(ITSELF);
    }
    let mut tree = Tree { out, empty: true };
    below(&mut tree)?;
    if tree.empty {
        out.truncate(begin);
    }
    let empty = out.len() == begin;
    out.push('}');
    Some(if empty && !itself { Output::Nothing } else { Output::Fields })
}

impl Tree<'_> {
    /// Appends one path element, unless there are no fields below it.
    fn step(
        &mut self,
        name: impl FnOnce(&mut String),
        below: impl FnOnce(&mut String) -> Option<Output>,
    ) -> Option<()> {
        let begin = self.out.len();
        if !self.out.ends_with('{') {
            self.out.push(',');
        }
        name(self.out);
        self.out.push(':');
        match below(self.out)? {
            Output::Fields => self.empty = false,
            Output::Nothing => self.out.truncate(begin),
        }
        Some(())
    }
}

fn members(
    map: &MapType<'_>,
    (old, new): (Option<&Map<String, Value>>, &Map<String, Value>),
    at: OwnershipPosition<'_>,
    tree: &mut Tree<'_>,
) -> Option<()> {
    // Object members are sorted by name, which is also the order in which their fields are encoded.
    for (name, new) in new {
        let member = map.member(name);
        let of = member.map_or(Type::Whole, |member| member.of);
        // Field names of built-in types contain no characters that must be escaped in JSON.
        let known = matches!(member, Some(MemberType { declared: true, of }) if !of.is_custom());
        let old = old.and_then(|old| old.get(name));
        let Some(place) = at.member(name) else {
            // The types of ignored fields are checked, too, so their encoding is written and then discarded.
            let begin = tree.out.len();
            part(of, (old, new), at.deeper(), tree.out)?;
            tree.out.truncate(begin);
            continue;
        };
        let is_field =
            |out: &mut String| if known { push_name(name, out) } else { push_quoted("f:", name, out) };
        tree.step(is_field, |out| part(of, (old, new), place, out))?;
    }
    Some(())
}

fn push_name(name: &str, out: &mut String) {
    // Reserves space for the quotes, the prefix and the suffix of the encoded name.
    out.reserve(name.len() + 8);
    out.push_str("\"f:");
    out.push_str(name);
    out.push('"');
}

fn entries(list: &ListType<'_>, new: &[Value], at: OwnershipPosition<'_>, tree: &mut Tree<'_>) -> Option<()> {
    let mut keys = list.keys();
    keys.sort_unstable();
    let name = |entry: &Value| match list.sort {
        ListSort::Keyed => keyed(list, &keys, entry),
        ListSort::Set => plain("v:", entry),
        ListSort::Atomic => None,
    };
    let mut all = Vec::with_capacity(new.len());
    for entry in new {
        all.push((name(entry)?, entry));
    }
    all.sort_unstable_by(|(left, _), (right, _)| left.cmp(right));
    // List entries with duplicate keys are compared as a whole.
    if all.windows(2).any(|pair| pair[0].0 == pair[1].0) {
        return None;
    }
    for (name, entry) in all {
        let below = |out: &mut String| part(list.element, (None, entry), at.deeper(), out);
        tree.step(|out| push_quoted("", &name, out), below)?;
    }
    Some(())
}

/// Encodes the keys of a list entry, in the order of their names.
fn keyed(list: &ListType<'_>, keys: &[&str], entry: &Value) -> Option<String> {
    let members = entry.as_object()?;
    let mut text = String::from("k:{");
    for key in keys {
        let default = if members.contains_key(*key) { None } else { list.default_of(key) };
        let Some(value) = members.get(*key).or(default.as_ref()) else { continue };
        if !text.ends_with('{') {
            text.push(',');
        }
        push_quoted("", key, &mut text);
        text.push(':');
        push_plain(value, &mut text)?;
    }
    if text.ends_with('{') {
        return None;
    }
    text.push('}');
    Some(as_go(text))
}

fn plain(sort: &str, value: &Value) -> Option<String> {
    let mut text = sort.to_owned();
    push_plain(value, &mut text)?;
    Some(as_go(text))
}

/// Appends a scalar as JSON. Returns `None` for floating-point numbers, which have several encodings, and for
/// lists and objects.
fn push_plain(value: &Value, out: &mut String) -> Option<()> {
    match value {
        Value::String(text) => push_quoted("", text, out),
        Value::Bool(true) => out.push_str("true"),
        Value::Bool(false) => out.push_str("false"),
        Value::Number(number) if !number.is_f64() => out.push_str(&number.to_string()),
        Value::Number(_) | Value::Null | Value::Array(_) | Value::Object(_) => return None,
    }
    Some(())
}

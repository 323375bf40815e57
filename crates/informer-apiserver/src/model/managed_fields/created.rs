//! The fields of a new object as the text that says who manages them: what [`compare`](super::compare) finds to be added, without the
//! sets that lead there. Most writes of a busy server are creations, and nobody looks at the sets of those.
//!
//! Whatever only sets can tell is left to them; a test holds both against each other.

use serde_json::{Map, Value};

use super::compare::entries_of;
use super::element::{Element, same};
use super::set::Set;
use super::types::{Atom, ListSort, ListType, MapType, Member, Type};
use super::update::UNOWNED;
use super::walk::scalar_error;
use super::wire::{as_go, push_quoted};

/// Appends the fields of `new` that differ from `empty`, but for those that are ignored or nobody's. `None` where sets have to tell; what
/// was appended then means nothing.
pub(super) fn write(
    of: Type<'_>,
    (empty, new): (&Value, &Value),
    ignored: &Set,
    out: &mut String,
) -> Option<Found> {
    let root = Place { depth: Depth::Root, ignored: Some(ignored), owned: false };
    part(of, (Some(empty), new), root, out)
}

/// Whether there was anything to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    Nothing,
    Fields,
}

/// Where in the object a value is, as far as it matters for who owns it.
#[derive(Clone, Copy)]
struct Place<'p> {
    depth: Depth<'p>,
    /// What is ignored below here.
    ignored: Option<&'p Set>,
    /// Whether the value itself may be anybody's.
    owned: bool,
}

#[derive(Clone, Copy)]
enum Depth<'p> {
    Root,
    /// A member of the object.
    Member(&'p str),
    Deeper,
}

impl<'p> Place<'p> {
    /// Where a member is; `None` where it is ignored with all that it has.
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

/// Appends what is told of a value and of what is below it.
fn part(
    of: Type<'_>,
    (old, new): (Option<&Value>, &Value),
    at: Place<'_>,
    out: &mut String,
) -> Option<Found> {
    if old == Some(new) {
        return Some(Found::Nothing);
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

/// Appends a value that is taken as a whole.
fn whole(told: bool, out: &mut String) -> Found {
    if !told {
        return Found::Nothing;
    }
    out.push_str("{}");
    Found::Fields
}

/// What is written of a value that has others below it.
struct Tree<'t> {
    out: &'t mut String,
    empty: bool,
}

/// Appends what is below a value, and the value itself where that is told.
fn tree(itself: bool, out: &mut String, below: impl FnOnce(&mut Tree<'_>) -> Option<()>) -> Option<Found> {
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
    Some(if empty && !itself { Found::Nothing } else { Found::Fields })
}

impl Tree<'_> {
    /// Appends one step, if there is anything below it.
    fn step(
        &mut self,
        name: impl FnOnce(&mut String),
        below: impl FnOnce(&mut String) -> Option<Found>,
    ) -> Option<()> {
        let begin = self.out.len();
        if !self.out.ends_with('{') {
            self.out.push(',');
        }
        name(self.out);
        self.out.push(':');
        match below(self.out)? {
            Found::Fields => self.empty = false,
            Found::Nothing => self.out.truncate(begin),
        }
        Some(())
    }
}

fn members(
    map: &MapType<'_>,
    (old, new): (Option<&Map<String, Value>>, &Map<String, Value>),
    at: Place<'_>,
    tree: &mut Tree<'_>,
) -> Option<()> {
    // They are in the order of their names, and so of what they are written as.
    for (name, new) in new {
        let member = map.member(name);
        let of = member.map_or(Type::Whole, |member| member.of);
        // What the type itself has needs no escapes where it is of the table.
        let known = matches!(member, Some(Member { declared: true, of }) if !of.is_custom());
        let old = old.and_then(|old| old.get(name));
        let Some(place) = at.member(name) else {
            // What is ignored must fit its type all the same.
            let begin = tree.out.len();
            part(of, (old, new), at.deeper(), tree.out)?;
            tree.out.truncate(begin);
            continue;
        };
        let told = |out: &mut String| match known {
            true => push_name(name, out),
            false => push_quoted("f:", name, out),
        };
        tree.step(told, |out| part(of, (old, new), place, out))?;
    }
    Some(())
}

fn push_name(name: &str, out: &mut String) {
    // The quotes, the sort, and what comes behind.
    out.reserve(name.len() + 8);
    out.push_str("\"f:");
    out.push_str(name);
    out.push('"');
}

fn entries(list: &ListType<'_>, new: &[Value], at: Place<'_>, tree: &mut Tree<'_>) -> Option<()> {
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
    // What is there twice is compared as a whole.
    if all.windows(2).any(|pair| pair[0].0 == pair[1].0) {
        return None;
    }
    for (name, entry) in all {
        let below = |out: &mut String| part(list.element, (None, entry), at.deeper(), out);
        tree.step(|out| push_quoted("", &name, out), below)?;
    }
    Some(())
}

/// An entry by its keys, which are in order.
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

/// Appends a value that has one text alone: nothing that is within others, and no broken numbers, of which several are one.
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

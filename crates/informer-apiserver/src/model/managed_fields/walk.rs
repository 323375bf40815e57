//! Functions that traverse one value along its type.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::element::Element;
use super::set::{Node, Set};
use super::types::{Atom, ListSort, ListType, MapType, Scalar, Type};
use crate::model::go_format::{go_format, go_type};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TypeError {
    path: String,
    why: String,
}

/// Returns kube-apiserver's messages for the type errors in a value, or `None` if it has none. List entries
/// with equal keys are an error unless `duplicates` are allowed.
pub(crate) fn validate(of: Type<'_>, value: &Value, duplicates: bool) -> Option<String> {
    let mut errors = Vec::new();
    check(of, value, duplicates, String::new(), &mut errors);
    error_message(&errors)
}

/// Joins several type errors into one message. Returns `None` if there are no errors.
pub(super) fn error_message(errors: &[TypeError]) -> Option<String> {
    let one = |error: &TypeError| {
        if error.path.is_empty() { error.why.clone() } else { format!("{}: {}", error.path, error.why) }
    };
    match errors {
        [] => None,
        [error] => Some(one(error)),
        errors => {
            let lines: Vec<String> = errors.iter().map(|error| format!("  {}", one(error))).collect();
            Some(format!("errors:\n{}", lines.join("\n")))
        }
    }
}

impl TypeError {
    pub(super) fn new(path: impl Into<String>, why: impl Into<String>) -> Self {
        Self { path: path.into(), why: why.into() }
    }

    pub(super) fn below(mut self, element: &Element) -> Self {
        self.path = format!("{element}{}", self.path);
        self
    }
}

fn check(of: Type<'_>, value: &Value, duplicates: bool, path: String, errors: &mut Vec<TypeError>) {
    let wrong = |wanted: &str| {
        TypeError::new(path.clone(), format!("expected {wanted}, got &{{{}}}", go_format(value)))
    };
    match (of.atom(Some(value)), value) {
        (_, Value::Null) => {}
        (Atom::Scalar(scalar), value) => {
            errors.extend(scalar_error(scalar, value).map(|why| TypeError::new(path, why)));
        }
        (Atom::Map(map), Value::Object(members)) => {
            for (name, value) in members {
                let path = format!("{path}{}", Element::field(name));
                let Some(member) = map.member(name) else {
                    errors.push(TypeError::new(path, "field not declared in schema"));
                    return;
                };
                check(member.of, value, duplicates, path, errors);
            }
        }
        (Atom::Map(_), _) => errors.push(wrong("map")),
        (Atom::List(list), Value::Array(entries)) => {
            check_entries(&list, entries, duplicates, &path, errors);
        }
        (Atom::List(_), _) => errors.push(wrong("list")),
    }
}

fn check_entries(
    list: &ListType<'_>,
    entries: &[Value],
    duplicates: bool,
    path: &str,
    errors: &mut Vec<TypeError>,
) {
    let mut seen = BTreeSet::new();
    for (place, entry) in entries.iter().enumerate() {
        let element = match list.sort {
            ListSort::Atomic => Element::Index(i64::try_from(place).unwrap_or(i64::MAX)),
            _ => match list.element_of(entry) {
                Ok(element) => element,
                Err(why) => {
                    errors.push(TypeError::new(path, format!("element {place}: {why}")));
                    return;
                }
            },
        };
        let below = format!("{path}{element}");
        if !seen.insert(element.clone()) && !duplicates {
            errors.push(TypeError::new(path, format!("duplicate entries for key {element}")));
        }
        check(list.element, entry, duplicates, below, errors);
    }
}

pub(super) fn scalar_error(scalar: Scalar, value: &Value) -> Option<String> {
    let right = match scalar {
        Scalar::Number => value.is_number(),
        Scalar::Text => value.is_string(),
        Scalar::Bool => value.is_boolean(),
        Scalar::Any => value.is_number() || value.is_string() || value.is_boolean(),
    };
    if right || value.is_null() {
        return None;
    }
    Some(match scalar {
        Scalar::Number => format!("expected numeric (int or float), got {}", go_type(value)),
        Scalar::Text => {
            format!("expected string, got &value.valueUnstructured{{Value:{}}}", go_syntax(value))
        }
        Scalar::Bool => format!("expected boolean, got &{{{}}}", go_format(value)),
        Scalar::Any => format!("expected any scalar, got &{{{}}}", go_format(value)),
    })
}

/// Formats a value like Go's `%#v`.
fn go_syntax(value: &Value) -> String {
    match value {
        Value::Null => "interface {}(nil)".to_owned(),
        Value::String(text) => format!("{text:?}"),
        Value::Array(items) => {
            format!("[]interface {{}}{{{}}}", items.iter().map(go_syntax).collect::<Vec<_>>().join(", "))
        }
        Value::Object(members) => {
            let members: Vec<String> =
                members.iter().map(|(name, value)| format!("{name:?}:{}", go_syntax(value))).collect();
            format!("map[string]interface {{}}{{{}}}", members.join(", "))
        }
        other => other.to_string(),
    }
}

/// Returns the set of all fields in a value: leaves, list entries and map members.
pub(super) fn fields_of(of: Type<'_>, value: &Value) -> Set {
    fields_below(of, value).1
}

/// Returns true if the value itself is a field, and the set of the fields below it.
fn fields_below(of: Type<'_>, value: &Value) -> (bool, Set) {
    match (of.atom(Some(value)), value) {
        (Atom::Scalar(_), _) => (true, Set::default()),
        (Atom::List(ListType { sort: ListSort::Atomic, .. }), _)
        | (Atom::Map(MapType { atomic: true, .. }), _) => (true, Set::default()),
        (Atom::Map(map), Value::Object(members)) => (false, fields_of_members(&map, members)),
        (Atom::List(list), Value::Array(entries)) => (false, fields_of_entries(&list, entries)),
        _ => (false, Set::default()),
    }
}

fn fields_of_members(map: &MapType<'_>, members: &Map<String, Value>) -> Set {
    let mut set = Set::default();
    for (name, value) in members {
        let member = map.member(name);
        let (leaf, below) = fields_below(member.map_or(Type::Whole, |member| member.of), value);
        let empty = value.is_null() || value.as_object().is_some_and(Map::is_empty);
        set.put(Element::field(name), leaf || empty || member.is_none_or(|member| !member.declared), below);
    }
    set
}

fn fields_of_entries(list: &ListType<'_>, entries: &[Value]) -> Set {
    let (mut seen, mut twice) = (BTreeSet::new(), BTreeSet::new());
    let elements: Vec<Option<Element>> = entries.iter().map(|entry| list.element_of(entry).ok()).collect();
    for element in elements.iter().flatten() {
        if !seen.insert(element) {
            twice.insert(element);
        }
    }
    let fields = elements.iter().zip(entries).filter_map(|(element, entry)| {
        let element = element.as_ref()?;
        // List entries with duplicate keys are handled as a whole.
        let children =
            if twice.contains(element) { Set::default() } else { fields_below(list.element, entry).1 };
        Some((element.clone(), Node { member: true, children }))
    });
    // The entries of a list are in any order, which `Set::of_nodes` accepts.
    Set::of_nodes(fields)
}

/// Returns the set with the parents of its fields, as far as the types declare these parents by name.
pub(super) fn with_named(of: Option<Type<'_>>, set: &Set) -> Set {
    let mut named = Set::default();
    for (element, node) in set.nodes() {
        let (below, declared) = match (element, of) {
            (Element::Field(name), Some(of)) => {
                let member = of.map().and_then(|map| map.member(name));
                (member.map(|member| member.of), member.is_some_and(|member| member.declared))
            }
            (Element::Key(_), Some(of)) => (of.list().map(|list| list.element), false),
            _ => (None, false),
        };
        let member = node.member || declared && !node.children.is_empty();
        named.put(element.clone(), member, with_named(below, &node.children));
    }
    named
}

/// Adapts a field set to the current type. If a value became atomic, the fields below it are replaced by the
/// value itself.
pub(super) fn reconcile(of: Type<'_>, set: &mut Set) {
    // Fast path: most nodes have no children and stay unchanged.
    for (element, node) in set.nodes_mut().filter(|(_, node)| !node.children.is_empty()) {
        let below = match element {
            Element::Field(name) => of.map().and_then(|map| map.member(name)).map(|member| member.of),
            _ => of.list().map(|list| list.element),
        };
        match below {
            Some(below) if is_atomic(below) => *node = Node { member: true, children: Set::default() },
            Some(below) => reconcile(below, &mut node.children),
            None => {}
        }
    }
}

/// Returns true if all values of the type are atomic. For an untyped value atomicity depends on the value, so
/// the result is false.
fn is_atomic(of: Type<'_>) -> bool {
    match of.atom(None) {
        Atom::Map(map) => map.atomic && !matches!(of, Type::Whole),
        Atom::List(list) => list.sort == ListSort::Atomic,
        Atom::Scalar(_) => false,
    }
}

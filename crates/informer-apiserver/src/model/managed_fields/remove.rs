use serde_json::{Map, Value};

use super::element::Element;
use super::set::Set;
use super::types::{Atom, ListSort, Type};

/// Returns the value without the given fields. A map or list that becomes empty is replaced by null.
pub(super) fn remove(of: Type<'_>, value: &Value, gone: &Set) -> Value {
    match (of.atom(Some(value)), value) {
        (Atom::Scalar(_), value) => value.clone(),
        (Atom::Map(map), Value::Object(members)) if !map.atomic => {
            let mut kept = Map::new();
            for (name, value) in members {
                match gone.node(&Element::field(name)) {
                    Some(node) if node.member => {}
                    Some(node) => {
                        let of = map.member(name).map_or(Type::Whole, |member| member.of);
                        kept.insert(name.clone(), remove(of, value, &node.children));
                    }
                    None => drop(kept.insert(name.clone(), value.clone())),
                }
            }
            if kept.is_empty() { Value::Null } else { Value::Object(kept) }
        }
        (Atom::List(list), Value::Array(entries)) if list.sort != ListSort::Atomic => {
            let keep = |entry: &Value| {
                let element = list.element_of(entry).ok();
                match element.and_then(|element| gone.node(&element)) {
                    Some(node) if node.member => None,
                    Some(node) => Some(remove(list.element, entry, &node.children)),
                    None => Some(entry.clone()),
                }
            };
            let kept: Vec<Value> = entries.iter().filter_map(keep).collect();
            if kept.is_empty() { Value::Null } else { Value::Array(kept) }
        }
        _ => Value::Null,
    }
}

//! Finds the atomic parts of a value, which server-side apply can only replace as a whole.

use serde_json::Value;

use super::types::{Atom, ListSort, Type};

/// Returns the paths of all atomic maps and lists in a value, in the format of kube-apiserver.
pub(crate) fn atomics(of: Type<'_>, value: &Value) -> Vec<String> {
    let mut found = Vec::new();
    find(of, value, String::new(), &mut found);
    found
}

fn find(of: Type<'_>, value: &Value, path: String, found: &mut Vec<String>) {
    match (of.atom(Some(value)), value) {
        (Atom::Map(map), Value::Object(members)) => {
            let below = |name: &str| format!("{path}.{name}");
            let parts: Vec<_> = members
                .iter()
                .filter_map(|(name, value)| {
                    let member = map.member(name).filter(|member| member.declared)?;
                    Some((member.of, value, below(name)))
                })
                .collect();
            if map.atomic {
                found.push(path);
            }
            parts.into_iter().for_each(|(of, value, path)| find(of, value, path, found));
        }
        (Atom::List(list), Value::Array(items)) => {
            if list.sort == ListSort::Atomic {
                found.push(path.clone());
            }
            for (index, item) in items.iter().enumerate() {
                find(list.element, item, format!("{path}[{index}]"), found);
            }
        }
        _ => {}
    }
}

//! Finds the fields of an object that differ between two states.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// Fields that comparisons ignore, because the server changes them in every write, or omits them from the
/// items of lists.
const OF_THE_SERVER: [&str; 5] =
    ["apiVersion", "kind", "metadata.resourceVersion", "metadata.generation", "metadata.managedFields"];

/// Returns the paths of all values that differ, as `spec.containers[web].image`. List elements are named by
/// their `name` if each of them has one, otherwise by their position.
pub(crate) fn changed_paths(old: &Value, new: &Value) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    compare("", old, new, &mut found);
    found.retain(|path| !OF_THE_SERVER.iter().any(|prefix| is_within(path, prefix)));
    found
}

/// Returns true if `path` equals `prefix` or is a path below it. Every path is below the empty path.
pub(crate) fn is_within(path: &str, prefix: &str) -> bool {
    prefix.is_empty()
        || path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

/// Returns the path of a value in `part` that is missing in `whole` or differs there; `None` if `whole`
/// contains all of `part`.
pub(crate) fn missing(part: &Value, whole: &Value) -> Option<String> {
    missing_below("", part, whole)
}

fn missing_below(at: &str, part: &Value, whole: &Value) -> Option<String> {
    match (part, whole) {
        (Value::Object(members), Value::Object(_)) => members.iter().find_map(|(name, value)| {
            let below = if at.is_empty() { name.clone() } else { format!("{at}.{name}") };
            missing_below(&below, value, &whole[name.as_str()])
        }),
        (Value::Array(part), Value::Array(whole)) => {
            let whole = elements(whole);
            elements(part).iter().find_map(|(name, value)| {
                missing_below(&format!("{at}[{name}]"), value, whole.get(name).unwrap_or(&Value::Null))
            })
        }
        (part, whole) => (part != whole).then(|| at.to_owned()),
    }
}

fn compare(at: &str, old: &Value, new: &Value, found: &mut BTreeSet<String>) {
    match (old, new) {
        (old, new) if old == new => {}
        (Value::Object(old), Value::Object(new)) => {
            let names: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
            for name in names {
                let below = if at.is_empty() { name.clone() } else { format!("{at}.{name}") };
                let of =
                    |members: &serde_json::Map<String, Value>| members.get(name).cloned().unwrap_or_default();
                compare(&below, &of(old), &of(new), found);
            }
        }
        (Value::Array(old), Value::Array(new)) => {
            let (old, new) = (elements(old), elements(new));
            let names: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
            for name in names {
                let of = |elements: &BTreeMap<String, Value>| elements.get(name).cloned().unwrap_or_default();
                compare(&format!("{at}[{name}]"), &of(&old), &of(&new), found);
            }
        }
        // If a member was added or removed, each field within it is reported.
        (Value::Null, Value::Object(_)) => compare(at, &Value::Object(serde_json::Map::new()), new, found),
        (Value::Object(_), Value::Null) => compare(at, old, &Value::Object(serde_json::Map::new()), found),
        (Value::Null, Value::Array(_)) => compare(at, &Value::Array(Vec::new()), new, found),
        (Value::Array(_), Value::Null) => compare(at, old, &Value::Array(Vec::new()), found),
        _ => {
            found.insert(at.to_owned());
        }
    }
}

fn elements(list: &[Value]) -> BTreeMap<String, Value> {
    let named = list.iter().all(|element| element["name"].is_string());
    let name = |(at, element): (usize, &Value)| match element["name"].as_str().filter(|_| named) {
        Some(name) => (name.to_owned(), element.clone()),
        None => (at.to_string(), element.clone()),
    };
    list.iter().enumerate().map(name).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn list_elements_are_matched_by_name() {
        let old = json!({"spec": {"containers": [{"name": "a", "image": "1", "extra": 1}, {"name": "b"}]}});
        let new = json!({"spec": {"containers": [{"name": "b"}, {"name": "a", "image": "2"}]}});
        let changed: Vec<_> = changed_paths(&old, &new).into_iter().collect();
        assert_eq!(changed, ["spec.containers[a].extra", "spec.containers[a].image"]);
    }

    #[test]
    fn value_that_a_stored_object_lacks_is_missing() {
        let sent = json!({"spec": {"slices": [{"name": "a", "unknown": {"deep": 1}}]}});
        let stored = json!({"spec": {"slices": [{"name": "a"}], "more": 1}});
        assert_eq!(missing(&sent, &stored).as_deref(), Some("spec.slices[a].unknown"));
        assert_eq!(missing(&stored, &stored), None);
    }

    #[test]
    fn fields_set_by_the_server_are_ignored() {
        let old = json!({"metadata": {"resourceVersion": "1", "generation": 1}, "data": {"a": "1"}});
        let new = json!({"metadata": {"resourceVersion": "2", "generation": 2}});
        assert_eq!(changed_paths(&old, &new).into_iter().collect::<Vec<_>>(), ["data.a"]);
        assert!(is_within("data.a", "data") && !is_within("database", "data"));
    }
}

//! The patch of what a typed function changed, for an object that has more in it than the type knows.
//!
//! Three states count: the object as it came (`raw`), its typed view (`before`), and that view after the function (`after`). What the
//! view lost is neither in `before` nor in `after`, so it is no change; only what differs between those two is written.

use serde_json::{Map, Value, json};

/// The JSON patch (RFC 6902) that takes `raw` to where `before` became `after`.
pub(super) fn between(raw: &Value, before: &Value, after: &Value) -> Vec<Value> {
    let mut operations = Vec::new();
    differ(&mut String::new(), raw, &merged(Some(raw), Some(before), after), &mut operations);
    operations
}

/// `raw` with the changes from `before` to `after` in it.
fn merged(raw: Option<&Value>, before: Option<&Value>, after: &Value) -> Value {
    match (raw, before, after) {
        (Some(raw), Some(before), after) if before == after => raw.clone(),
        (Some(Value::Object(raw)), Some(Value::Object(before)), Value::Object(after)) => {
            Value::Object(merged_maps(raw, before, after))
        }
        (Some(Value::Array(raw)), Some(Value::Array(before)), Value::Array(after))
            if raw.len() == before.len() =>
        {
            let items = after.iter().enumerate().map(|(index, item)| {
                let old = same(before, index, item);
                merged(old.map(|old| &raw[old]), old.map(|old| &before[old]), item)
            });
            Value::Array(items.collect())
        }
        _ => after.clone(),
    }
}

fn merged_maps(
    raw: &Map<String, Value>,
    before: &Map<String, Value>,
    after: &Map<String, Value>,
) -> Map<String, Value> {
    let mut merged_map = raw.clone();
    merged_map.retain(|name, _| !before.contains_key(name) || after.contains_key(name));
    for (name, value) in after {
        let (raw, before) = (raw.get(name), before.get(name));
        // A field that the view makes up, and that nobody changed, is not to be written.
        if raw.is_none() && before == Some(value) {
            continue;
        }
        merged_map.insert(name.clone(), merged(raw, before, value));
    }
    merged_map
}

/// Which item of before an item of after is: an equal one, one of the same name, else the one of its place where that has no name.
fn same(before: &[Value], index: usize, item: &Value) -> Option<usize> {
    let equal = before.get(index).is_some_and(|old| old == item).then_some(index);
    let equal = equal.or_else(|| before.iter().position(|old| old == item));
    equal.or_else(|| match item.get("name") {
        Some(name) => before.iter().position(|old| old.get("name") == Some(name)),
        None => before.get(index).filter(|old| old.get("name").is_none()).map(|_| index),
    })
}

fn differ(path: &mut String, from: &Value, to: &Value, operations: &mut Vec<Value>) {
    match (from, to) {
        (from, to) if from == to => {}
        (Value::Object(from), Value::Object(to)) => {
            for name in from.keys().filter(|name| !to.contains_key(*name)) {
                below(path, name, |path| operations.push(json!({"op": "remove", "path": path})));
            }
            for (name, value) in to {
                below(path, name, |path| match from.get(name) {
                    Some(old) => differ(path, old, value, operations),
                    None => operations.push(json!({"op": "add", "path": path, "value": value})),
                });
            }
        }
        (Value::Array(from), Value::Array(to)) if from.len() == to.len() => {
            for (index, (from, to)) in from.iter().zip(to).enumerate() {
                below(path, &index.to_string(), |path| differ(path, from, to, operations));
            }
        }
        (_, to) => operations.push(json!({"op": "replace", "path": path, "value": to})),
    }
}

/// Calls `then` with the path of a member.
fn below(path: &mut String, name: &str, then: impl FnOnce(&mut String)) {
    let length = path.len();
    path.push('/');
    path.push_str(&name.replace('~', "~0").replace('/', "~1"));
    then(path);
    path.truncate(length);
}

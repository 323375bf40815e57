//! Paths within objects, for example `spec.containers[].ports[]`. `[]` matches each entry of a list and `{}`
//! each value of a map.

use serde_json::Value;

/// Calls a function for each part of a value that the path matches. The function may change the part.
pub(crate) fn each_mut(value: &mut Value, path: &str, visit: &mut dyn FnMut(&mut Value)) {
    let Some((segment, rest)) = split(path) else { return visit(value) };
    let (name, each) = strip(segment);
    let Some(member) = value.get_mut(name).filter(|member| !member.is_null()) else { return };
    match (each, member) {
        (None, member) => each_mut(member, rest, visit),
        (Some(_), Value::Array(items)) => items.iter_mut().for_each(|item| each_mut(item, rest, visit)),
        (Some(_), Value::Object(members)) => {
            members.values_mut().for_each(|member| each_mut(member, rest, visit));
        }
        _ => {}
    }
}

/// Returns the value at a path without lists, or `None` if it is missing or null.
pub(crate) fn get<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    let found = if path.as_bytes().contains(&b'.') {
        path.split('.').try_fold(value, |value, name| value.get(name))
    } else {
        // Fast path: most field paths are a single name.
        value.get(path)
    };
    found.filter(|found| !found.is_null())
}

/// Sets the field at a path, and creates its missing parents.
pub(crate) fn set(value: &mut Value, path: &str, new: Value) {
    let mut place = value;
    for name in path.split('.') {
        if !place.is_object() {
            *place = Value::Object(serde_json::Map::new());
        }
        place = &mut place[name];
    }
    *place = new;
}

fn split(path: &str) -> Option<(&str, &str)> {
    (!path.is_empty()).then(|| path.split_once('.').unwrap_or((path, "")))
}

fn strip(segment: &str) -> (&str, Option<()>) {
    let stripped = segment.strip_suffix("[]").or_else(|| segment.strip_suffix("{}"));
    stripped.map_or((segment, None), |name| (name, Some(())))
}

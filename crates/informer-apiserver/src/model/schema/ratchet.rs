//! Compares parts of an updated object with the stored one, for the ratcheting of CEL rules.

use serde_json::Value;

/// Returns true if the part of an object at a path, or the nearest part above it that corresponds to a part
/// of the stored object, is unchanged.
pub(super) fn is_unchanged(schema: &Value, old: &Value, new: &Value, path: &str) -> bool {
    let (mut schema, mut old, mut new) = (schema, old, new);
    for segment in segments(path) {
        let next = match (segment, old, new) {
            (PathSegment::Name(name), Value::Object(before), Value::Object(after)) => {
                let Some(value) = after.get(name) else { return old == new };
                let field = super::pruning::field(schema, name).unwrap_or(&Value::Null);
                before.get(name).map(|old| (field, old, value))
            }
            (PathSegment::Index(index), Value::Array(_), Value::Array(items)) => {
                let Some(item) = items.get(index) else { return old == new };
                correlated(schema, old, item).map(|old| (&schema["items"], old, item))
            }
            _ => None,
        };
        let Some(below) = next else { return old == new };
        (schema, old, new) = below;
    }
    old == new
}

/// Returns the old item with the keys of this item. Only the items of lists with the type `map` are
/// correlated.
pub(super) fn correlated<'a>(schema: &Value, old: &'a Value, item: &Value) -> Option<&'a Value> {
    if schema["x-kubernetes-list-type"] != "map" {
        return None;
    }
    let keys = schema["x-kubernetes-list-map-keys"].as_array()?;
    let has_keys =
        |old: &&Value| keys.iter().filter_map(Value::as_str).all(|key| old.get(key) == item.get(key));
    old.as_array()?.iter().find(has_keys)
}

enum PathSegment<'a> {
    Name(&'a str),
    Index(usize),
}

fn segments(path: &str) -> impl Iterator<Item = PathSegment<'_>> {
    path.split(['.', '[']).filter(|segment| !segment.is_empty()).map(|segment| {
        match segment.strip_suffix(']').map(str::parse) {
            Some(Ok(index)) => PathSegment::Index(index),
            _ => PathSegment::Name(segment.trim_end_matches(']')),
        }
    })
}

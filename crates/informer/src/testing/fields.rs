//! Reads, removes and compares fields of JSON objects, which are named by paths such as `status.lastSync`.

use std::collections::BTreeSet;

use serde_json::Value;

/// Splits the path of a field, such as `status.lastSync`, into its segments. A segment in brackets may
/// contain dots: `metadata.annotations[example.com/checked]`, with or without quotes. A bracket that is not
/// closed extends to the end of the path.
pub(super) fn path_segments(path: &str) -> Vec<String> {
    let mut segments = Vec::new();
    let mut rest = path;
    while !rest.is_empty() {
        if let Some(inner) = rest.strip_prefix('[') {
            let (inner, after) = inner.split_once(']').unwrap_or((inner, ""));
            segments.push(inner.trim_matches(['\'', '"']).to_owned());
            rest = after.strip_prefix('.').unwrap_or(after);
            continue;
        }
        let end = rest.find(['.', '[']).unwrap_or(rest.len());
        segments.push(rest[..end].to_owned());
        rest = rest[end..].strip_prefix('.').unwrap_or(&rest[end..]);
    }
    segments
}

/// Returns the JSON value at the path of a field, or `None` if it does not exist. A number in the path is the
/// index of a list item.
pub(super) fn get_path<'a>(value: &'a Value, path: &[String]) -> Option<&'a Value> {
    path.iter().try_fold(value, |value, segment| match value {
        Value::Array(items) => items.get(segment.parse::<usize>().ok()?),
        value => value.get(segment),
    })
}

/// Removes the field at a path from a JSON value. If the path leads through a list, the field is removed from
/// each item of the list; the path cannot contain list indexes.
pub(super) fn remove_path(value: &mut Value, path: &[String]) {
    match (value, path) {
        (Value::Array(items), path) => items.iter_mut().for_each(|item| remove_path(item, path)),
        (Value::Object(fields), [last]) => drop(fields.remove(last)),
        (Value::Object(fields), [first, rest @ ..]) => {
            if let Some(inner) = fields.get_mut(first) {
                remove_path(inner, rest);
            }
        }
        _ => {}
    }
}

/// Compares two JSON values recursively, and calls `found` with the path and both values of each field that
/// differs. Lists are compared as a whole. A field that only one of the values has is null in the other.
pub(super) fn differing_fields(
    path: &str,
    a: &Value,
    b: &Value,
    found: &mut dyn FnMut(&str, &Value, &Value),
) {
    match (a, b) {
        _ if a == b => {}
        (Value::Object(fields), Value::Object(others)) => {
            let names: BTreeSet<&String> = fields.keys().chain(others.keys()).collect();
            for name in names {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                let [a, b] = [fields, others].map(|fields| fields.get(name).unwrap_or(&Value::Null));
                differing_fields(&path, a, b, found);
            }
        }
        _ => found(path, a, b),
    }
}

/// Returns true if a string is a time such as `2026-01-01T00:00:00Z`, with or without fractions of a second.
/// Comparisons of objects ignore such values, because each run of a test has other times.
pub(super) fn is_time(text: &str) -> bool {
    let pattern = b"dddd-dd-ddTdd:dd:dd";
    let bytes = text.as_bytes();
    let matches = |(pattern, byte): (&u8, &u8)| match pattern {
        b'd' => byte.is_ascii_digit(),
        pattern => pattern == byte,
    };
    bytes.len() > pattern.len() && bytes.len() <= 40 && pattern.iter().zip(bytes).all(matches)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{get_path, path_segments};

    #[test]
    fn path_segments_may_be_in_brackets_and_quotes_or_list_indexes() {
        let segments = ["metadata", "annotations", "example.com/checked"];
        for path in
            ["metadata.annotations[example.com/checked]", "metadata.annotations['example.com/checked']"]
        {
            assert_eq!(path_segments(path), segments);
        }
        assert_eq!(path_segments("metadata.labels[app"), ["metadata", "labels", "app"]);
        let object = json!({"spec": {"containers": [{"image": "web:1"}]}});
        assert_eq!(get_path(&object, &path_segments("spec.containers[0].image")), Some(&json!("web:1")));
        assert_eq!(get_path(&object, &path_segments("spec.containers[1].image")), None);
        assert_eq!(get_path(&object, &path_segments("spec.replicas.max")), None);
    }
}

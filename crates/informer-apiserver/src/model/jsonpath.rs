//! The JSON paths of CRDs. They support members, indexes, `[*]`, and filters with one comparison.

use serde_json::Value;

/// Maximum number of values at each step of a JSON path, as a limit for `[*]` in hostile objects.
const MAX_VALUES: usize = 1000;

/// Returns the first value that a path matches, for example `.spec.replicas` or
/// `.status.conditions[?(@.type=="Ready")].status`.
pub(crate) fn first<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    let mut found = vec![object];
    let mut rest = path.trim().trim_start_matches('{').trim_end_matches('}').trim_start_matches('$');
    while !rest.is_empty() {
        if let Some(inside) = rest.strip_prefix('[') {
            let end = closing(inside)?;
            found = step(&found, &inside[..end]);
            rest = &inside[end + 1..];
            continue;
        }
        rest = rest.strip_prefix('.').unwrap_or(rest);
        let (name, length) = member(rest);
        if length == 0 {
            return None;
        }
        found = found.into_iter().filter_map(|value| value.get(name.as_str())).collect();
        rest = &rest[length..];
    }
    found.into_iter().next()
}

/// Parses a member name up to the next step of a JSON path. Dots may be escaped, as in
/// `annotations.example\.com/name`.
fn member(text: &str) -> (String, usize) {
    let (mut name, mut escaped) = (String::new(), false);
    for (at, char) in text.char_indices() {
        match char {
            '\\' if !escaped => escaped = true,
            '.' | '[' if !escaped => return (name, at),
            char => {
                name.push(char);
                escaped = false;
            }
        }
    }
    (name, text.len())
}

/// Returns the position of the closing bracket in a JSON path. Ignores quoted and nested brackets.
fn closing(text: &str) -> Option<usize> {
    let (mut depth, mut quote) = (0_u32, None);
    for (at, char) in text.char_indices() {
        match (char, quote) {
            (char, Some(open)) if char == open => quote = None,
            (_, Some(_)) => {}
            ('"' | '\'', None) => quote = Some(char),
            ('[', None) => depth += 1,
            (']', None) if depth == 0 => return Some(at),
            (']', None) => depth -= 1,
            _ => {}
        }
    }
    None
}

fn step<'a>(found: &[&'a Value], inside: &str) -> Vec<&'a Value> {
    let inside = inside.trim();
    let children = |value: &'a Value| -> Vec<&'a Value> {
        match value {
            Value::Array(items) => items.iter().collect(),
            Value::Object(members) => members.values().collect(),
            _ => Vec::new(),
        }
    };
    let all = || found.iter().flat_map(|value| children(value)).take(MAX_VALUES);
    if inside == "*" {
        return all().collect();
    }
    if let Some(filter) = inside.strip_prefix("?(").and_then(|rest| rest.strip_suffix(')')) {
        return all().filter(|value| matches_filter(value, filter)).collect();
    }
    if let Ok(index) = inside.parse::<i64>() {
        return found.iter().filter_map(|value| at(value, index)).collect();
    }
    let name = inside.trim_matches(['"', '\'']);
    found.iter().filter_map(|value| value.get(name)).collect()
}

fn at(value: &Value, index: i64) -> Option<&Value> {
    let items = value.as_array()?;
    let index = if index < 0 { i64::try_from(items.len()).ok()? + index } else { index };
    items.get(usize::try_from(index).ok()?)
}

/// Evaluates the comparison in a JSON path filter, for example `@.type=="Ready"`.
fn matches_filter(value: &Value, filter: &str) -> bool {
    let (left, right, equal) = match (filter.split_once("=="), filter.split_once("!=")) {
        (Some((left, right)), _) => (left, right, true),
        (None, Some((left, right))) => (left, right, false),
        (None, None) => return first(value, filter.trim().trim_start_matches('@')).is_some(),
    };
    let Some(found) = first(value, left.trim().trim_start_matches('@')) else { return false };
    let right = right.trim();
    let wanted = match right.strip_prefix(['"', '\'']) {
        Some(text) => Value::from(text.trim_end_matches(['"', '\''])),
        None => serde_json::from_str(right).unwrap_or_default(),
    };
    (*found == wanted) == equal
}

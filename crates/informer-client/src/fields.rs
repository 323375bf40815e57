//! Reads single fields of an object from its JSON text or from a `serde_json::Value`.

use std::borrow::Cow;

use informer_core::{FieldPath, Labels};
use serde_json::Value;

use crate::scan::{Cursor, ScanError};

/// Returns the number, string or boolean at a path of a JSON object as a string. Returns `None` if the value
/// is absent, null, an object, an array or invalid. If a key is duplicated, the last one wins.
pub(crate) fn scalar<'a, 'p>(text: &'a str, path: impl IntoIterator<Item = &'p str>) -> Option<Cow<'a, str>> {
    let mut cursor = Cursor::new(text);
    for name in path {
        let range = member(&mut cursor, name).ok()??;
        cursor = Cursor::over(text, &range);
    }
    match cursor.peek()? {
        b'"' => cursor.string().ok()?.decode().ok(),
        b'{' | b'[' | b'n' => None,
        _ => cursor.skip().ok().map(|range| Cow::Borrowed(cursor.slice(&range))),
    }
}

/// Like [`scalar`], but begins at a cursor at the beginning of the object, which skips recorded containers.
///
/// # Errors
///
/// Returns an error if the text is not JSON as far as it was read.
pub(crate) fn scalar_at<'a>(
    mut cursor: Cursor<'a>,
    path: &FieldPath,
) -> Result<Option<Cow<'a, str>>, ScanError> {
    let Some(range) = find(&mut cursor, path, 0)? else { return Ok(None) };
    let mut value = Cursor::new(cursor.slice(&range));
    match value.peek() {
        Some(b'"') => {
            let text = value.string()?.decode();
            text.map(Some).map_err(|_| ScanError { at: range.start, expected: "a valid string" })
        }
        None | Some(b'{' | b'[' | b'n') => Ok(None),
        Some(_) => Ok(Some(Cow::Borrowed(cursor.slice(&range)))),
    }
}

/// Moves the cursor past a value. Returns the byte range of the value at `path` in it, without the first
/// `depth` segments. The recursion depth is at most the length of the path.
fn find(
    cursor: &mut Cursor<'_>,
    path: &FieldPath,
    depth: usize,
) -> Result<Option<std::ops::Range<usize>>, ScanError> {
    let Some(name) = path.segments().nth(depth) else { return cursor.skip().map(Some) };
    if cursor.peek() != Some(b'{') {
        cursor.skip()?;
        return Ok(None);
    }
    cursor.object()?;
    let (mut first, mut found) = (true, None);
    while let Some(key) = cursor.member(&mut first)? {
        if key.is(name) {
            found = find(cursor, path, depth + 1)?;
        } else {
            cursor.skip()?;
        }
    }
    Ok(found)
}

/// Returns the number, string or boolean at a path of a `Value` as a string.
pub(crate) fn of_value<'a, 'p>(
    mut value: &'a Value,
    path: impl IntoIterator<Item = &'p str>,
) -> Option<Cow<'a, str>> {
    for name in path {
        value = value.as_object()?.get(name)?;
    }
    match value {
        Value::String(text) => Some(Cow::Borrowed(text)),
        Value::Bool(_) | Value::Number(_) => Some(Cow::Owned(value.to_string())),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

pub(crate) fn annotations(value: &Value) -> Labels {
    let found = value.get("metadata").and_then(|metadata| metadata.get("annotations"));
    let pairs = found.and_then(Value::as_object).into_iter().flatten();
    pairs.filter_map(|(name, value)| Some((name, value.as_str()?))).collect()
}

/// Returns the byte range of the value of an object member. If the name is duplicated, the last member wins.
fn member(cursor: &mut Cursor<'_>, name: &str) -> Result<Option<std::ops::Range<usize>>, ScanError> {
    if cursor.peek() != Some(b'{') {
        return Ok(None);
    }
    cursor.object()?;
    let (mut first, mut found) = (true, None);
    while let Some(key) = cursor.member(&mut first)? {
        let value = cursor.skip()?;
        if key.is(name) {
            found = Some(value);
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests;

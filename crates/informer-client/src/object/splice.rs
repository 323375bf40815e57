//! Insertion of members into the JSON of an object.

use crate::scan::Cursor;

/// Returns the offset of the members of an object; the end of the text if it is not an object.
pub(super) fn object(text: &str) -> usize {
    let mut cursor = Cursor::new(text);
    if cursor.pass(b'{') { cursor.at() } else { text.len() }
}

/// Returns the offset of the members of its `metadata`.
pub(super) fn metadata(text: &str) -> Option<usize> {
    let (mut cursor, mut first) = (Cursor::new(text), true);
    cursor.object().ok()?;
    while let Some(key) = cursor.member(&mut first).ok()? {
        if key.is("metadata") && cursor.peek() == Some(b'{') {
            cursor.object().ok()?;
            return Some(cursor.at());
        }
        cursor.skip().ok()?;
    }
    None
}

/// Writes members before the `rest` of an object, which begins with its next member or its closing brace.
pub(super) fn push_members(out: &mut String, members: &str, rest: &str) {
    out.push_str(members);
    if !members.is_empty() && !rest.trim_start().starts_with('}') {
        out.push(',');
    }
}

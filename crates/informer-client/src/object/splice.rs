//! Inserts members into the JSON of an object.

use crate::scan::Cursor;

/// Returns the offset at which members can be inserted into the JSON object `text`; the end of the text if it
/// is not an object.
pub(super) fn object(text: &str) -> usize {
    let mut cursor = Cursor::new(text);
    if cursor.pass(b'{') { cursor.at() } else { text.len() }
}

/// Returns the offset at which members can be inserted into the `metadata` of the JSON object `text`; `None`
/// if it has no `metadata` object.
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

/// Appends members to `out`, to be followed by `rest`: the remaining members of the object, or its closing
/// brace. Adds a comma if `rest` contains a member.
pub(super) fn push_members(out: &mut String, members: &str, rest: &str) {
    out.push_str(members);
    if !members.is_empty() && !rest.trim_start().starts_with('}') {
        out.push(',');
    }
}

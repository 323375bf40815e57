//! JSON as Go reads it: bytes that are no text become the sign for them, and errors have its words.

mod go_error;
mod reading;

use serde_json::Value;

use self::go_error::complaint;

pub(crate) use self::reading::{Reading, read};

/// Reads JSON.
///
/// # Errors
///
/// When the text is not JSON, or nests too deep: why.
pub(crate) fn read_json(body: &[u8]) -> Result<Value, String> {
    Ok(read_whole(body)?.value)
}

/// The same, with whether a member is in the text twice.
pub(crate) fn read_whole(body: &[u8]) -> Result<Reading, String> {
    if let Ok(reading) = reading::read(body) {
        return Ok(reading);
    }
    if let Some(why) = complaint(body) {
        return Err(why);
    }
    // What is left are texts that are none, and numbers beyond all numbers.
    reading::read(whole_characters(&text(body)).as_bytes()).map_err(|error| error.to_string())
}

/// Bytes as text: each that is none becomes a sign of its own.
pub(crate) fn text(body: &[u8]) -> String {
    let mut text = String::with_capacity(body.len());
    for chunk in body.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(std::iter::repeat_n(char::REPLACEMENT_CHARACTER, chunk.invalid().len()));
    }
    text
}

/// Well-formed JSON without escapes of half a character: each becomes that of the sign for what is no text.
fn whole_characters(text: &str) -> String {
    let mut whole = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        let (before, escape) = rest.split_at(at);
        let (kept, length) = match (utf16_unit(escape), escape.get(6..).and_then(utf16_unit)) {
            (Some(0xd800..0xdc00), Some(0xdc00..0xe000)) => (&escape[..12], 12),
            (Some(0xd800..0xe000), _) => ("\\ufffd", 6),
            _ => (&escape[..2], 2),
        };
        whole.push_str(before);
        whole.push_str(kept);
        rest = &escape[length..];
    }
    whole + rest
}

/// The number of an escape such as `\ud83d` at the beginning of a text.
fn utf16_unit(text: &str) -> Option<u16> {
    u16::from_str_radix(text.strip_prefix("\\u")?.get(..4)?, 16).ok()
}

#[cfg(test)]
mod tests;

/// Parses an object that this server has written.
pub(crate) fn parse(bytes: &[u8]) -> Value {
    read(bytes).expect("stored objects are JSON that this server wrote").value
}

/// How an error tells the client its own body: the first bytes, as text where it looks like JSON.
pub(crate) fn excerpt(body: &[u8]) -> String {
    const MAX_EXCERPT: usize = 30;
    let more = if body.len() > MAX_EXCERPT { " ..." } else { "" };
    let head = &body[..body.len().min(MAX_EXCERPT)];
    match head.first() {
        None => "<empty>".to_owned(),
        Some(b'{') => format!("{}{more}", String::from_utf8_lossy(head)),
        Some(_) => head.iter().map(|byte| format!("{byte:02x}")).collect::<String>() + more,
    }
}

//! Decodes JSON like Go's encoding/json: invalid UTF-8 becomes U+FFFD, and errors have Go's messages.

mod go_error;
mod reading;

use serde_json::{Map, Value};

use self::go_error::syntax_error;

pub(crate) use self::reading::{Reading, read};

pub(crate) type Object = Map<String, Value>;

/// Decodes JSON.
///
/// # Errors
///
/// Returns Go's message if the body is not valid JSON or is nested too deeply.
pub(crate) fn read_json(body: &[u8]) -> Result<Value, String> {
    Ok(read_whole(body)?.value)
}

/// Decodes JSON like [`read_json`]. Also returns whether it has duplicate keys.
pub(crate) fn read_whole(body: &[u8]) -> Result<Reading, String> {
    if let Ok(reading) = reading::read(body) {
        return Ok(reading);
    }
    if let Some(why) = syntax_error(body) {
        return Err(why);
    }
    // The body is well-formed JSON, so the remaining errors are invalid strings and numbers out of range.
    reading::read(replace_unpaired_surrogates(&text(body)).as_bytes()).map_err(|error| error.to_string())
}

/// Decodes UTF-8 and replaces each invalid byte by U+FFFD.
pub(crate) fn text(body: &[u8]) -> String {
    let mut text = String::with_capacity(body.len());
    for chunk in body.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(std::iter::repeat_n(char::REPLACEMENT_CHARACTER, chunk.invalid().len()));
    }
    text
}

/// Replaces escapes of unpaired surrogates in well-formed JSON by the escape of U+FFFD.
fn replace_unpaired_surrogates(text: &str) -> String {
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

/// Returns the UTF-16 code unit of an escape such as `\ud83d` at the start of a string.
fn utf16_unit(text: &str) -> Option<u16> {
    u16::from_str_radix(text.strip_prefix("\\u")?.get(..4)?, 16).ok()
}

pub(crate) fn json_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

#[cfg(test)]
mod tests;

/// Parses the JSON of an object that this server has encoded.
pub(crate) fn parse(bytes: &[u8]) -> Value {
    read(bytes).expect("stored objects are JSON that this server wrote").value
}

/// Formats the start of a request body for an error message: as text if it looks like JSON, otherwise as hex.
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

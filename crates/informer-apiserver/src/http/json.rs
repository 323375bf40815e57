//! JSON as Go reads it: bytes that are no text become the sign for them, and errors have its words.

mod complaint;

use serde_json::Value;

use self::complaint::complaint;

/// Reads JSON.
///
/// # Errors
///
/// When the text is no JSON, or nests too deep: why.
pub(crate) fn read_json(body: &[u8]) -> Result<Value, String> {
    if let Ok(value) = serde_json::from_slice(body) {
        return Ok(value);
    }
    if let Some(why) = complaint(body) {
        return Err(why);
    }
    // What is left are texts that are none, and numbers beyond all numbers.
    serde_json::from_str(&text(body)).map_err(|error| error.to_string())
}

/// Bytes as text: each that is none becomes a sign of its own.
fn text(body: &[u8]) -> String {
    let mut text = String::with_capacity(body.len());
    for chunk in body.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(std::iter::repeat_n(char::REPLACEMENT_CHARACTER, chunk.invalid().len()));
    }
    text
}

#[cfg(test)]
mod tests;

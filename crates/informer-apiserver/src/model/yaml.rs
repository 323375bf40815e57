//! YAML as Go reads it, as far as messages tell.

mod counted;
mod duplicates;

use serde_json::Value;

pub(crate) use counted::read as read_yaml_value;

/// What a strict reader finds wrong with a text that is YAML: members that are there twice.
pub(crate) use duplicates::find as yaml_twice;

/// What is said of a text that nests deeper than the reader goes; upstream goes deeper.
const TOO_DEEP: &str = "exceeded max depth of 128";

/// Reads YAML. Beside the value comes what is wrong with it to a strict reader: members that are there twice, of which the
/// last one counts.
///
/// # Errors
///
/// When the text is no YAML: why.
pub(crate) fn read_yaml(text: &[u8]) -> Result<(Value, Option<String>), String> {
    let value = counted::read(text).map_err(|error| converting(&problem(text, &error)))?;
    // What its aliases make of it is bounded by now.
    Ok((value, duplicates::find(text).map(|why| converting(&why))))
}

fn converting(why: &str) -> String {
    format!("error converting YAML to JSON: yaml: {why}")
}

/// The problem, after its line.
pub(crate) fn problem(yaml: &[u8], error: &serde_norway::Error) -> String {
    let text = error.to_string();
    // The reader has a limit of its own for aliases of aliases.
    if text.contains(counted::EXCESSIVE) || text.contains("repetition limit exceeded") {
        return counted::EXCESSIVE.to_owned();
    }
    let why = text.split(" at line ").next().unwrap_or_default();
    if why.ends_with("unknown anchor") {
        return format!("unknown anchor '{}' referenced", alias(yaml, error).unwrap_or_default());
    }
    // Bytes that are no text have no line.
    if let Some((why, _)) = why.split_once(" at position ") {
        return why.to_owned();
    }
    let why = if why.ends_with("recursion limit exceeded") { TOO_DEEP } else { why };
    // Go's parser counts lines from zero, its scanner from one, and of the first line neither says anything.
    let scanner = usize::from(!why.starts_with("did not find expected"));
    match error.location().map(|location| location.line().saturating_sub(1)) {
        Some(line) if line > 0 => format!("line {}: {why}", line + scanner),
        _ => why.to_owned(),
    }
}

/// The alias where an error is.
fn alias(yaml: &[u8], error: &serde_norway::Error) -> Option<String> {
    let at = error.location()?;
    let line = std::str::from_utf8(yaml).ok()?.lines().nth(at.line().checked_sub(1)?)?;
    let rest: String = line.chars().skip(at.column().saturating_sub(1)).collect();
    let name = rest.trim_start().strip_prefix('*')?;
    Some(name.chars().take_while(|next| next.is_ascii_alphanumeric() || matches!(next, '_' | '-')).collect())
}

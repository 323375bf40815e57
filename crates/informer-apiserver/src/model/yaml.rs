//! Decodes YAML. Errors that clients receive have the messages of Go's YAML parser.

mod counted;
mod duplicates;

use serde_json::Value;

pub(crate) use counted::read as read_yaml_value;
pub(crate) use duplicates::find as duplicate_keys;

/// The error for a YAML body that is nested too deeply. kube-apiserver has a higher limit.
const TOO_DEEP: &str = "exceeded max depth of 128";

/// Decodes YAML. Returns the value, which contains the last of several duplicate keys, and the error of a
/// strict decoder for these keys.
///
/// # Errors
///
/// Returns the parser's message if the body is not YAML.
pub(crate) fn read_yaml(text: &[u8]) -> Result<(Value, Option<String>), String> {
    let value = counted::read(text).map_err(|error| converting(&problem(text, &error)))?;
    // The expansion of aliases needs no limit here, because `counted::read` has already applied it.
    Ok((value, duplicates::find(text).map(|why| converting(&why))))
}

fn converting(why: &str) -> String {
    format!("error converting YAML to JSON: yaml: {why}")
}

/// Returns the message for a YAML parse error, with its line.
pub(crate) fn problem(yaml: &[u8], error: &serde_norway::Error) -> String {
    let text = error.to_string();
    // In addition to our limit, the parser has its own limit for nested aliases.
    if text.contains(counted::EXCESSIVE) || text.contains("repetition limit exceeded") {
        return counted::EXCESSIVE.to_owned();
    }
    let why = text.split(" at line ").next().unwrap_or_default();
    if why.ends_with("unknown anchor") {
        return format!("unknown anchor '{}' referenced", alias(yaml, error).unwrap_or_default());
    }
    // The error for invalid UTF-8 has a byte position, which the message does not contain.
    if let Some((why, _)) = why.split_once(" at position ") {
        return why.to_owned();
    }
    let why = if why.ends_with("recursion limit exceeded") { TOO_DEEP } else { why };
    // Go's YAML parser counts lines from zero and its scanner from one. Neither adds the line to an error in
    // the first line.
    let scanner = usize::from(!why.starts_with("did not find expected"));
    match error.location().map(|location| location.line().saturating_sub(1)) {
        Some(line) if line > 0 => format!("line {}: {why}", line + scanner),
        _ => why.to_owned(),
    }
}

/// Returns the name of the alias at which a YAML parse error occurred.
fn alias(yaml: &[u8], error: &serde_norway::Error) -> Option<String> {
    let at = error.location()?;
    let line = std::str::from_utf8(yaml).ok()?.lines().nth(at.line().checked_sub(1)?)?;
    let rest: String = line.chars().skip(at.column().saturating_sub(1)).collect();
    let name = rest.trim_start().strip_prefix('*')?;
    Some(name.chars().take_while(|next| next.is_ascii_alphanumeric() || matches!(next, '_' | '-')).collect())
}

//! JSON values as Go decodes and formats them.

use serde_json::{Number, Value};

/// Numbers of at least this size are formatted with an exponent, as in Go.
const EXPONENT_FROM: f64 = 1e21;
/// Numbers below this one are formatted with an exponent, as in Go.
const EXPONENT_BELOW: f64 = 1e-4;

/// Formats a JSON value as Go formats the decoded value: `map[a:[1 x] b:<nil>]`.
pub(crate) fn go_format(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::Bool(flag) => flag.to_string(),
        Value::Number(number) => go_number(number),
        Value::String(text) => text.clone(),
        Value::Array(items) => format!("[{}]", items.iter().map(go_format).collect::<Vec<_>>().join(" ")),
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            members.sort_unstable_by_key(|(name, _)| *name);
            let members = members.into_iter().map(|(name, value)| format!("{name}:{}", go_format(value)));
            format!("map[{}]", members.collect::<Vec<_>>().join(" "))
        }
    }
}

/// Returns the Go type into which a JSON value is decoded.
pub(crate) fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_i64() => "int64",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// Formats a number as Go formats the decoded number. A number that `int64` cannot hold is decoded to
/// `float64`.
pub(crate) fn go_number(number: &Number) -> String {
    match number.as_f64() {
        Some(float) if !number.is_i64() => go_float(float),
        _ => number.to_string(),
    }
}

/// Formats a `float64` as Go's `%v`.
pub(crate) fn go_float(float: f64) -> String {
    let size = float.abs();
    if size == 0.0 || (EXPONENT_BELOW..EXPONENT_FROM).contains(&size) {
        return float.to_string();
    }
    let text = format!("{float:e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    match exponent.strip_prefix('-') {
        Some(exponent) => format!("{digits}e-{exponent:0>2}"),
        None => format!("{digits}e+{exponent:0>2}"),
    }
}

#[cfg(test)]
mod tests;

//! Formats JSON values like Go's format `%+v`.

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
        Value::Number(number) => format_number(number),
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

fn format_number(number: &Number) -> String {
    match number.as_f64() {
        Some(float) if !number.is_i64() => {
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
        _ => number.to_string(),
    }
}

#[cfg(test)]
mod tests;

//! Ranges of numbers, and multiples.

use serde_json::{Number, Value};

use super::ValidationResult;
use crate::model::go_format::{go_float, go_number};

/// Returns true if Go converts the number to the type and format without an error.
fn is_in_range(number: &Number, kind: &str, format: &str) -> bool {
    match (kind, format) {
        ("integer", format) => {
            let whole = match number.as_i64() {
                Some(whole) => Some(i128::from(whole)),
                None => number
                    .as_f64()
                    .filter(|float| float.fract() == 0.0 && float.abs() < 1e38)
                    // The cast is exact, because the float is whole and within the range of the type.
                    .map(|float| float as i128),
            };
            let range = match format {
                "int32" => i128::from(i32::MIN)..=i128::from(i32::MAX),
                _ => i128::from(i64::MIN)..=i128::from(i64::MAX),
            };
            whole.is_some_and(|whole| range.contains(&whole))
        }
        (_, "float") => number.as_f64().is_some_and(|float| float.abs() <= f64::from(f32::MAX)),
        _ => true,
    }
}

pub(super) fn check(
    schema: &Value,
    kind: &str,
    format: &str,
    number: &Number,
    path: &str,
    outcome: &mut ValidationResult,
) {
    let kind = if matches!(kind, "integer" | "number") { kind } else { "" };
    let format = if kind.is_empty() { "" } else { format };
    let in_range = |number: &Number, what: &str, outcome: &mut ValidationResult| {
        let fits = is_in_range(number, kind, format);
        if !fits && format.is_empty() {
            outcome.pathless(&format!("{what} value must be of type {kind} (default format) in {path}"));
        } else if !fits {
            outcome.pathless(&format!("{what} value must be of type {kind} with format {format} in {path}"));
        }
        fits
    };
    in_range(number, "Checked", outcome);
    let whole = number.as_i64();
    let value = number.as_f64().unwrap_or_default();
    let shown = go_number(number);
    // Go compares a whole number with the whole part of the limit, if the limit has the type of the field.
    let limit = |name: &str, what: &str, outcome: &mut ValidationResult| {
        let limit = schema[name].as_number()?;
        let fits = in_range(limit, what, outcome);
        let float = limit.as_f64()?;
        Some(if fits && whole.is_some() { float.trunc() } else { float })
    };
    if let Some(factor) = limit("multipleOf", "MultipleOf", outcome) {
        let quotient = if factor < 1.0 { 1.0 / factor * value } else { value / factor };
        if factor <= 0.0 {
            let why = format!(
                "Invalid value: {}: factor MultipleOf declared for {path} must be positive: {}",
                go_float(factor),
                go_float(factor)
            );
            outcome.report("FieldValueInvalid", why, path);
        } else if quotient.fract() != 0.0 {
            outcome.invalid(path, &shown, &format!("should be a multiple of {}", go_float(factor)));
        }
    }
    // The errors are reported in this order, but after the ranges of all limits.
    if let Some(min) = limit("minimum", "Minimum boundary", outcome) {
        let exclusive = schema["exclusiveMinimum"] == true;
        if value < min || (exclusive && value <= min) {
            let than = if exclusive { "greater than" } else { "greater than or equal to" };
            outcome.invalid(path, &shown, &format!("should be {than} {}", go_float(min)));
        }
    }
    if let Some(max) = limit("maximum", "Maximum boundary", outcome) {
        let exclusive = schema["exclusiveMaximum"] == true;
        if value > max || (exclusive && value >= max) {
            let than = if exclusive { "less than" } else { "less than or equal to" };
            outcome.invalid(path, &shown, &format!("should be {than} {}", go_float(max)));
        }
    }
}

//! Parses durations as Go does.

use std::fmt;

use thiserror::Error;

use super::{MINUTE, SECOND};

const HOUR: u64 = 60 * MINUTE;
/// The largest magnitude of a duration in nanoseconds. Only the negative duration `i64::MIN` reaches it.
const MAX_NANOS: u64 = 1 << 63;
/// The number of digits of a fraction that are parsed. Further digits contribute less than a nanosecond.
const FRACTION_DIGITS: usize = 18;

/// The error for a string that is not a duration. It has the message of Go, which quotes the string.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum DurationError {
    /// A number is missing in the string, or the duration does not fit into 64 bits.
    #[error("time: invalid duration {}", Quoted(text))]
    Invalid {
        /// The string that was parsed.
        text: String,
    },
    /// A number in the string has no unit.
    #[error("time: missing unit in duration {}", Quoted(text))]
    MissingUnit {
        /// The string that was parsed.
        text: String,
    },
    /// A number in the string has an unknown unit.
    #[error("time: unknown unit {} in duration {}", Quoted(unit), Quoted(text))]
    UnknownUnit {
        /// The unknown unit, such as `d`.
        unit: String,
        /// The string that was parsed.
        text: String,
    },
}

/// Formats a string in quotes as Go's `time` package does: control and non-ASCII bytes are written as `\xNN`.
pub(crate) struct Quoted<'a>(pub(crate) &'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("\"")?;
        for byte in self.0.bytes() {
            match byte {
                b'"' | b'\\' => write!(f, "\\{}", char::from(byte))?,
                b' '..0x80 => write!(f, "{}", char::from(byte))?,
                _ => write!(f, "\\x{byte:02x}")?,
            }
        }
        f.write_str("\"")
    }
}

/// Parses a duration as Go does and returns nanoseconds. A duration consists of numbers with units, such as
/// `1h30m`, `1.5s` or `-5ms`.
///
/// # Errors
///
/// Returns Go's error if the string is not a duration.
pub fn read_duration(text: &str) -> Result<i64, DurationError> {
    read(text).map_err(|wrong| {
        let text = text.to_owned();
        match wrong {
            DurationProblem::Number => DurationError::Invalid { text },
            DurationProblem::Unit("") => DurationError::MissingUnit { text },
            DurationProblem::Unit(unit) => DurationError::UnknownUnit { unit: unit.to_owned(), text },
        }
    })
}

enum DurationProblem<'a> {
    Number,
    Unit(&'a str),
}

fn read(text: &str) -> Result<i64, DurationProblem<'_>> {
    let negative = text.starts_with('-');
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    if rest == "0" {
        return Ok(0);
    }
    let mut total = 0_u64;
    loop {
        let (nanos, after) = component(rest)?;
        total =
            total.checked_add(nanos).filter(|total| *total <= MAX_NANOS).ok_or(DurationProblem::Number)?;
        rest = after;
        if rest.is_empty() {
            break;
        }
    }
    if negative {
        Ok(0_i64.wrapping_sub_unsigned(total))
    } else {
        i64::try_from(total).map_err(|_| DurationProblem::Number)
    }
}

/// Parses one number with its unit, and returns its nanoseconds and the remaining string.
fn component(text: &str) -> Result<(u64, &str), DurationProblem<'_>> {
    let (whole, mut rest) = digits(text);
    let mut fraction = "";
    if let Some(after) = rest.strip_prefix('.') {
        (fraction, rest) = digits(after);
    }
    if whole.is_empty() && fraction.is_empty() {
        return Err(DurationProblem::Number);
    }
    let whole = whole_number(whole).filter(|whole| *whole <= MAX_NANOS).ok_or(DurationProblem::Number)?;
    let (name, rest) =
        rest.split_at(rest.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(rest.len()));
    let unit = unit(name).ok_or(DurationProblem::Unit(name))?;
    let nanos = whole.checked_mul(unit).filter(|nanos| *nanos <= MAX_NANOS).ok_or(DurationProblem::Number)?;
    let nanos = nanos + fraction_nanos(fraction, unit).ok_or(DurationProblem::Number)?;
    if nanos <= MAX_NANOS { Ok((nanos, rest)) } else { Err(DurationProblem::Number) }
}

fn digits(text: &str) -> (&str, &str) {
    text.split_at(text.bytes().take_while(u8::is_ascii_digit).count())
}

/// Parses digits as a number. An empty string is 0, because one side of the decimal point may have no digits.
fn whole_number(digits: &str) -> Option<u64> {
    if digits.is_empty() { Some(0) } else { digits.parse().ok() }
}

/// Returns the nanoseconds of the digits after the decimal point; the result is less than one unit.
fn fraction_nanos(digits: &str, unit: u64) -> Option<u64> {
    let kept = &digits[..digits.len().min(FRACTION_DIGITS)];
    let scale = 10_u128.pow(u32::try_from(kept.len()).ok()?);
    u64::try_from(u128::from(whole_number(kept)?) * u128::from(unit) / scale).ok()
}

fn unit(name: &str) -> Option<u64> {
    Some(match name {
        "ns" => 1,
        "us" | "\u{b5}s" | "\u{3bc}s" => 1_000,
        "ms" => 1_000_000,
        "s" => SECOND,
        "m" => MINUTE,
        "h" => HOUR,
        _ => return None,
    })
}

#[cfg(test)]
mod tests;

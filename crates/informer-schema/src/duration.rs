//! Lengths of time, as Go writes and reads them.

use std::fmt;

use thiserror::Error;

const SECOND: u64 = 1_000_000_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
/// So many nanoseconds are the longest time, and only to the past.
const MAX_NANOS: u64 = 1 << 63;
/// Digits of a fraction that are read; what follows changes nothing that a nanosecond can show.
const FRACTION_DIGITS: usize = 18;

/// Why a text is not a duration, told in Go's words. They have the text itself.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum DurationError {
    /// There is no number where one must be, or more time than 64 bits hold.
    #[error("time: invalid duration {}", Quoted(text))]
    Invalid {
        /// The whole text.
        text: String,
    },
    /// A number without a unit.
    #[error("time: missing unit in duration {}", Quoted(text))]
    MissingUnit {
        /// The whole text.
        text: String,
    },
    /// A unit that is none.
    #[error("time: unknown unit {} in duration {}", Quoted(unit), Quoted(text))]
    UnknownUnit {
        /// The unit.
        unit: String,
        /// The whole text.
        text: String,
    },
}

/// A text in quotes, as Go's package of time has them: bytes that are not ASCII, or no letters, by their numbers.
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

/// Reads a length of time as Go does, in nanoseconds: numbers with units, as `1h30m`, `1.5s` or `-5ms`.
///
/// # Errors
///
/// When the text is not a duration: what is wrong with it, in Go's words.
pub fn read_duration(text: &str) -> Result<i64, DurationError> {
    read(text).map_err(|wrong| {
        let text = text.to_owned();
        match wrong {
            Wrong::Number => DurationError::Invalid { text },
            Wrong::Unit("") => DurationError::MissingUnit { text },
            Wrong::Unit(unit) => DurationError::UnknownUnit { unit: unit.to_owned(), text },
        }
    })
}

/// What is wrong with a part of a length of time.
enum Wrong<'a> {
    Number,
    Unit(&'a str),
}

fn read(text: &str) -> Result<i64, Wrong<'_>> {
    let negative = text.starts_with('-');
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    if rest == "0" {
        return Ok(0);
    }
    let mut total = 0_u64;
    loop {
        let (nanos, after) = part(rest)?;
        total = total.checked_add(nanos).filter(|total| *total <= MAX_NANOS).ok_or(Wrong::Number)?;
        rest = after;
        if rest.is_empty() {
            break;
        }
    }
    match negative {
        true => Ok(0_i64.wrapping_sub_unsigned(total)),
        false => i64::try_from(total).map_err(|_| Wrong::Number),
    }
}

/// One number with its unit, and what follows.
fn part(text: &str) -> Result<(u64, &str), Wrong<'_>> {
    let (whole, mut rest) = digits(text);
    let mut fraction = "";
    if let Some(after) = rest.strip_prefix('.') {
        (fraction, rest) = digits(after);
    }
    if whole.is_empty() && fraction.is_empty() {
        return Err(Wrong::Number);
    }
    let whole = number(whole).filter(|whole| *whole <= MAX_NANOS).ok_or(Wrong::Number)?;
    let (name, rest) =
        rest.split_at(rest.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(rest.len()));
    let unit = unit(name).ok_or(Wrong::Unit(name))?;
    let nanos = whole.checked_mul(unit).filter(|nanos| *nanos <= MAX_NANOS).ok_or(Wrong::Number)?;
    let nanos = nanos + of_fraction(fraction, unit).ok_or(Wrong::Number)?;
    if nanos <= MAX_NANOS { Ok((nanos, rest)) } else { Err(Wrong::Number) }
}

fn digits(text: &str) -> (&str, &str) {
    text.split_at(text.bytes().take_while(u8::is_ascii_digit).count())
}

/// The number that digits are; none are nothing.
fn number(digits: &str) -> Option<u64> {
    if digits.is_empty() { Some(0) } else { digits.parse().ok() }
}

/// What the digits behind a point are worth, less than one unit.
fn of_fraction(digits: &str, unit: u64) -> Option<u64> {
    let kept = &digits[..digits.len().min(FRACTION_DIGITS)];
    let scale = 10_u128.pow(u32::try_from(kept.len()).ok()?);
    u64::try_from(u128::from(number(kept)?) * u128::from(unit) / scale).ok()
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

/// Writes a length of time: `1h0m0.5s`, `1.5ms`, `0s`.
pub(crate) fn write(out: &mut Vec<u8>, nanos: i64) {
    use std::io::Write;
    let size = nanos.unsigned_abs();
    if nanos < 0 {
        out.push(b'-');
    }
    let done = match size {
        0 => write!(out, "0s"),
        1..1_000 => write!(out, "{size}ns"),
        1_000..1_000_000 => write!(out, "{}\u{b5}s", decimal(size, 1_000)),
        1_000_000..1_000_000_000 => write!(out, "{}ms", decimal(size, 1_000_000)),
        _ => {
            let (minutes, rest) = (size / (MINUTE), size % (MINUTE));
            let seconds = decimal(rest, SECOND);
            match minutes {
                0 => write!(out, "{seconds}s"),
                1..60 => write!(out, "{minutes}m{seconds}s"),
                _ => write!(out, "{}h{}m{seconds}s", minutes / 60, minutes % 60),
            }
        }
    };
    done.expect("a Vec takes everything");
}

fn decimal(value: u64, unit: u64) -> String {
    let (whole, rest) = (value / unit, value % unit);
    if rest == 0 {
        return whole.to_string();
    }
    let width = unit.ilog10() as usize;
    let digits = format!("{rest:0width$}");
    format!("{whole}.{}", digits.trim_end_matches('0'))
}

#[cfg(test)]
mod tests;

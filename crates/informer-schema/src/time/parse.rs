//! Parses timestamps as Go does.

mod layout;

use super::{DAY, ZERO, write};
use crate::error::Problem;

pub use self::layout::TimeError;

const INSTANT: Problem = Problem::Value { expected: "a timestamp in RFC 3339 format" };

/// Parses a timestamp; returns seconds since 1970-01-01T00:00:00Z and nanoseconds. If `micro` is true,
/// exactly six fractional digits are required, as for `MicroTime`.
pub(crate) fn read(text: &str, micro: bool) -> Result<(i64, i64), Problem> {
    strict(text, micro).or_else(|| layout::read(text, micro).ok()).ok_or(INSTANT)
}

/// Returns a timestamp in the form of Go's `Time`: in UTC and whole seconds. Returns `None` for Go's zero
/// time, which JSON represents as `null`.
///
/// # Errors
///
/// Returns Go's error if the string is not a timestamp.
pub fn canonical_time(text: &str) -> Result<Option<String>, TimeError> {
    canonical(text, false)
}

/// Like [`canonical_time`], but for a `MicroTime`, which has exactly six fractional digits.
///
/// # Errors
///
/// Returns Go's error if the string is not a timestamp.
pub fn canonical_micro_time(text: &str) -> Result<Option<String>, TimeError> {
    canonical(text, true)
}

fn canonical(text: &str, micro: bool) -> Result<Option<String>, TimeError> {
    let (seconds, nanos) = match strict(text, micro) {
        Some(read) => read,
        None => layout::read(text, micro).map_err(|problem| problem.into_error(text, micro))?,
    };
    let micros = micro.then_some(nanos / 1_000);
    if seconds == ZERO && micros.unwrap_or(0) == 0 {
        return Ok(None);
    }
    let mut out = Vec::with_capacity(text.len());
    write(&mut out, seconds, micros);
    Ok(Some(String::from_utf8(out).expect("timestamps are ASCII")))
}

/// Parses the RFC 3339 notation, which nearly all timestamps have.
fn strict(text: &str, micro: bool) -> Option<(i64, i64)> {
    let bytes = text.as_bytes();
    let head = bytes.get(..19)?;
    let digits = |from: usize, to: usize| number(&head[from..to]);
    let (year, month, date) = (digits(0, 4)?, digits(5, 7)?, digits(8, 10)?);
    let (hour, minute, second) = (digits(11, 13)?, digits(14, 16)?, digits(17, 19)?);
    let marks = [head[4], head[7], head[10], head[13], head[16]];
    let within = (1..=12).contains(&month) && (1..=days(year, month)).contains(&date);
    if marks != *b"--T::" || !within || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let (nanos, length) = fraction(&bytes[19..])?;
    if micro && length != 7 {
        return None;
    }
    let offset = offset(&bytes[19 + length..])?;
    Some((day_of(year, month, date) * DAY + hour * 3600 + minute * 60 + second - offset, nanos))
}

fn days(year: i64, month: i64) -> i64 {
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    match month {
        2 => 28 + i64::from(leap),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

fn number(digits: &[u8]) -> Option<i64> {
    let mut value = 0_i64;
    for digit in digits {
        value =
            value.checked_mul(10)?.checked_add(i64::from(digit.is_ascii_digit().then(|| digit - b'0')?))?;
    }
    Some(value)
}

/// Parses a fraction of a second such as `.123`. Returns nanoseconds and the number of parsed bytes.
fn fraction(rest: &[u8]) -> Option<(i64, usize)> {
    if !matches!(rest.first(), Some(b'.' | b',')) {
        return Some((0, 0));
    }
    let count = rest[1..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let kept = number(&rest[1..=count.min(9)])?;
    let scale = 10_i64.pow(9 - u32::try_from(count.min(9)).ok()?);
    (count > 0).then_some((kept * scale, count + 1))
}

fn offset(zone: &[u8]) -> Option<i64> {
    let &[sign @ (b'+' | b'-'), h, i, b':', m, n] = zone else {
        return (zone == b"Z").then_some(0);
    };
    let (hours, minutes) = (number(&[h, i])?, number(&[m, n])?);
    let seconds = hours * 3600 + minutes * 60;
    (hours < 24 && minutes < 60).then_some(if sign == b'-' { -seconds } else { seconds })
}

fn day_of(year: i64, month: i64, date: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * (if month > 2 { month - 3 } else { month + 9 }) + 2) / 5 + date - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

#[cfg(test)]
mod tests;

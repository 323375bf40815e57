//! How long a request may take.

use std::time::Duration;

use super::query::Query;
use crate::error::ApiError;
use crate::requests::Verb;

/// How long a request that is no watch may take, as upstream (`--request-timeout`).
const REQUEST_TIME_MAX: Duration = Duration::from_secs(60);
/// How long a write may take, as upstream.
const WRITE_TIME_MAX: Duration = Duration::from_secs(34);
/// Nobody answers within so short a time.
pub(super) const AT_ONCE: Duration = Duration::from_micros(1);

/// The time that a request may take, which the client may shorten by a duration, as `32s` or `1m30s`. No time and less mean nothing.
pub(super) fn time_limit(query: &Query, verb: Verb) -> Result<Duration, ApiError> {
    let longest = match verb {
        Verb::Create | Verb::Update | Verb::Patch | Verb::Delete | Verb::DeleteCollection => WRITE_TIME_MAX,
        Verb::Get | Verb::List | Verb::Watch | Verb::Other => REQUEST_TIME_MAX,
    };
    let text = query.text("timeout");
    if text.is_empty() {
        return Ok(longest);
    }
    let asked = duration(text).map_err(|why| {
        ApiError::bad_request(format!("invalid timeout specified in the request URL - time: {why}"))
    })?;
    Ok(if asked.is_zero() { longest } else { asked.min(longest) })
}

/// Reads a duration, and says what is wrong with it in Go's words. Negative ones are none.
fn duration(text: &str) -> Result<Duration, String> {
    let invalid = || format!("invalid duration {text:?}");
    let negative = text.starts_with('-');
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    if rest == "0" {
        return Ok(Duration::ZERO);
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    let mut nanoseconds = 0_u128;
    while !rest.is_empty() {
        let number = rest.find(|byte: char| !byte.is_ascii_digit() && byte != '.').unwrap_or(rest.len());
        let (digits, unit) = rest.split_at(number);
        if !digits.bytes().any(|byte| byte.is_ascii_digit()) || digits.matches('.').count() > 1 {
            return Err(invalid());
        }
        let end = unit.find(|byte: char| byte.is_ascii_digit() || byte == '.').unwrap_or(unit.len());
        let (unit, more) = unit.split_at(end);
        let one = match unit {
            "" => return Err(format!("missing unit in duration {text:?}")),
            "ns" => 1,
            "us" | "\u{b5}s" | "\u{3bc}s" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            unit => return Err(format!("unknown unit {unit:?} in duration {text:?}")),
        };
        nanoseconds += amount(digits, one).ok_or_else(invalid)?;
        rest = more;
    }
    match u64::try_from(nanoseconds).ok().filter(|all| i64::try_from(*all).is_ok()) {
        Some(_) if negative => Ok(Duration::ZERO),
        Some(all) => Ok(Duration::from_nanos(all)),
        None => Err(invalid()),
    }
}

/// So many units of `one`; `None` where it is more than anybody counts. Of the fraction, digits beyond a nanosecond's make no difference.
fn amount(digits: &str, one: u128) -> Option<u128> {
    const FRACTION_DIGITS: usize = 15;
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let mut part = 0;
    let mut unit = one * 10_u128.pow(15);
    for digit in fraction.bytes().take(FRACTION_DIGITS) {
        unit /= 10;
        part += u128::from(digit - b'0') * unit;
    }
    Some(u128::from(whole) * one + part / 10_u128.pow(15))
}

#[cfg(test)]
mod tests;

//! Parses durations on the command line.

use std::time::Duration;

use informer::cache::MIN_RESYNC_PERIOD;

/// Parses a duration such as `500ms`, `30s`, `10m`, `1h30m` or `1.5s`.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let unclear = || format!("{text:?} is not a duration; write it as 500ms, 30s, 10m or 1h30m");
    let (mut rest, mut sum) = (text, 0.0);
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(unclear)?;
        let (number, after) = rest.split_at(digits);
        let end = after.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(after.len());
        let (unit, next) = after.split_at(end);
        let seconds = match unit {
            "ms" => 0.001,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            _ => return Err(unclear()),
        };
        sum += number.parse::<f64>().map_err(|_| unclear())? * seconds;
        rest = next;
    }
    let period = Duration::try_from_secs_f64(sum).map_err(|_| unclear())?;
    // The sum of no parts is zero, so this condition also rejects an empty string.
    if period.is_zero() {
        Err(format!("{text:?} is not a duration above zero; write for example 30s"))
    } else {
        Ok(period)
    }
}

/// Parses a resync period. Rejects a period below the minimum, because the informer would silently use the
/// minimum instead.
pub(crate) fn parse_resync(text: &str) -> Result<Duration, String> {
    let period = parse(text)?;
    if period < MIN_RESYNC_PERIOD {
        Err(format!("{text:?} is too short; write a period of at least {MIN_RESYNC_PERIOD:?}, such as 10m"))
    } else {
        Ok(period)
    }
}

#[cfg(test)]
mod tests;

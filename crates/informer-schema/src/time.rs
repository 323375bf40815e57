//! Instants and lengths of time, as Go writes and reads them.

use crate::error::Problem;

/// 0001-01-01T00:00:00Z: Go's zero instant, which is "none" in both encodings.
pub(crate) const ZERO: i64 = -62_135_596_800;

const DAY: i64 = 86_400;
const NANOS: i64 = 1_000_000_000;

const INSTANT: Problem = Problem::Value { expected: "an instant as RFC 3339 writes it" };
const DURATION: Problem = Problem::Value { expected: "a length of time such as 1h30m" };

/// Writes an instant; with six digits of a second where `micros` is given.
pub(crate) fn write(out: &mut Vec<u8>, seconds: i64, micros: Option<i64>) {
    let (day, rest) = (seconds.div_euclid(DAY), seconds.rem_euclid(DAY));
    let (year, month, date) = civil(day);
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    if year < 0 {
        out.push(b'-');
    }
    padded::<4>(out, year.unsigned_abs());
    for (mark, part) in [(b'-', month), (b'-', date), (b'T', hour), (b':', minute), (b':', second)] {
        out.push(mark);
        padded::<2>(out, part.unsigned_abs());
    }
    if let Some(micros) = micros {
        out.push(b'.');
        padded::<6>(out, micros.unsigned_abs());
    }
    out.push(b'Z');
}

/// Writes a number with at least so many digits. Every object has a dozen instants, and the machinery of formats takes longer
/// than the rest of them.
fn padded<const DIGITS: usize>(out: &mut Vec<u8>, number: u64) {
    let mut digits = [b'0'; DIGITS];
    let mut rest = number;
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    match rest {
        0 => out.extend_from_slice(&digits),
        _ => out.extend_from_slice(number.to_string().as_bytes()),
    }
}

/// The date of a day since 1970 in the Gregorian calendar, which is thought back and on for ever.
fn civil(day: i64) -> (i64, i64, i64) {
    // Years here begin in March, so that the day that comes and goes is the last one; an era is 400 years.
    let day = day + 719_468;
    let (era, of_era) = (day.div_euclid(146_097), day.rem_euclid(146_097));
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let date = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year + era * 400 + i64::from(month <= 2), month, date)
}

fn day_of(year: i64, month: i64, date: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * (if month > 2 { month - 3 } else { month + 9 }) + 2) / 5 + date - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// Reads an instant as seconds and nanoseconds. `micro` demands exactly six digits of a second, as `MicroTime` does.
pub(crate) fn read(text: &str, micro: bool) -> Result<(i64, i64), Problem> {
    let bytes = text.as_bytes();
    let head = bytes.get(..19).ok_or(INSTANT)?;
    let digits = |from: usize, to: usize| number(&head[from..to]).ok_or(INSTANT);
    let (year, month, date) = (digits(0, 4)?, digits(5, 7)?, digits(8, 10)?);
    let (hour, minute, second) = (digits(11, 13)?, digits(14, 16)?, digits(17, 19)?);
    let marks = [head[4], head[7], head[10], head[13], head[16]];
    let within = (1..=12).contains(&month) && (1..=days(year, month)).contains(&date);
    if marks != *b"--T::" || !within || hour > 23 || minute > 59 || second > 59 {
        return Err(INSTANT);
    }
    let (nanos, length) = fraction(&bytes[19..]).ok_or(INSTANT)?;
    if micro && length != 7 {
        return Err(INSTANT);
    }
    let offset = offset(&bytes[19 + length..]).ok_or(INSTANT)?;
    Ok((day_of(year, month, date) * DAY + hour * 3600 + minute * 60 + second - offset, nanos))
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

/// Nanoseconds of `.123`, and how many bytes that is.
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

/// Writes a length of time: `1h0m0.5s`, `1.5ms`, `0s`.
pub(crate) fn write_duration(out: &mut Vec<u8>, nanos: i64) {
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
            let (minutes, rest) = (size / (60 * NANOS.unsigned_abs()), size % (60 * NANOS.unsigned_abs()));
            let seconds = decimal(rest, NANOS.unsigned_abs());
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

/// Reads a length of time as Go does: signed numbers, each with a unit.
pub(crate) fn read_duration(text: &str) -> Result<i64, Problem> {
    let (negative, mut rest) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    if rest == "0" {
        return Ok(0);
    }
    let mut total = 0_u64;
    loop {
        let (nanos, after) = part(rest).ok_or(DURATION)?;
        total = total.checked_add(nanos).filter(|total| *total <= 1 << 63).ok_or(DURATION)?;
        rest = after;
        if rest.is_empty() {
            break;
        }
    }
    match (negative, i64::try_from(total)) {
        (true, _) => Ok(0_i64.wrapping_sub_unsigned(total)),
        (false, Ok(total)) => Ok(total),
        (false, Err(_)) => Err(DURATION),
    }
}

/// One number with its unit.
fn part(text: &str) -> Option<(u64, &str)> {
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let whole_end = digits(text);
    let (whole, mut rest) = text.split_at(whole_end);
    let mut fraction = "";
    if let Some(after) = rest.strip_prefix('.') {
        (fraction, rest) = after.split_at(digits(after));
    }
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let unit_end = rest.bytes().take_while(|byte| *byte != b'.' && !byte.is_ascii_digit()).count();
    let (name, rest) = (rest.get(..unit_end)?, rest.get(unit_end..)?);
    let unit = unit(name)?;
    let whole = if whole.is_empty() { 0 } else { whole.parse::<u64>().ok()? };
    let mut nanos = whole.checked_mul(unit).filter(|nanos| *nanos <= 1 << 63)?;
    // Digits beyond what 63 bits hold change nothing that a nanosecond can show.
    let kept = &fraction[..fraction.len().min(18)];
    if !kept.is_empty() {
        let scale = 10_u128.pow(u32::try_from(kept.len()).ok()?);
        nanos += u64::try_from(kept.parse::<u128>().ok()? * u128::from(unit) / scale).ok()?;
    }
    (nanos <= 1 << 63).then_some((nanos, rest))
}

fn unit(name: &str) -> Option<u64> {
    Some(match name {
        "ns" => 1,
        "us" | "\u{b5}s" | "\u{3bc}s" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    })
}

#[cfg(test)]
mod tests;

//! Formats timestamps as Go does, and parses them for a server.

#[cfg(feature = "server")]
pub(crate) mod parse;

/// Go's zero time, 0001-01-01T00:00:00Z, in seconds since 1970. JSON and protobuf both treat this time as
/// absent.
pub(crate) const ZERO: i64 = -62_135_596_800;

const DAY: i64 = 86_400;

/// Writes a timestamp, with six fractional digits if `micros` is given.
pub(crate) fn write(out: &mut Vec<u8>, seconds: i64, micros: Option<i64>) {
    let (day, rest) = (seconds.div_euclid(DAY), seconds.rem_euclid(DAY));
    let CivilDate { year, month, day } = CivilDate::of_day(day);
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    if year < 0 {
        out.push(b'-');
    }
    padded::<4>(out, year.unsigned_abs());
    for (mark, part) in [(b'-', month), (b'-', day), (b'T', hour), (b':', minute), (b':', second)] {
        out.push(mark);
        padded::<2>(out, part.unsigned_abs());
    }
    if let Some(micros) = micros {
        out.push(b'.');
        padded::<6>(out, micros.unsigned_abs());
    }
    out.push(b'Z');
}

/// Writes a number with at least `DIGITS` digits. `format!` would be slower, and every object has about a
/// dozen timestamps.
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

/// A date in the proleptic Gregorian calendar.
struct CivilDate {
    year: i64,
    /// From 1 to 12.
    month: i64,
    /// From 1 to 31.
    day: i64,
}

impl CivilDate {
    /// Converts a day number since 1970-01-01 to a date.
    fn of_day(day: i64) -> Self {
        // In this computation a year begins in March, so that the leap day is its last day. An era is 400
        // years.
        let day = day + 719_468;
        let (era, of_era) = (day.div_euclid(146_097), day.rem_euclid(146_097));
        let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year + year / 4 - year / 100);
        let month = (5 * of_year + 2) / 153;
        let day = of_year - (153 * month + 2) / 5 + 1;
        let month = if month < 10 { month + 3 } else { month - 9 };
        Self { year: year + era * 400 + i64::from(month <= 2), month, day }
    }
}

//! Parses timestamps by a layout, as Go's `time.Parse` does. It accepts more than RFC 3339, and returns the
//! same errors as Go.

use std::ops::RangeInclusive;

use thiserror::Error;

use super::{DAY, day_of, days, fraction, number};
use crate::duration::parse::Quoted;

const LAYOUT: &str = "2006-01-02T15:04:05Z07:00";
const MICRO_LAYOUT: &str = "2006-01-02T15:04:05.000000Z07:00";

/// The error for a string that is not a timestamp. It has the message of Go, which quotes the string.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum TimeError {
    /// A component of the string does not match the layout.
    #[error(
        "parsing time {} as {}: cannot parse {} as {}",
        Quoted(text),
        Quoted(layout),
        Quoted(rest),
        Quoted(element)
    )]
    Unreadable {
        /// The string that was parsed.
        text: String,
        /// The layout of a timestamp in Go's notation.
        layout: &'static str,
        /// The part of the string from the invalid component on.
        rest: String,
        /// The component of the layout that does not match, such as `15` for the hour.
        element: &'static str,
    },
    /// A number in the string is out of range.
    #[error("parsing time {}: {part} out of range", Quoted(text))]
    OutOfRange {
        /// The string that was parsed.
        text: String,
        /// The component of the timestamp that is out of range, such as `month`.
        part: &'static str,
    },
    /// Text follows the timestamp.
    #[error("parsing time {}: extra text: {}", Quoted(text), Quoted(rest))]
    ExtraText {
        /// The string that was parsed.
        text: String,
        /// The text after the timestamp.
        rest: String,
    },
}

#[derive(Debug)]
pub(super) enum TimeProblem<'a> {
    Element { rest: &'a str, element: &'static str },
    Range(&'static str),
    Extra(&'a str),
}

impl TimeProblem<'_> {
    /// Returns the error for the timestamp `text`, given the problem of one of its components.
    pub(super) fn into_error(self, text: &str, micro: bool) -> TimeError {
        let text = text.to_owned();
        match self {
            Self::Element { rest, element } => {
                let layout = if micro { MICRO_LAYOUT } else { LAYOUT };
                TimeError::Unreadable { text, layout, rest: rest.to_owned(), element }
            }
            Self::Range(part) => TimeError::OutOfRange { text, part },
            Self::Extra(rest) => TimeError::ExtraText { text, rest: rest.to_owned() },
        }
    }
}

/// Parses a timestamp; returns seconds since 1970-01-01T00:00:00Z and nanoseconds.
pub(super) fn read(text: &str, micro: bool) -> Result<(i64, i64), TimeProblem<'_>> {
    let mut reader = LayoutReader { rest: text };
    let year = reader.number(4..=4, "2006")?;
    reader.expect("-")?;
    let month = reader.within(2..=2, "01", "month", 1..=12)?;
    reader.expect("-")?;
    let date = reader.number(2..=2, "02")?;
    reader.expect("T")?;
    let hour = reader.within(1..=2, "15", "hour", 0..=23)?;
    reader.expect(":")?;
    let minute = reader.within(2..=2, "04", "minute", 0..=59)?;
    reader.expect(":")?;
    let second = reader.within(2..=2, "05", "second", 0..=59)?;
    let nanos = if micro { reader.micros()? * 1_000 } else { reader.any_fraction() };
    let offset = reader.zone()?;
    if !reader.rest.is_empty() {
        return Err(TimeProblem::Extra(reader.rest));
    }
    // The day is validated last, because it depends on the month.
    if !(1..=days(year, month)).contains(&date) {
        return Err(TimeProblem::Range("day"));
    }
    Ok((day_of(year, month, date) * DAY + hour * 3600 + minute * 60 + second - offset, nanos))
}

struct LayoutReader<'a> {
    rest: &'a str,
}

impl<'a> LayoutReader<'a> {
    fn mismatch(&self, element: &'static str) -> TimeProblem<'a> {
        TimeProblem::Element { rest: self.rest, element }
    }

    fn expect(&mut self, expect: &'static str) -> Result<(), TimeProblem<'a>> {
        self.rest = self.rest.strip_prefix(expect).ok_or_else(|| self.mismatch(expect))?;
        Ok(())
    }

    fn number(
        &mut self,
        count: RangeInclusive<usize>,
        element: &'static str,
    ) -> Result<i64, TimeProblem<'a>> {
        let found = self.rest.bytes().take(*count.end()).take_while(u8::is_ascii_digit).count();
        if found < *count.start() {
            return Err(self.mismatch(element));
        }
        let (digits, rest) = self.rest.split_at(found);
        let read = number(digits.as_bytes()).ok_or_else(|| self.mismatch(element))?;
        self.rest = rest;
        Ok(read)
    }

    fn within(
        &mut self,
        count: RangeInclusive<usize>,
        element: &'static str,
        part: &'static str,
        range: RangeInclusive<i64>,
    ) -> Result<i64, TimeProblem<'a>> {
        let read = self.number(count, element)?;
        if range.contains(&read) { Ok(read) } else { Err(TimeProblem::Range(part)) }
    }

    /// Parses an optional fraction of a second, which Go accepts although the layout has none. An invalid
    /// fraction is not consumed, so that parsing the time zone fails.
    fn any_fraction(&mut self) -> i64 {
        let (nanos, length) = fraction(self.rest.as_bytes()).unwrap_or_default();
        self.rest = &self.rest[length..];
        nanos
    }

    /// Parses the six fractional digits of the layout. They are parsed as a signed number, as in Go.
    fn micros(&mut self) -> Result<i64, TimeProblem<'a>> {
        const ELEMENT: &str = ".000000";
        let wrong = self.mismatch(ELEMENT);
        let digits = self.rest.strip_prefix(['.', ',']).and_then(|rest| rest.get(..6));
        let Some(digits) = digits else { return Err(wrong) };
        let unsigned = digits.strip_prefix(['-', '+']).unwrap_or(digits);
        let Some(micros) = number(unsigned.as_bytes()) else { return Err(wrong) };
        if digits.starts_with('-') && micros > 0 {
            return Err(TimeProblem::Range("fractional second"));
        }
        self.rest = &self.rest[ELEMENT.len()..];
        Ok(micros)
    }

    /// Parses a zone offset in seconds east of UTC.
    fn zone(&mut self) -> Result<i64, TimeProblem<'a>> {
        let wrong = self.mismatch("Z07:00");
        if let Some(rest) = self.rest.strip_prefix('Z') {
            self.rest = rest;
            return Ok(0);
        }
        let &[sign, h, i, b':', m, n, ..] = self.rest.as_bytes() else { return Err(wrong) };
        let hours = number(&[h, i]);
        let minutes = hours.and_then(|_| number(&[m, n]));
        // As in Go, the largest valid values are 24 hours and 60 minutes, not 23 and 59.
        if hours > Some(24) {
            return Err(TimeProblem::Range("time zone offset hour"));
        }
        if minutes > Some(60) {
            return Err(TimeProblem::Range("time zone offset minute"));
        }
        let (Some(hours), Some(minutes), b'+' | b'-') = (hours, minutes, sign) else { return Err(wrong) };
        self.rest = &self.rest[6..];
        let seconds = hours * 3600 + minutes * 60;
        Ok(if sign == b'-' { -seconds } else { seconds })
    }
}

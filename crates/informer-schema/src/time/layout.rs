//! Times read by a layout, as Go's package of time does it: it takes more than RFC 3339 has, and says what is wrong with the rest.

use std::ops::RangeInclusive;

use thiserror::Error;

use super::{DAY, day_of, days, fraction, number};
use crate::duration::Quoted;

const LAYOUT: &str = "2006-01-02T15:04:05Z07:00";
const MICRO_LAYOUT: &str = "2006-01-02T15:04:05.000000Z07:00";

/// Why a text is no time, told in Go's words. They have the text itself.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum TimeError {
    /// A part is not what the layout has in its place.
    #[error(
        "parsing time {} as {}: cannot parse {} as {}",
        Quoted(text),
        Quoted(layout),
        Quoted(rest),
        Quoted(element)
    )]
    Unreadable {
        /// The whole text.
        text: String,
        /// The layout.
        layout: &'static str,
        /// The text from there on.
        rest: String,
        /// The part of the layout.
        element: &'static str,
    },
    /// A number is greater or less than it may be.
    #[error("parsing time {}: {part} out of range", Quoted(text))]
    OutOfRange {
        /// The whole text.
        text: String,
        /// What the number is.
        part: &'static str,
    },
    /// Something follows.
    #[error("parsing time {}: extra text: {}", Quoted(text), Quoted(rest))]
    ExtraText {
        /// The whole text.
        text: String,
        /// What follows.
        rest: String,
    },
}

/// What is wrong with a part of a time.
#[derive(Debug)]
pub(super) enum Wrong<'a> {
    Element { rest: &'a str, element: &'static str },
    Range(&'static str),
    Extra(&'a str),
}

impl Wrong<'_> {
    /// The same of the whole text.
    pub(super) fn told(self, text: &str, micro: bool) -> TimeError {
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

/// Reads a time as seconds and nanoseconds.
pub(super) fn read(text: &str, micro: bool) -> Result<(i64, i64), Wrong<'_>> {
    let mut reader = Reader { rest: text };
    let year = reader.number(4..=4, "2006")?;
    reader.mark("-")?;
    let month = reader.within(2..=2, "01", "month", 1..=12)?;
    reader.mark("-")?;
    let date = reader.number(2..=2, "02")?;
    reader.mark("T")?;
    let hour = reader.within(1..=2, "15", "hour", 0..=23)?;
    reader.mark(":")?;
    let minute = reader.within(2..=2, "04", "minute", 0..=59)?;
    reader.mark(":")?;
    let second = reader.within(2..=2, "05", "second", 0..=59)?;
    let nanos = if micro { reader.micros()? * 1_000 } else { reader.any_fraction() };
    let offset = reader.zone()?;
    if !reader.rest.is_empty() {
        return Err(Wrong::Extra(reader.rest));
    }
    // The day is judged last, when the month is known.
    if !(1..=days(year, month)).contains(&date) {
        return Err(Wrong::Range("day"));
    }
    Ok((day_of(year, month, date) * DAY + hour * 3600 + minute * 60 + second - offset, nanos))
}

struct Reader<'a> {
    rest: &'a str,
}

impl<'a> Reader<'a> {
    fn not(&self, element: &'static str) -> Wrong<'a> {
        Wrong::Element { rest: self.rest, element }
    }

    fn mark(&mut self, mark: &'static str) -> Result<(), Wrong<'a>> {
        self.rest = self.rest.strip_prefix(mark).ok_or_else(|| self.not(mark))?;
        Ok(())
    }

    /// A number of so many digits.
    fn number(&mut self, count: RangeInclusive<usize>, element: &'static str) -> Result<i64, Wrong<'a>> {
        let found = self.rest.bytes().take(*count.end()).take_while(u8::is_ascii_digit).count();
        if found < *count.start() {
            return Err(self.not(element));
        }
        let (digits, rest) = self.rest.split_at(found);
        let read = number(digits.as_bytes()).ok_or_else(|| self.not(element))?;
        self.rest = rest;
        Ok(read)
    }

    fn within(
        &mut self,
        count: RangeInclusive<usize>,
        element: &'static str,
        part: &'static str,
        range: RangeInclusive<i64>,
    ) -> Result<i64, Wrong<'a>> {
        let read = self.number(count, element)?;
        if range.contains(&read) { Ok(read) } else { Err(Wrong::Range(part)) }
    }

    /// A fraction that the layout does not have. What is none is left to what follows.
    fn any_fraction(&mut self) -> i64 {
        let (nanos, length) = fraction(self.rest.as_bytes()).unwrap_or_default();
        self.rest = &self.rest[length..];
        nanos
    }

    /// The six digits of a second that the layout has. They are read as any number, so the first of them may be a sign.
    fn micros(&mut self) -> Result<i64, Wrong<'a>> {
        const ELEMENT: &str = ".000000";
        let wrong = self.not(ELEMENT);
        let digits = self.rest.strip_prefix(['.', ',']).and_then(|rest| rest.get(..6));
        let Some(digits) = digits else { return Err(wrong) };
        let unsigned = digits.strip_prefix(['-', '+']).unwrap_or(digits);
        let Some(micros) = number(unsigned.as_bytes()) else { return Err(wrong) };
        if digits.starts_with('-') && micros > 0 {
            return Err(Wrong::Range("fractional second"));
        }
        self.rest = &self.rest[ELEMENT.len()..];
        Ok(micros)
    }

    /// The seconds by which a zone is ahead.
    fn zone(&mut self) -> Result<i64, Wrong<'a>> {
        let wrong = self.not("Z07:00");
        if let Some(rest) = self.rest.strip_prefix('Z') {
            self.rest = rest;
            return Ok(0);
        }
        let &[sign, h, i, b':', m, n, ..] = self.rest.as_bytes() else { return Err(wrong) };
        let hours = number(&[h, i]);
        let minutes = hours.and_then(|_| number(&[m, n]));
        // An hour and a minute too many are what some people write.
        if hours > Some(24) {
            return Err(Wrong::Range("time zone offset hour"));
        }
        if minutes > Some(60) {
            return Err(Wrong::Range("time zone offset minute"));
        }
        let (Some(hours), Some(minutes), b'+' | b'-') = (hours, minutes, sign) else { return Err(wrong) };
        self.rest = &self.rest[6..];
        let seconds = hours * 3600 + minutes * 60;
        Ok(if sign == b'-' { -seconds } else { seconds })
    }
}
